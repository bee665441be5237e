"""The library's own promises: what each node sees of its own, and what can be done to a daemon."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.e2e.slurm.cluster import Cluster, ClusterError, CommandFailed, Hooks, NotInTime
from tests.e2e.slurm.cluster.namespaces import only_child, sharing
from tests.e2e.slurm.conftest import StartCluster


@pytest.fixture(scope="module")
def cluster(start_cluster: StartCluster) -> Cluster:
    return start_cluster(
        nodes=2, hooks=Hooks.none(), agents=False, controller=False, config={"policy": {"mode": "full"}}
    )


def test_each_node_has_a_kernel_log_of_its_own_at_the_real_path(cluster: Cluster) -> None:
    """A job reads its node's records from /dev/kmsg, numbered from 0, and none of the other node's."""
    one, two = cluster.node("node1"), cluster.node("node2")
    assert [one.xid(79), one.kmsg("made by a user", facility=1, level=6)] == [0, 1]
    first, second = one.run("cat", "/dev/kmsg").stdout.splitlines()
    assert first.startswith("3,0,")
    assert first.endswith(
        ",-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    )
    assert second.startswith("14,1,")
    assert two.run("cat", "/dev/kmsg").stdout == ""


def test_each_node_has_gpus_of_its_own_on_its_bus(cluster: Cluster) -> None:
    """A GPU that one node loses is still there on the other; CPUs are the machine's."""
    one, two = cluster.node("node1"), cluster.node("node2")
    one.lose_gpu()
    assert one.run("ls", "/sys/bus/pci/devices").stdout.split() == ["0000:86:00.0"]
    assert two.run("ls", "/sys/bus/pci/devices").stdout.split() == ["0000:3b:00.0", "0000:86:00.0"]
    assert two.run("cat", "/sys/bus/pci/devices/0000:3b:00.0/vendor").stdout == "0x10de\n"
    assert one.run("ls", "/sys/devices/system/cpu").stdout == cluster.run("ls", "/sys/devices/system/cpu").stdout
    one.files.add_gpu("0000:3b:00")


def test_keys_and_configuration_lie_where_the_programs_look(cluster: Cluster) -> None:
    """Every machine has its own key, readable by root alone, and a configuration with the test's changes."""
    one, two = cluster.node("node1"), cluster.node("node2")
    keys = {node.run("cat", "/etc/wheeltapper/key").stdout for node in (one, two)}
    assert len(keys | {(cluster.controller_files.etc / "key").read_text()}) == 3
    assert one.run("stat", "--format=%a", "/etc/wheeltapper/key").stdout == "600\n"
    assert 'mode = "full"' in one.run("cat", "/etc/wheeltapper/wheeltapper.toml").stdout
    with pytest.raises(CommandFailed):
        cluster.run("cat", "/etc/wheeltapper/key")


def test_an_ordinary_user_runs_a_job_over_two_nodes_with_gpus(cluster: Cluster) -> None:
    """`nobody` submits, srun reaches both nodes, and each has its GPU."""
    job = cluster.sbatch(
        "srun sh -c 'echo \"$SLURMD_NODENAME $(id -un) $CUDA_VISIBLE_DEVICES\"'",
        "--nodes=2",
        "--gres=gpu:1",
        user="nobody",
    )
    assert cluster.wait_job(job, "COMPLETED")["UserId"] == "nobody(65534)"
    assert sorted(cluster.output(job).splitlines()) == ["node1 nobody 0", "node2 nobody 0"]


def test_a_user_cannot_forge_a_field_of_the_job(cluster: Cluster) -> None:
    """A name and a comment that look like fields stay what they are."""
    job = cluster.sbatch("true", "--hold", "--job-name=a JobState=FAILED", "--comment=b Requeue=0 NodeList=node9")
    known = cluster.job(job)
    assert (known["JobName"], known["Comment"]) == ("a JobState=FAILED", "b Requeue=0 NodeList=node9")
    assert (known["JobState"], known["Requeue"], known["NodeList"]) == ("PENDING", "1", "")
    assert [each["JobId"] for each in cluster.jobs].count(job) == 1
    cluster.run("scancel", job)


def test_a_frozen_slurmctld_does_not_answer_and_a_thawed_one_does(cluster: Cluster) -> None:
    """pause() stops the daemon without closing its port, resume() brings it back as it was."""
    cluster.slurmctld.pause()
    with pytest.raises(NotInTime, match="did not end within 1 s"):
        cluster.run("scontrol", "ping", timeout=1)
    cluster.slurmctld.resume()
    assert "UP" in cluster.scontrol("ping")


def test_a_killed_slurmctld_comes_back_with_its_jobs(cluster: Cluster) -> None:
    """kill() is SIGKILL; after start() the state on disk is read again."""
    job = cluster.sbatch("true", "--hold")
    cluster.slurmctld.stop()
    assert cluster.slurmctld.returncode == 0
    cluster.slurmctld.start()
    cluster.wait(cluster.slurmctld.ready, 10, "slurmctld to start again")
    assert cluster.job(job)["JobState"] == "PENDING"
    cluster.slurmctld.kill()
    assert cluster.slurmctld.returncode == -9
    with pytest.raises(ClusterError, match="slurmctld is not running"):
        _ = cluster.slurmctld.pid
    cluster.slurmctld.start()
    cluster.wait(cluster.slurmctld.ready, 10, "slurmctld to start again")
    cluster.run("scancel", job)


def test_a_reboot_ends_the_nodes_jobs_and_clears_what_a_reboot_clears(cluster: Cluster) -> None:
    """New boot id, empty kernel log and /run, the job's processes gone; the other node keeps its own."""
    one, two = cluster.node("node1"), cluster.node("node2")
    boots = [node.run("cat", "/proc/sys/kernel/random/boot_id").stdout for node in (one, two)]
    job = cluster.sbatch("echo $$; exec sleep 600", "--nodelist=node1", "--no-requeue")
    cluster.wait_job(job, "RUNNING")
    process = cluster.wait(lambda: cluster.output(job).strip(), 5, "the job to say its process id")
    one.kmsg("before the reboot")
    (one.run_dir / "verdict").write_text("ok")
    one.reboot()
    after = [node.run("cat", "/proc/sys/kernel/random/boot_id").stdout for node in (one, two)]
    assert (boots[0] != after[0], boots[1] == after[1]) == (True, True)
    assert one.run("cat", "/dev/kmsg").stdout == one.run("ls", "/run/wheeltapper").stdout == ""
    assert cluster.run("kill", "-0", process, check=False).returncode != 0
    assert one.kmsg("after the reboot") == 0
    cluster.run("scancel", job)


def test_a_daemon_has_started_only_when_it_is_in_its_place(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before that, a crash of its node would take it for all that lives in the cluster, process 1 too."""
    walls, place = cluster._namespaces, cluster.node("node1").files.place
    slow = walls.command(("sh", "-c", "sleep 0.3; exec unshare --mount sleep 60"))
    with subprocess.Popen(slow) as entered:
        inside = only_child(entered)
        try:
            walls.wait_in_place(inside, place)
            assert sharing(inside, "mnt") == [inside]
        finally:
            os.kill(inside, signal.SIGKILL)
    slurmd, waited_for = cluster.node("node1").slurmd, []
    monkeypatch.setattr(walls, "wait_in_place", lambda pid, _: waited_for.append(pid))
    slurmd.stop()
    slurmd.start()
    assert waited_for == [slurmd.pid]
    cluster.wait(slurmd.ready, 10, "slurmd to be back")


def test_orphans_inside_are_reaped(cluster: Cluster) -> None:
    """Process 1 of the cluster lets no zombie stand."""
    cluster.run("sh", "-c", "sleep 0.1 &")
    cluster.wait(
        lambda: " (sleep) " not in cluster.run("sh", "-c", "cat /proc/[0-9]*/stat", check=False).stdout,
        5,
        "the orphan to go",
    )


def test_what_is_waited_for_in_vain_is_told_with_the_logs(cluster: Cluster) -> None:
    """The message of NotInTime names what was waited for and holds every daemon's last lines."""
    with pytest.raises(NotInTime, match=r"Waited 0 s for a miracle, in vain\.") as raised:
        cluster.wait(lambda: False, 0, "a miracle")
    for name in ("munged", "slurmctld", "node1.slurmd", "node2.slurmd", "squeue", "sinfo"):
        assert f"== {name}\n" in str(raised.value)


def test_a_daemon_that_cannot_start_says_why(cluster: Cluster) -> None:
    """The error of a program that ends at once holds its own words."""
    agent = cluster.node("node1").agent
    config = cluster.node("node1").files.etc / "wheeltapper.toml"
    config.write_text("no_such_key = 1\n")
    agent.start()
    with pytest.raises(ClusterError, match=r"node1\.agent ended with \d+ at its start"):
        cluster.wait(agent.ready, 20, "an agent with a wrong configuration")
