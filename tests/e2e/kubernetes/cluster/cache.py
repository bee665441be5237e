"""Where built programs and images lie: outside the checkout, in a folder that the pins name.

``~/.cache/wheeltapper/kubernetes-<hash of tools/>`` holds the programs, and in it ``images-<hash of the recipes>`` what is
made of them. A changed pin or recipe is another folder, so a run on another branch keeps its own.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TOOLS = HERE.parent / "tools"
FILES = HERE / "files"

_RECIPES = ("build.py", "debian.py", "images.py", "node_image.py")
"""What decides how an image comes out, beside the pins and files/."""


@dataclass(frozen=True, slots=True)
class Cache:
    """The folders of one set of pins and recipes."""

    programs: Path
    images: Path

    @property
    def bin(self) -> Path:
        """The programs that were built from Go modules."""
        return self.programs / "bin"

    @property
    def training_operator(self) -> Path:
        """Training-operator's manifests."""
        return self.programs / "training-operator-manifests"

    @property
    def kueue(self) -> Path:
        """Kueue's manifests."""
        return self.programs / "kueue-manifests"

    @property
    def kind_files(self) -> Path:
        """The files that kind's node image has beside its packages."""
        return self.programs / "kind-files"

    @property
    def seed(self) -> Path:
        """What private clusters start from."""
        return self.images / "seed"

    @property
    def docker(self) -> Path:
        """A data folder of Docker's that holds the node image and the base image."""
        return self.seed / "docker"

    @property
    def containerd(self) -> Path:
        """A data folder of containerd's that holds all images for the inside of a node."""
        return self.seed / "containerd"

    @property
    def running(self) -> Path:
        """Where private clusters keep what ends with them: links to the seed, so on the same file system."""
        return self.images / "running"

    @property
    def base_root(self) -> Path:
        """The root of the base image, a tar file."""
        return self.images / "base.tar"

    @property
    def node_packages(self) -> Path:
        """The packages of the node image, a root folder."""
        return self.images / "node-packages"

    @property
    def archive(self) -> Path:
        """An archive of the images that every cluster needs, for the machine's own Docker."""
        return self.images / "images.tar"


def find() -> Cache:
    """The cache of this checkout's pins and recipes, whether or not anything is in it yet."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wheeltapper"
    programs = home / f"kubernetes-{_hash(_files(TOOLS))}"
    recipes = [*(HERE / name for name in _RECIPES), *_files(FILES)]
    return Cache(programs, programs / f"images-{_hash(recipes)}")


def version(tool: str, module: str) -> str:
    """The version of *module* (``v1.34.4``) that ``tools/<tool>/go.mod`` pins."""
    text = (TOOLS / tool / "go.mod").read_text()
    found = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"tools/{tool}/go.mod pins no {module}")
    return found[1]


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _hash(files: Iterable[Path]) -> str:
    """Twelve hexadecimal digits for names and contents of *files*."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(HERE.parent)}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
