"""A device plugin that gives a node GPUs of the kubelet's idea only: nvidia.com/gpu, with ids and no device behind them.

One runs on each node, as a pod. It serves the kubelet's device plugin API v1beta1, registers itself, and registers again when
the kubelet has started anew. The file GPUS has a line with the id of each GPU, followed by the word "unhealthy" where it is; the
kubelet is told of a change within a second.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

RESOURCE = "nvidia.com/gpu"
FOLDER = Path("/var/lib/kubelet/device-plugins")
SOCKET = FOLDER / "wheeltapper-gpu.sock"
KUBELET = FOLDER / "kubelet.sock"

# Messages of the API are so few and small that their encoding stands here: each field is a tag byte (number * 8 + 2),
# a length and its content (protobuf's wire format; k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto).


def field(number: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    length = len(data)
    encoded = bytearray()
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return bytes([number * 8 + 2]) + bytes(encoded) + data


def fields(data: bytes) -> Iterator[bytes]:
    """The contents of all fields in *data*, which has fields of one number only."""
    place = 0
    while place < len(data):
        place += 1  # the tag
        length = shift = 0
        while True:
            byte = data[place]
            place += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield data[place : place + length]
        place += length


class Devices:
    """The GPUs of this node, and what the kubelet asks about them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def options(self, request: bytes, context: Any) -> bytes:
        """GetDevicePluginOptions: nothing out of the ordinary."""
        return b""

    def list_and_watch(self, request: bytes, context: Any) -> Iterator[bytes]:
        """ListAndWatch: all GPUs, again whenever something about them has changed."""
        told = None
        while context.is_active() and not self._stopped.is_set():
            now = b"".join(
                field(1, device(line.split())) for line in self._file.read_text().splitlines() if line.strip()
            )
            if now != told:
                told = now
                yield now
            self._stopped.wait(0.5)

    def allocate(self, request: bytes, context: Any) -> bytes:
        """Allocate: what NVIDIA's own plugin sets, so that a pod can tell which GPUs are its own."""
        answers = []
        for container in fields(request):
            wanted = ",".join(name.decode() for name in fields(container))
            answers.append(field(1, field(1, field(1, "NVIDIA_VISIBLE_DEVICES") + field(2, wanted))))
        return b"".join(answers)


def device(words: list[str]) -> bytes:
    return field(1, words[0]) + field(2, "Unhealthy" if words[1:] == ["unhealthy"] else "Healthy")


def serve(devices: Devices) -> grpc.Server:
    SOCKET.unlink(missing_ok=True)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    methods = {
        "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(devices.options),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(devices.list_and_watch),
        "Allocate": grpc.unary_unary_rpc_method_handler(devices.allocate),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", methods)])
    server.add_insecure_port(f"unix://{SOCKET}")
    server.start()
    return server


def register() -> None:
    with grpc.insecure_channel(f"unix://{KUBELET}") as channel:
        call = channel.unary_unary("/v1beta1.Registration/Register")
        call(field(1, "v1beta1") + field(2, SOCKET.name) + field(3, RESOURCE), timeout=10, wait_for_ready=True)
    print(f"The kubelet knows {RESOURCE} now.", flush=True)


def main() -> None:
    devices = Devices(Path(os.environ["GPUS"]))
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    while not stopped.is_set():
        server = serve(devices)
        register()
        # A kubelet that starts anew removes all sockets in the folder: that is how a plugin learns of it.
        while SOCKET.exists() and not stopped.wait(0.5):
            pass
        server.stop(grace=None)
    devices.stop()


main()
