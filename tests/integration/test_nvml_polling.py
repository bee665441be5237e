"""What a thousand polls of NVML leave behind."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.integration import fake_nvml

GPU = fake_nvml.TWO[0]


def test_a_thousand_polls_with_hangs_and_failures_leave_no_child_and_take_no_memory(tmp_path):
    """In a process of its own, as lean as an agent: what a fork costs grows with the process."""
    orders = {"well": (), "hangs": ["hang nvmlDeviceGetCount_v2"], "fails": ["fail nvmlInit 999"]}
    for name, lines in orders.items():
        told = {"addresses": [GPU], "orders": lines, "gpus": {GPU: {"without": tuple(fake_nvml.HEALTHY)}}}
        fake_nvml.lay(tmp_path, told).rename(tmp_path / name)

    command = [sys.executable, "-m", "tests.integration.polling", str(fake_nvml.library()), str(tmp_path)]
    done = subprocess.run(command, cwd=fake_nvml.ROOT, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)

    assert told["seen"] == {"well": 950, "hangs": 25, "fails": 25}
    assert told["grown_kb"] < 1_024
    assert told["children"] == []
