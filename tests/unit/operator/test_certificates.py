"""The webhook's certificate is renewed in time, and no client is ever met by an authority that it was not told of."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from cryptography import x509

from wheeltapper_operator.certificates import (
    AUTHORITY_FOR,
    AUTHORITY_KEY,
    BUNDLE,
    CERTIFICATE,
    CERTIFICATE_FOR,
    KEY,
    SETTLE,
    renewed,
)
from wheeltapper_operator.trust import hosts

NOW = datetime(2026, 11, 29, 12, tzinfo=timezone.utc)
HOSTS = hosts("wheeltapper-webhook", "wheeltapper")
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def first():
    return renewed({}, HOSTS, NOW)


def authorities(files):
    return x509.load_pem_x509_certificates(files[BUNDLE])


def certificate(files):
    return x509.load_pem_x509_certificate(files[CERTIFICATE])


def test_the_first_certificate_is_for_the_service_and_of_the_authority(first):
    names = certificate(first).extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    certificate(first).verify_directly_issued_by(authorities(first)[0])
    assert names.get_values_for_type(x509.DNSName) == list(HOSTS)


def test_what_is_good_stays(first):
    assert renewed(first, HOSTS, NOW) is None
    assert renewed(first, HOSTS, NOW + CERTIFICATE_FOR * 0.6) is None


def test_a_certificate_is_renewed_while_a_third_of_it_is_left(first):
    later = NOW + CERTIFICATE_FOR * 0.7
    files = renewed(first, HOSTS, later)

    assert certificate(files).not_valid_after_utc == later + CERTIFICATE_FOR
    assert files[BUNDLE] == first[BUNDLE]


def test_a_new_authority_is_told_about_before_it_signs(first):
    later = NOW + AUTHORITY_FOR / 2 + DAY
    settled = renewed(first, HOSTS, later - 2 * DAY)
    told = renewed(settled, HOSTS, later)

    assert len(authorities(told)) == 2
    assert told[CERTIFICATE] == settled[CERTIFICATE]
    assert renewed(told, HOSTS, later + SETTLE) is None

    after = renewed(told, HOSTS, later + CERTIFICATE_FOR * 0.7)
    certificate(after).verify_directly_issued_by(authorities(told)[1])


def test_an_authority_that_has_run_out_leaves_the_bundle(first):
    files = renewed(first, HOSTS, NOW + AUTHORITY_FOR + DAY)

    assert len(authorities(files)) == 1
    certificate(files).verify_directly_issued_by(authorities(files)[0])


@pytest.mark.parametrize(
    ("broken", "value"),
    [(CERTIFICATE, b""), (CERTIFICATE, b"no certificate"), (KEY, b""), (AUTHORITY_KEY, b"no key"), (BUNDLE, b"")],
)
def test_what_is_lost_or_spoilt_is_made_anew_and_good(first, broken, value):
    files = renewed({**first, broken: value}, HOSTS, NOW)

    assert any(_issued(certificate(files), each) for each in authorities(files))
    assert renewed(files, HOSTS, NOW) is None


def _issued(leaf, authority):
    try:
        leaf.verify_directly_issued_by(authority)
    except ValueError:
        return False
    return True


def test_another_service_name_needs_another_certificate(first):
    files = renewed(first, hosts("other", "wheeltapper"), NOW)

    assert files[CERTIFICATE] != first[CERTIFICATE]
    assert files[BUNDLE] == first[BUNDLE]
