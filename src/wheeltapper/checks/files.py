"""Small files of the kernel, read without fuss: one that is not there, or went away, is None or empty."""

from __future__ import annotations

from pathlib import Path


def text(path: Path) -> str | None:
    """Return what *path* holds, without blanks around it; None when it cannot be read.

    Files of sysfs say "this device does not know" by an error, and go away with their device.
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def lines(path: Path) -> list[str]:
    """Return the lines of *path*; none when it cannot be read."""
    return (text(path) or "").splitlines()


def number(path: Path) -> int | None:
    """Return the whole number in *path*, decimal or 0x…; None when it cannot be read or holds something else."""
    try:
        return int(text(path) or "", 0)
    except ValueError:
        return None


def pairs(path: Path) -> dict[str, int]:
    """Return the lines of *path* of the form ``name number``; other lines are left out."""
    found = {}
    for line in lines(path):
        words = line.split()
        if len(words) == 2 and words[1].lstrip("-").isdigit():
            found[words[0]] = int(words[1])
    return found


def entries(folder: Path) -> list[Path]:
    """Return what lies in *folder*, by name; nothing when it is not there.

    Raises:
        OSError: it is there, and cannot be listed.
    """
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
