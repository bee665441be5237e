"""Builds what clusters need into the cache: once for a set of pins, step by step, each step whole or not at all."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.e2e.kubernetes.cluster import cache, golang, images, node_image
from tests.e2e.kubernetes.cluster.cache import Cache
from tests.e2e.kubernetes.cluster.docker import Docker, PrivateDocker
from tests.e2e.kubernetes.cluster.errors import CommandFailed


@dataclass(frozen=True, slots=True)
class Step:
    """One step: ``make`` is given a path that is not there yet and leaves a file or a folder, which becomes ``output``."""

    name: str
    output: Path
    make: Callable[[Path], None]

    def run(self) -> None:
        new = self.output.with_name(f".new-{self.output.name}")
        _remove(new)
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.make(new)
        new.rename(self.output)


def steps(here: Cache, private: bool) -> list[Step]:
    """All steps for a *private* Docker's clusters, or for those of the machine's own Docker."""
    programs = golang.EVERYWHERE + (golang.OF_OUR_NODE_IMAGE if private else ())
    made = [Step(program.name, here.bin / program.name, partial(golang.build, program)) for program in programs]
    operator = "github.com/kubeflow/training-operator"
    made += [
        _copied("training-operator's manifests", here.training_operator, "training-operator", operator, "manifests"),
        _copied("Kueue's manifests", here.kueue, "kubernetes", "sigs.k8s.io/kueue", "config"),
    ]
    if not private:
        return [*made, Step("images", here.archive, partial(_make_archive, here))]
    return [
        *made,
        _copied(
            "the files of kind's node image", here.kind_files, "kubernetes", "sigs.k8s.io/kind", "images/base/files"
        ),
        Step("pause", here.bin / "pause", images.make_pause),
        Step("the packages of the base image", here.base_root, images.make_root),
        Step("the packages of the node image", here.node_packages, node_image.make_packages),
        Step("the images", here.seed, partial(_make_seed, here)),
    ]


def complete(here: Cache, private: bool) -> bool:
    """True when nothing is left to build."""
    return all(step.output.exists() for step in steps(here, private))


def build(private: bool) -> Cache:
    """Build what is missing and return the cache; another process that builds the same is waited for.

    Raises:
        ClusterError: a step failed; what stood before it is kept.
    """
    here = cache.find()
    if complete(here, private):
        return here
    with _alone(here):
        todo = [step for step in steps(here, private) if not step.output.exists()]
        for number, step in enumerate(todo, 1):
            print(f"[{number}/{len(todo)}] {step.name} … ", end="", flush=True)
            began = time.monotonic()
            step.run()
            print(f"{time.monotonic() - began:.0f} s", flush=True)
    return here


def _copied(name: str, output: Path, tool: str, module: str, folder: str) -> Step:
    return Step(name, output, partial(golang.copy_from_module, tool, module, folder))


@contextmanager
def _alone(here: Cache) -> Iterator[None]:
    here.programs.mkdir(parents=True, exist_ok=True)
    with (here.programs / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another process is building already; waiting for it …", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _make_archive(here: Cache, archive: Path) -> None:
    """The archive of the images that every cluster needs, made by the machine's own Docker."""
    docker = Docker()
    images.make_base(docker, None)
    _make_images(docker, here, images.EVERYWHERE)
    docker.call("save", "--output", str(archive), *images.EVERYWHERE.values())


def _make_images(docker: Docker, here: Cache, wanted: dict[str, str]) -> None:
    for name, image in wanted.items():
        if image == images.DEVICE_PLUGIN_IMAGE:
            images.make_device_plugin(docker)
        elif image != images.BASE_IMAGE:
            images.make_program(docker, name, image, here.bin / name)


def _make_seed(here: Cache, seed: Path) -> None:
    """The data folders of a Docker that has the base image and the node image, and of a node's containerd."""
    work = seed.with_name(f"{seed.name}-work")
    _remove(work)
    work.mkdir()
    seed.mkdir()
    private = PrivateDocker(seed / "docker", work / "scratch", work / "docker.log")
    private.start()
    try:
        docker = private.docker
        images.make_base(docker, here.base_root)
        wanted = {**images.EVERYWHERE, **images.OF_OUR_NODE_IMAGE}
        _make_images(docker, here, wanted)
        archive = work / "images.tar"
        docker.call("save", "--output", str(archive), *wanted.values())
        root = work / "node"
        subprocess.run(["cp", "--archive", "--reflink=auto", here.node_packages, root], check=True)
        node_image.make_node(here, root, archive)
        (root / "var/lib/containerd").rename(seed / "containerd")
        _import(docker, root)
        docker.call("image", "rm", *(image for image in wanted.values() if image != images.BASE_IMAGE))
        private.finish()
    finally:
        private.stop()
    shutil.rmtree(work)


def _import(docker: Docker, root: Path) -> None:
    changes = [word for change in node_image.DOCKER_CHANGES for word in ("--change", change)]
    with subprocess.Popen(["tar", "--create", "--directory", root, "."], stdout=subprocess.PIPE) as tar:
        docker.call("import", *changes, "-", node_image.NODE_IMAGE, stdin=tar.stdout)
    if tar.returncode != 0:
        raise CommandFailed(("tar", str(root)), subprocess.CompletedProcess([], tar.returncode, "", ""))
