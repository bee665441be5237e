from __future__ import annotations

import pytest

from tests.unit.slurm.test_names import raw
from wheeltapper_slurm import spool
from wheeltapper_slurm.wishes import wants_requeue


@pytest.mark.parametrize(
    ("comment", "wish"),
    [
        ("", None),
        ("grant 4711", None),
        ("wheeltapper=off", False),
        ("grant 4711, wheeltapper=off", False),
        ("WheelTapper=ON;grant 4711", True),
        ("wheeltapper=off wheeltapper=on", True),
        ("wheeltapper=offline", None),
        ("notwheeltapper=off", None),
        ("wheeltapper=", None),
    ],
)
def test_what_a_users_comment_asks_for(comment, wish):
    assert wants_requeue(comment) is wish


def test_the_comment_comes_with_the_end_of_the_job():
    assert spool.parse(raw(SLURM_JOB_COMMENT="wheeltapper=off"), at=0.0).comment == "wheeltapper=off"
    assert spool.parse(raw(SLURM_JOB_COMMENT="(null)"), at=0.0).comment == ""
