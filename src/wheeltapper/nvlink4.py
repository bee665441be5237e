"""What the seven register words of an Xid 74 mean, the NVLink error of GPUs before Blackwell.

Source: NVIDIA's Xid documentation, section on Xid 74; of the words the first, third, fourth and fifth count. A bit that
it does not explain leaves the message what it is without registers: a fault of the link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from wheeltapper.evidence import Disposition, Finding, Role

SIGNATURE: Final = "nvidia.xid.74"

IGNORED: Final = "a state that needs no action"
CORRECTED: Final = "only a count of corrected errors"
SECONDARY: Final = "the echo of a fault elsewhere"
PARITY: Final = "an ECC or parity error"
HARDWARE: Final = "a mechanical or hardware fault"
SIGNAL: Final = "a marginal signal"
REPEATED: Final = "a fault to report when it comes again"

MEANINGS: Final[dict[int, dict[str, tuple[int, ...]]]] = {
    1: {
        IGNORED: (0, 23, 30),
        SECONDARY: (1, 20),
        PARITY: (4, 5),
        HARDWARE: (8, 9, 12, 16, 17, 24, 28),
        SIGNAL: (21, 22),
        REPEATED: (27, 29),
    },
    3: {PARITY: (0, 1, 2, 6), REPEATED: (16, 17, 18, 19)},
    4: {SECONDARY: (16, 17, 18)},
    5: {PARITY: (18, 19, 21, 22, 24, 25, 27, 28), CORRECTED: (20, 23, 26, 29)},
}
"""The bits of each word that counts, the words counted from 1."""

_KIND_OF: Final = {
    (word, bit): kind for word, kinds in MEANINGS.items() for kind, bits in kinds.items() for bit in bits
}
_WORDS = re.compile(r"\blink \d+ ?\((0x[0-9a-fA-F]{1,8}(?:, 0x[0-9a-fA-F]{1,8}){6})\)")


def decode(words: list[int]) -> tuple[str, ...]:
    """Return what the bits set in the seven *words* mean, each kind once; nothing when a bit is not explained."""
    bits = [(word, bit) for word in MEANINGS for bit in range(32) if words[word - 1] >> bit & 1]
    kinds = [_KIND_OF.get(bit) for bit in bits]
    return () if None in kinds else tuple(dict.fromkeys(kind for kind in kinds if kind))


def decoded(findings: Iterable[Finding]) -> list[Finding]:
    """Return *findings* with each Xid 74 judged by its registers.

    What needs no action convicts no GPU; all else keeps the sentence of the code, and says what was seen.
    """
    return [_decoded(each) if each.signature == SIGNATURE else each for each in findings]


def _decoded(finding: Finding) -> Finding:
    words = _WORDS.search(finding.evidence.text)
    kinds = decode([int(word, 16) for word in words[1].split(", ")]) if words else ()
    if not kinds:
        return finding
    summary = f"{finding.summary}: {', '.join(kinds)}"
    if set(kinds) <= {IGNORED, CORRECTED}:
        return replace(finding, role=Role.SYMPTOM, disposition=Disposition.NONE, summary=summary)
    return replace(finding, summary=summary)
