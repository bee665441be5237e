"""The registers of an Xid 74."""

from __future__ import annotations

import pytest

from tests.unit.evidence import kernel
from wheeltapper.nvlink4 import CORRECTED, HARDWARE, IGNORED, MEANINGS, PARITY, REPEATED, SECONDARY, decode
from wheeltapper.recovery import heeded


def words(**bits: int) -> list[int]:
    """Seven words with one bit set in each that is named, such as ``w3=16``."""
    return [1 << bits[name] if (name := f"w{word}") in bits else 0 for word in range(1, 8)]


@pytest.mark.parametrize(
    ("registers", "kinds"),
    [
        (words(w3=16), (REPEATED,)),
        (words(w1=8, w5=20), (HARDWARE, CORRECTED)),
        (words(w1=0), (IGNORED,)),
        (words(w4=16), (SECONDARY,)),
        (words(w5=18, w2=31, w6=31, w7=31), (PARITY,)),
        (words(w1=0, w3=31), ()),
        (words(), ()),
    ],
    ids=["third", "two kinds", "ignored", "secondary", "words that do not count", "a bit not explained", "nothing set"],
)
def test_bits_mean_what_nvidia_says(registers, kinds):
    assert decode(registers) == kinds


def test_no_bit_has_two_meanings():
    for kinds in MEANINGS.values():
        bits = [bit for each in kinds.values() for bit in each]
        assert len(bits) == len(set(bits))


def judged(registers: list[int] | None):
    shown = f"({', '.join(map(hex, registers))})" if registers else ""
    text = f"NVRM: Xid (PCI:0000:07:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 3{shown}"
    (finding,) = heeded(kernel(text))
    return finding


@pytest.mark.parametrize("registers", [None, words(), words(w3=31), words(w3=16), words(w4=16), words(w1=8, w5=20)])
def test_a_link_is_broken_unless_all_of_its_bits_need_no_action(registers):
    assert judged(registers).disposition.value == "reset_gpu"


@pytest.mark.parametrize("registers", [words(w1=23), words(w5=29), words(w1=0, w5=20)])
def test_what_needs_no_action_convicts_no_gpu(registers):
    assert not judged(registers).convicts


def test_the_summary_says_what_was_seen():
    assert judged(words(w1=16)).summary == "NVLINK Error: a mechanical or hardware fault"
