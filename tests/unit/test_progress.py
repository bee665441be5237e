from __future__ import annotations

import pytest

from wheeltapper.scan.progress import last_step


@pytest.mark.parametrize(
    ("text", "step"),
    [
        pytest.param("step 1 loss 4.0\nstep 12 loss 3.9\nNCCL WARN 99\n", 12, id="words"),
        pytest.param("Step: 12 | loss 3.9", 12, id="a colon"),
        pytest.param("global_step=1200, loss=2.0", 1200, id="an equals sign"),
        pytest.param('{"ts": "2026-11-29T12:00:00", "step": 37, "loss": 1.5}\n', 37, id="JSON"),
        pytest.param(" iteration     4500/ 500000 | consumed samples: 9216000", 4500, id="Megatron's own form"),
        pytest.param(" 45%|####5     | 450/1000 [01:02<01:15, 7.2it/s]", 450, id="a progress bar"),
        pytest.param("step 7\nresuming from step 5\n", 5, id="the last one counts"),
        pytest.param("Traceback: in train_step\n  File x, line 3", None, id="a function's name"),
        pytest.param("timestep 12", None, id="another word"),
        pytest.param("elapsed per step 0.25 s", None, id="a duration"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_the_last_step_that_a_log_tells_of(text, step):
    assert last_step(text.encode()) == step
