"""How the API server is reached: by a proxy where the environment names one, which is asked once."""

from __future__ import annotations

import pytest

from wheeltapper_operator.api import SESSION, proxy_of

PROXY = "http://proxy.example:3128"
URL = "https://10.96.0.1:443"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_without_a_word_of_the_environment_there_is_no_proxy():
    assert proxy_of(URL) is None


def test_the_proxy_for_this_scheme_counts(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://another.example:3128")
    assert proxy_of(URL) is None

    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    assert proxy_of(URL) == PROXY


def test_a_server_that_is_reached_without_it_has_none(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", "10.96.0.1,localhost")

    assert proxy_of(URL) is None


def test_a_request_does_not_ask_the_environment():
    assert SESSION["trust_env"] is False
