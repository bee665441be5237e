"""A run that goes well gives no interruption, whatever words its log uses."""

from __future__ import annotations

import io

import pytest

from tests.unit import healthy
from tests.unit.evidence import CATALOGUE
from wheeltapper.diagnosis.advice import nothing_happened
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.evidence import Role
from wheeltapper.scan import scan_log

SIZE = 400_000


@pytest.mark.parametrize("shape", healthy.SHAPES, ids=lambda shape: shape.__name__.strip("_"))
def test_healthy_log_is_silent(shape):
    data = b"".join(healthy.log(shape, SIZE))
    assert len(data) > SIZE / 2
    findings = list(scan_log(io.BytesIO(data), CATALOGUE, file="train.log"))
    assert [each.evidence.text for each in findings if each.role is not Role.BENIGN] == []
    assert nothing_happened(diagnose(findings, None, window_s=1800.0))


def test_the_one_line_with_which_a_healthy_log_breaks_off_is_found():
    lines = list(healthy.lines(healthy.SHAPES[0], 3000))[:2000]
    lines.append("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    data = "\n".join(lines).encode()
    answer = diagnose(list(scan_log(io.BytesIO(data), CATALOGUE, file="train.log")), None, window_s=1800.0)
    assert answer.label == "software/oom"
    assert answer.root is not None
    assert answer.root.evidence.line == 2001
