"""Records of /dev/kmsg."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wheeltapper.kmsg import KERNEL, Record, parse_record


def test_record_is_taken_apart():
    text = "12,339,5140900,c;NET: Registered protocol; family 10\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0"
    fields = {"SUBSYSTEM": "pci", "DEVICE": "+pci:0000:3b:00.0"}
    assert parse_record(text) == Record(1, 4, 339, 5140900, "NET: Registered protocol; family 10", fields)


def test_further_header_fields_are_for_later_kernels():
    record = parse_record("6,1,2,-,caller=T1;text")
    assert record is not None
    assert (record.facility, record.text) == (KERNEL, "text")


def test_what_is_no_record_is_none():
    for text in ("", "text", "6,1,2;", " SUBSYSTEM=pci", "x,1,2,-;t", "6,1,2,-", "-6,1,2,-;t", "6,,2,-;t"):
        assert parse_record(text) is None


@given(st.text())
def test_no_text_breaks_the_parser(text):
    record = parse_record(text)
    assert record is None or record.sequence >= 0


@given(
    st.integers(0, 23),
    st.integers(0, 7),
    st.integers(0, 2**63),
    st.integers(0, 2**63),
    st.text(st.characters(exclude_characters="\n")),
)
def test_every_record_comes_back(facility, level, sequence, usec, message):
    record = parse_record(f"{facility * 8 + level},{sequence},{usec},-;{message}")
    assert record == Record(facility, level, sequence, usec, message)
