"""A pod's client, the agent's port and the kubelet's socket, each as a process or a socket of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from contextlib import asynccontextmanager

import pytest

from tests.integration.kubelet import Kubelet
from tests.unit.test_pod_preflight import listed
from wheeltapper.config import PodPreflightSection
from wheeltapper_hooks import preflight_pod
from wheeltapper_hooks.agent.pod_resources import Device, KubeletTrouble, devices_of
from wheeltapper_hooks.agent.pod_server import PodServer
from wheeltapper_hooks.agent.pod_tokens import NotAPod

FAIL = {"state": "fail", "sentence": "n1 is fail: hardware/gpu_xid xid=79", "node": "n1", "findings": []}


async def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        await asyncio.sleep(0.01)


def listens(path):
    """The file is there a moment before anybody listens."""
    with socket.socket(socket.AF_UNIX) as one:
        return one.connect_ex(str(path)) == 0


@asynccontextmanager
async def serving(answer):
    server = PodServer(PodPreflightSection.model_construct(listen="127.0.0.1", agent_port=0), answer)
    task = asyncio.create_task(server.serve_for_ever())
    await until(lambda: server.port)
    yield server.port
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def client(tmp_path, port, **environment):
    """Run the client as its container does; return its exit code and its termination message."""
    (tmp_path / "token").write_text("a-token\n")
    run = (
        "import sys; from wheeltapper_hooks.preflight_pod import main; import os;"
        f"sys.exit(main(os.environ, {str(tmp_path / 'token')!r}, {str(tmp_path / 'message')!r}))"
    )
    variables = {"WHEELTAPPER_AGENT_HOST": "127.0.0.1", "WHEELTAPPER_AGENT_PORT": str(port), **environment}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", run, env=variables, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    report = json.loads((tmp_path / "message").read_bytes())
    assert report["sentence"] == said.decode().strip()
    return process.returncode, report


def through(tmp_path, answer, **environment):
    async def run():
        async with serving(answer) as port:
            return await client(tmp_path, port, **environment)

    return asyncio.run(run())


def test_a_guilty_machine_ends_the_client_with_its_own_exit_code_and_the_report(tmp_path):
    async def answer(token):
        assert token == "a-token"
        return FAIL

    assert through(tmp_path, answer) == (preflight_pod.KEPT_OFF, FAIL)


def test_a_fit_machine_lets_the_pod_start(tmp_path):
    async def answer(token):
        return {"state": "ok", "sentence": "n1 is fit for work"}

    assert through(tmp_path, answer) == (0, {"state": "ok", "sentence": "n1 is fit for work"})


def test_a_refusal_lets_the_pod_start_and_stands_in_its_message(tmp_path):
    async def answer(token):
        raise NotAPod("the token is bound to no pod")

    code, said = through(tmp_path, answer)

    assert (code, said["state"]) == (0, "unknown")
    assert "bound to no pod" in said["sentence"]


def test_an_agent_in_trouble_is_asked_again(tmp_path):
    asked = []

    async def answer(token):
        asked.append(token)
        if len(asked) == 1:
            raise OSError("the API server does not answer")
        return FAIL

    assert through(tmp_path, answer)[0] == preflight_pod.KEPT_OFF


def test_an_agent_that_says_nothing_delays_the_pod_to_the_deadline_and_no_longer(tmp_path):
    async def answer(token):
        await asyncio.Event().wait()

    code, said = through(tmp_path, answer, WHEELTAPPER_DEADLINE_S="1")

    assert (code, said["state"]) == (0, "unknown")
    assert "deadline" in said["sentence"]


def test_a_node_without_an_agent_lets_the_pod_start(tmp_path):
    async def no_answer(token):
        raise AssertionError

    async def run():
        async with serving(no_answer) as port:
            pass
        return await client(tmp_path, port)

    code, said = asyncio.run(run())

    assert (code, said["state"]) == (0, "unknown")
    assert "refused" in said["sentence"].lower()


@pytest.mark.parametrize("asked", [b"GET / HTTP/1.1\r\n\r\n", b"POST /v1/preflight HTTP/1.1\r\n\r\n"])
def test_there_is_nothing_else_at_the_agents_port(asked):
    async def run():
        async with serving(None) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(asked)
            status = await reader.readline()
            writer.close()
            return status

    assert asyncio.run(run()).startswith(b"HTTP/1.1 404 ")


def test_the_kubelet_is_asked_over_its_socket_however_much_it_has_to_say(tmp_path):
    many = b"".join(listed(f"p{number}", "team", ("nvidia.com/gpu", [f"GPU-{number}"])) for number in range(3_000))
    kubelet = Kubelet(tmp_path / "kubelet.sock", many)

    async def run():
        async with kubelet.serving():
            return await devices_of(kubelet.path, "team", "p2999")

    assert asyncio.run(run()) == {Device("nvidia.com/gpu", "GPU-2999")}
    assert kubelet.asked == ["/v1.PodResourcesLister/List"]


def test_a_kubelet_that_refuses_or_is_not_there_is_trouble_of_our_own(tmp_path):
    kubelet = Kubelet(tmp_path / "kubelet.sock", refusal="12")

    async def run():
        async with kubelet.serving():
            with pytest.raises(KubeletTrouble, match="status 12"):
                await devices_of(kubelet.path, "team", "p1")

    asyncio.run(run())
    with pytest.raises(KubeletTrouble, match="No such file"):
        asyncio.run(devices_of(tmp_path / "nothing", "team", "p1"))


def test_an_agent_that_is_not_root_asks_through_the_relay(tmp_path):
    kubelet = Kubelet(tmp_path / "kubelet.sock", listed("p1", "team", ("nvidia.com/gpu", ["GPU-1"])))
    own = tmp_path / "relay.sock"
    command = [sys.executable, "-m", "wheeltapper_hooks.pod_resources_relay", str(kubelet.path), str(own)]

    async def run():
        async with kubelet.serving():
            relay = await asyncio.create_subprocess_exec(*command)
            await until(lambda: listens(own))
            mode = own.stat().st_mode & 0o777
            found = [await devices_of(own, "team", "p1") for _ in range(2)]
            relay.terminate()
            return mode, found, await relay.wait()

    assert asyncio.run(run()) == (0o666, [{Device("nvidia.com/gpu", "GPU-1")}] * 2, 0)
    assert not own.exists()
