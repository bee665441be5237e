"""A run that takes further steps has survived what its log told before: no job goes on without a rank that died."""

from __future__ import annotations

import pytest

from tests.unit.evidence import log, watchdog
from wheeltapper.attempt import Attempt, Ending
from wheeltapper.diagnosis.advice import nothing_happened
from wheeltapper.diagnosis.diagnose import diagnose

CAUGHT = [
    "Traceback (most recent call last):",
    '  File "/w/eval.py", line 14, in run',
    "ZeroDivisionError: division by zero",
]
REFUSED = ["requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='s3.local', port=443): Read timed out."]


def megatron(*steps: int) -> list[str]:
    return [f" [2026-03-01 10:00:{step % 60:02d}] iteration {step:8d}/  500000 | lm loss: 2.1E+00 |" for step in steps]


def hugging_face(*steps: int) -> list[str]:
    return [f"{{'loss': 1.9, 'grad_norm': 0.8, 'learning_rate': 2e-05, 'epoch': {step / 100}}}" for step in steps]


def bar(*steps: int) -> list[str]:
    return [f"Map (num_proc=8):  {step}%|###    | {step}/100 [00:{step:02d}<01:00,  1.00 examples/s]" for step in steps]


def nothing(*lines: str, attempt: Attempt | None = None) -> bool:
    return nothing_happened(diagnose(log(*lines), attempt, window_s=1800.0))


@pytest.mark.parametrize("steps", [megatron, hugging_face])
@pytest.mark.parametrize("said", [CAUGHT, REFUSED, ["RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"]])
def test_what_a_run_goes_on_from_was_survived(steps, said):
    assert nothing(*steps(1, 2), *said, *steps(3, 4, 5, 6, 7))


@pytest.mark.parametrize("prefix", ["", "[rank0]: ", "[default0]:"])
@pytest.mark.parametrize("where", ["<module>", "_run_module_as_main"])
def test_what_a_program_had_printed_before_it_died_may_stand_behind_its_traceback(prefix, where):
    """Standard output to a file is written in blocks, the last of them at the end; standard error is not."""
    died = [CAUGHT[0], f'  File "/w/train.py", line 90, in {where}', *CAUGHT[1:]]
    assert not nothing(*hugging_face(1, 2), *(prefix + line for line in died), *hugging_face(3, 4, 5, 6, 7))


def test_what_a_shell_tried_before_the_run_was_survived():
    tried = [CAUGHT[0], '  File "<string>", line 1, in <module>', "ModuleNotFoundError: No module named 'apex'"]
    assert nothing(*tried, "no apex", *hugging_face(1, 2, 3, 4, 5, 6, 7))


def test_a_job_that_was_started_again_after_its_watchdogs_had_ended_it_was_interrupted():
    assert not nothing(*megatron(1, 2), *watchdog(0), *watchdog(1), *megatron(1, 2, 3, 4, 5, 6, 7))


def test_one_step_of_ranks_that_do_not_know_yet_is_no_going_on():
    assert not nothing(*megatron(1, 2), *CAUGHT, *megatron(3, 4))


def test_the_same_step_again_and_again_is_no_going_on():
    assert not nothing(*megatron(1, 2), *CAUGHT, *megatron(3, 3, 3, 3, 3, 3))


def test_the_bars_of_other_ranks_are_no_going_on():
    assert not nothing(*CAUGHT, *bar(10, 20, 30, 40, 50, 60))


def test_a_log_that_went_on_and_then_failed_tells_of_a_failure():
    assert not nothing(*CAUGHT, *megatron(3, 4, 5, 6, 7), *watchdog(0))


def test_last_words_after_the_steps_are_of_an_end():
    assert not nothing(*CAUGHT, *megatron(3, 4, 5, 6, 7), "Exited with exit code 1.")


def test_a_scheduler_that_counts_the_job_as_failed_is_believed_first():
    attempt = Attempt(key="12@", job="12", ending=Ending.FAILED, nodes=("n1",))
    assert not nothing(*CAUGHT, *megatron(3, 4, 5, 6, 7), attempt=attempt)


def test_a_test_suite_that_passed_raised_what_it_expected():
    said = "ERROR    guard.py:31 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 GiB"
    assert nothing(said, "======== 41 passed, 3 warnings in 12.31s ========")
    assert not nothing(said, "======== 1 failed, 40 passed in 12.31s ========")
