"""Real stubs, real client, real agent, no controller service: verdicts, restarts, reloads, and what goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.integration.node import LOST, Node, boot_id, until, uptime

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def test_a_healthy_node_passes_every_hook(node: Node):
    node.start()

    for hook in ("prolog", "epilog", "healthcheck"):
        ended = node.hook(hook)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert node.slurm.calls == []
    assert node.hooks_log == ""


def test_the_verdict_file_is_what_the_stub_reads(node: Node):
    node.start()
    state, boot, expires = node.verdict_file.read_text().splitlines()[0].split()

    assert (state, boot) == ("ok", boot_id())
    assert 25 <= int(expires) - uptime() <= 30


def test_a_verdict_is_renewed_before_it_expires(node: Node):
    node.configure(agent={"verdict_valid_s": 1.5})
    node.start()
    first = node.verdict_file.stat().st_mtime_ns
    until(lambda: node.verdict_file.stat().st_mtime_ns > first, "a renewed verdict")

    assert node.state == "ok"


def test_a_lost_gpu_is_in_the_verdict_before_it_is_renewed(node: Node):
    """The line itself wakes the agent: nothing waits for the next look."""
    node.configure(agent={"verdict_valid_s": 3600.0})
    node.start()
    node.lose_gpu()

    until(lambda: node.state == "fail", "the verdict")


def test_a_lost_gpu_stops_the_next_job_with_a_full_reason(node: Node):
    node.start()
    node.convict()
    ended = node.hook("prolog", "1234")

    assert ended.returncode == 1
    assert node.slurm.state == "IDLE+DRAIN"
    assert node.slurm.reason.startswith("wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 job=1234 at=")
    assert node.slurm.reason.endswith("Z: reboot")
    assert node.slurm.reason in ended.stdout


def test_a_line_that_was_written_just_before_the_hook_is_seen_by_it(node: Node):
    """The plain file is looked at 20 times a second; a hook must not slip between two looks."""
    node.start()
    assert node.hook("prolog").returncode == 0
    node.lose_gpu()

    assert node.hook("epilog").returncode == 1


def test_only_the_fault_of_its_own_stay_fails_a_jobs_epilog(node: Node):
    node.configure(policy={"mode": "quarantine"})
    node.start()
    assert node.hook("prolog", "1").returncode == 0
    node.convict()
    assert node.hook("prolog", "2").returncode == 1

    assert node.hook("epilog", "2").returncode == 0
    assert node.hook("epilog", "1").returncode == 1
    assert list((node.run_dir / "jobs").iterdir()) == []


def test_two_jobs_on_a_node_answer_for_their_own_gpus(node: Node):
    node.configure(node={"gpus": ["0000:3b:00", "0000:86:00"]})
    node.start()
    node.hook("prolog", "1", SLURM_JOB_GPUS="0")
    node.hook("prolog", "2", SLURM_JOB_GPUS="1")
    node.lose_gpu("0000:86:00")

    assert node.hook("epilog", "1", SLURM_JOB_GPUS="0").returncode == 0
    assert node.hook("epilog", "2", SLURM_JOB_GPUS="1").returncode == 1


def test_an_epilog_without_a_marker_takes_slurms_start_time(node: Node):
    node.start()
    node.lose_gpu()

    assert node.hook("epilog", "1", SLURM_JOB_START_TIME=str(int(time.time()) + 60)).returncode == 0
    assert node.hook("epilog", "1", SLURM_JOB_START_TIME=str(int(time.time()) - 60)).returncode == 1


def test_a_healthcheck_takes_an_idle_node_out(node: Node):
    node.start()
    node.lose_gpu()

    assert node.hook("healthcheck").returncode == 1
    assert "job=" not in node.slurm.reason
    assert node.slurm.state == "IDLE+DRAIN"


def test_a_forged_line_convicts_nobody(node: Node):
    node.start()
    node.lose_gpu(facility=1)
    node.kernel("NVRM: Xid (PCI:0000:3b:00): 13, pid=1, Graphics Exception")

    assert node.hook("prolog").returncode == 0
    assert node.state == "ok"


@is_root
def test_the_real_kernel_log_is_followed_and_cannot_be_forged(node: Node):
    """What user space writes into /dev/kmsg comes back with facility 1, whatever it says of itself."""
    device = Path("/dev/kmsg")
    if not device.is_char_device() or not os.access(device, os.R_OK | os.W_OK):
        pytest.skip("there is no kernel log here that may be read and written")
    node.configure(agent={"kmsg": str(device)})
    node.start()
    if node.state == "unknown":
        pytest.skip("the kernel log may not be read here")
    before = node.status()["kernel_sequence"]
    with device.open("w") as log:
        log.write("<3>NVRM: Xid (PCI:0000:3b:00): 79, pid=1, forged by a test of the agent\n")
    until(lambda: node.status()["kernel_sequence"] > before, "the line")

    assert node.state == "ok"
    assert node.hook("prolog").returncode == 0


def test_an_applications_xid_convicts_nobody(node: Node):
    node.start()
    for code in (13, 31, 43, 45):
        node.kernel(f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=77, name=python, Ch 00000008")

    assert node.hook("prolog").returncode == 0
    assert node.hook("epilog").returncode == 0
    assert node.slurm.calls == []


def test_the_drivers_all_clear_opens_the_node_again(node: Node):
    node.start()
    node.kernel("NVRM: Xid (PCI:0000:3b:00): 95, pid=1, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No")
    until(lambda: node.state == "fail", "the fault")
    node.kernel("NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (GPU Reset) to 0x0 (None)")
    until(lambda: node.state == "ok", "the all-clear")

    assert node.hook("prolog").returncode == 0


def test_observe_mode_does_nothing_and_says_what_it_would(node: Node):
    node.configure(policy={"mode": "observe"})
    node.start()
    node.convict()

    assert node.hook("prolog").returncode == 0
    assert node.slurm.calls == []
    assert "in observe mode nothing is done about 'wheeltapper: hardware/gpu_xid xid=79" in node.log


def test_a_foreign_drain_keeps_its_reason_and_the_job_stays_off(node: Node):
    node.slurm.set("MIXED+DRAIN", "admin: swap PSU")
    node.start()
    node.convict()

    assert node.hook("prolog").returncode == 1
    assert node.slurm.reason == "admin: swap PSU"
    assert node.slurm.calls == ["show node n1 -o"]


def test_a_person_who_resumes_the_node_settles_the_fault_for_good(node: Node):
    node.start()
    node.convict()
    assert node.hook("prolog").returncode == 1
    node.slurm.set("IDLE")

    assert node.hook("prolog").returncode == 0
    assert node.state == "warn"
    node.stop()
    node.start()
    assert node.state == "warn"
    node.stop(signal.SIGKILL)
    (node.verdict_file).unlink()
    assert node.hook("prolog").returncode == 0, "the client alone knows it too"
    node.start()
    node.convict("0000:86:00")
    assert node.hook("prolog").returncode == 1


@pytest.mark.parametrize("trouble", ["hang", "fail"])
def test_slurm_in_trouble_does_not_acquit(node: Node, trouble):
    node.start()
    node.convict()
    (node.slurm.folder / trouble).touch()
    began = time.monotonic()

    assert node.hook("prolog").returncode == 1
    assert time.monotonic() - began < 4.0
    assert node.slurm.calls == ["show node n1 -o"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_neither_loses_nor_repeats_a_finding(node: Node, how):
    node.start()
    node.kernel(
        "NVRM: Xid (PCI:0000:3b:00): 63, pid=1, Row Remapper: New row marked for remapping, reset gpu to activate."
    )
    node.convict()
    node.stop(how)
    node.kernel(
        "NVRM: Xid (PCI:0000:86:00): 48, pid=1, An uncorrectable double bit error (DBE) has been detected on GPU"
    )
    node.verdict_file.unlink(missing_ok=True)
    node.start()
    assert node.state == "fail"

    assert node.log.count("The kernel log shows nvidia.xid.79:") == 1
    assert node.log.count("The kernel log shows nvidia.xid.48:") == 1
    assert {finding["evidence"]["gpu"] for finding in node.status()["verdict"]["findings"]} == {
        "0000:3b:00",
        "0000:86:00",
    }


def test_a_log_that_begins_anew_is_read_from_its_start(node: Node):
    node.start()
    for _ in range(20):
        node.kernel("usb 1-1: new high-speed USB device number 2 using xhci_hcd")
    until(lambda: node.status()["kernel_sequence"] == 20, "the lines")
    node.kmsg_file.write_text("")
    node.convict()


def test_a_log_that_is_rotated_is_read_to_its_end_and_then_followed(node: Node):
    """As logrotate does it: the old file is moved away, and a new one takes its name."""
    node.start()
    node.kernel("usb 1-1: new high-speed USB device number 2 using xhci_hcd")
    until(lambda: node.status()["kernel_sequence"] == 1, "the line")
    node.kmsg_file.rename(node.folder / "kmsg.1")
    with (node.folder / "kmsg.1").open("a") as old:
        old.write(f"4,2,1,-;{LOST.format(gpu='0000:86:00')}\n")
    node.sequence = 2
    node.convict()

    assert {each["evidence"]["gpu"] for each in node.status()["verdict"]["findings"]} == {"0000:3b:00", "0000:86:00"}


def test_a_kernel_log_that_cannot_be_read_keeps_no_job_off(node: Node):
    node.kmsg_file.unlink()
    node.kmsg_file.mkdir()
    node.start()
    until(lambda: node.state == "unknown", "the verdict")

    assert node.hook("prolog").returncode == 0
    assert "the kernel log cannot be read" in node.log
    node.kmsg_file.rmdir()
    node.kmsg_file.touch()
    until(lambda: node.state == "ok", "the verdict once the log is there")


def test_sighup_reads_the_configuration_and_a_broken_one_changes_nothing(node: Node):
    node.configure(policy={"mode": "observe"})
    node.start()
    good = node.config_file.read_text()
    node.config_file.write_text(good + "\n[polices]\n")
    node.signal(signal.SIGHUP)
    until(lambda: "The old configuration stays in force" in node.log, "the refusal")
    assert "polices" in node.log
    node.convict()
    assert node.hook("prolog").returncode == 0

    node.config_file.write_text(good.replace("observe", "full"))
    node.signal(signal.SIGHUP)
    until(lambda: "the mode is full" in node.log, "the new mode")
    assert "mode=full\n" in (node.run_dir / "settings").read_text()
    assert node.hook("prolog").returncode == 1


def test_a_broken_configuration_stops_the_start_and_names_the_key(node: Node):
    node.configure(agent={"ring_rows": 1})
    node.start()

    assert node.agent.wait(10) == 2
    assert "agent.ring_rows" in node.log
    assert node.hook("prolog").returncode == 0


def test_sigterm_is_a_clean_stop(node: Node):
    node.start()

    assert node.stop() == 0
    assert "Traceback" not in node.log
    assert not (node.run_dir / "agent.sock").exists()
    assert not node.verdict_file.exists(), "nobody stands behind it"


@pytest.mark.skipif(find_spec("_md5") is None, reason="this Python takes all hashes from OpenSSL")
def test_the_agent_holds_no_tls_library(node: Node):
    """It speaks none, and the library would be an eighth of its memory."""
    node.start()

    assert "libssl" not in Path(f"/proc/{node.agent.pid}/maps").read_text()


def test_only_root_may_ask(node: Node):
    node.start()

    assert (node.run_dir / "agent.sock").stat().st_mode & 0o777 == 0o600


def test_a_second_agent_does_not_take_the_place_of_the_first(node: Node):
    node.start()
    command = [sys.executable, "-m", "wheeltapper_hooks.agent", "run", "--config", str(node.config_file)]
    second = subprocess.run(command, env=node.environment, capture_output=True, text=True, timeout=20, check=False)

    assert second.returncode == 2
    assert "another agent" in second.stderr
    assert node.hook("healthcheck").returncode == 0
    assert node.hooks_log == ""


def test_status_speaks_to_people_and_exits_by_the_verdict(node: Node):
    command = [sys.executable, "-m", "wheeltapper_hooks.agent", "status", "--config", str(node.config_file)]

    def status() -> tuple[int, str]:
        ended = subprocess.run(command, env=node.environment, capture_output=True, text=True, check=False, timeout=60)
        return ended.returncode, ended.stdout or ended.stderr

    code, said = status()
    assert code == 2
    assert "does not answer" in said
    node.start()
    no_service = f"No controller service is asked, because there is no key file {node.folder}/key, and no MUNGE."
    assert status() == (0, f"n1 is fit for work. The mode is quarantine.\n{no_service}\n")
    node.lose_gpu()
    code, said = status()
    assert code == 1
    assert said.startswith("n1 is fail: hardware/gpu_xid xid=79 on GPU 0000:3b:00 (reboot). ")
