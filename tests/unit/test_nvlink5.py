"""NVIDIA's table of NVLink 5 registers."""

from __future__ import annotations

import pytest

from tests.unit.evidence import kernel
from wheeltapper.nvlink5 import decode, table
from wheeltapper.recovery import heeded

LINE = "NVRM: Xid (PCI:0018:01:00): {code}, {unit} {word} XC0 i0 Link 11 ({info:#010x} {status:#010x} 0x00000000)"


def test_the_table_is_whole():
    assert len(table()) == 95
    assert {row.code for row in table()} == set(range(144, 151))
    assert {row.action for row in table()} == {"ignore", "reset_gpu", "xid_154_eval"}
    assert all(len(mask) == 32 for row in table() for mask in (*row.masks, *row.promoted))


@pytest.mark.parametrize(
    ("code", "unit", "info", "status", "action", "look_at"),
    [
        (149, "NETIR_LINK_EVT", 0x004505C6, 0, "reset_gpu", "the link's signal"),
        (149, "NETIR_LINK_EVT", 0x021425C6, 0, "reset_gpu", "the peer, which went down first"),
        (149, "NETIR_LINK_DOWN", 0b101000 << 20 | 0b0111000110, 0, "ignore", "the host"),
        (145, "RLW_SRC_TRACK", 0x040988E2, 0x8, "xid_154_eval", ""),
        (144, "SAW_MVB", 0b100001, 0x1, "ignore", ""),
        (144, "SAW_MVB", 0b100001, 0x2, "reset_gpu", ""),
        (145, "RLW_RXPIPE", 0b00011000010, 0x1, "ignore", ""),
        (145, "RLW_RXPIPE", 0b10011000010, 0x1, "reset_gpu", ""),
        (149, "NETIR_MFDE_EVENT", 0b1001000110, 0x3, "ignore", ""),
    ],
)
def test_registers_mean_what_nvidias_sheet_says(code, unit, info, status, action, look_at):
    assert decode(code, unit, info, status) == (action, look_at)


def test_of_several_status_bits_the_gravest_counts():
    assert decode(144, "SAW_MVB", 0b100001, 0x3) == ("reset_gpu", "")


def test_a_message_that_the_sheet_does_not_know_is_judged_by_its_word():
    assert decode(144, "NO_SUCH_UNIT", 0, 0) is None
    (fatal,) = heeded(kernel(LINE.format(code=144, unit="NO_SUCH_UNIT", word="Fatal", info=0, status=0)))
    assert fatal.convicts


def test_what_the_sheet_ignores_convicts_no_gpu():
    told = kernel(
        LINE.format(code=149, unit="NETIR_LINK_DOWN", word="Fatal", info=0b101000 << 20 | 0b0111000110, status=0)
    )
    (judged,) = heeded(told)
    assert told[0].convicts
    assert not judged.convicts


def test_what_to_look_at_next_is_told():
    (judged,) = heeded(kernel(LINE.format(code=149, unit="NETIR_LINK_EVT", word="Fatal", info=0x021425C6, status=0)))
    assert judged.convicts
    assert judged.summary.endswith("look at the peer, which went down first")
