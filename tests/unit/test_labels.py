from __future__ import annotations

import pytest

from wheeltapper import labels
from wheeltapper.evidence import pci_address


def test_the_taxonomy_has_the_six_families():
    assert sorted(labels.KINDS) == ["hardware", "network", "resource", "scheduler", "software", "unknown"]


def test_transient_labels_are_labels():
    assert labels.TRANSIENT <= labels.ALL


@pytest.mark.parametrize("text", ["hardware", "hardware/", "hardware/gpu", "HARDWARE/gpu_xid", ""])
def test_what_is_no_label(text):
    with pytest.raises(ValueError, match="is not a label"):
        labels.label(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:3b:00", "0000:3b:00"),
        ("00000000:3B:00.0", "0000:3b:00"),
        ("3b:00.0", "0000:3b:00"),
        ("0001:0a:1f", "0001:0a:1f"),
        ("gpu0", None),
        ("", None),
        ("0000:3b", None),
    ],
)
def test_pci_addresses_have_one_spelling(text, address):
    assert pci_address(text) == address
