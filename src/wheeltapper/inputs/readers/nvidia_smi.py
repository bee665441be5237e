"""``nvidia-smi -q`` and ``nvidia-smi --query-gpu=… --format=csv``: the state of each GPU at one moment."""

from __future__ import annotations

import re

from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Finding, pci_address
from wheeltapper.inputs.judging.gpus import LOST, Gpu, Value
from wheeltapper.inputs.model import Document, Line, Reader, Reading
from wheeltapper.inputs.naming import Scope, scoped

_GPU = re.compile(r"^GPU (?P<pci>[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)$")
_PAIR = re.compile(r"^(?P<indent> +)(?P<key>[^:]+?)\s+: (?P<value>.*)$")
_SECTION = re.compile(r"^(?P<indent> +)(?P<key>[A-Z][^:]*?)$")
_LOST = re.compile(
    r"Unable to determine the device handle for (?:GPU ?|gpu )?(?P<pci>[\dA-Fa-f:.]+\.\d)?.*?\b(?:lost|Unknown Error)"
)
_CSV = re.compile(r"^(?:[a-z_]+(?:[._][a-z_0-9]+)+|index|name|uuid|timestamp|pstate)(?: \[[^\]]*\])?, ")

CSV_KEYS = {
    "temperature.gpu": "temperature/gpu current temp",
    "clocks_throttle_reasons.hw_thermal_slowdown": "hw thermal slowdown",
    "clocks_event_reasons.hw_thermal_slowdown": "hw thermal slowdown",
    "clocks_throttle_reasons.hw_power_brake_slowdown": "hw power brake slowdown",
    "clocks_event_reasons.hw_power_brake_slowdown": "hw power brake slowdown",
    "pcie.link.gen.current": "pcie generation/current",
    "pcie.link.gen.gpucurrent": "pcie generation/current",
    "pcie.link.gen.max": "pcie generation/max",
    "pcie.link.width.current": "link width/current",
    "pcie.link.width.max": "link width/max",
    "utilization.gpu": "utilization/gpu",
    "clocks.sm": "clocks/sm",
    "clocks.current.sm": "clocks/sm",
    "clocks.max.sm": "max clocks/sm",
    "ecc.errors.uncorrected.volatile.total": "volatile/uncorrectable",
    "remapped_rows.pending": "remapped rows/pending",
    "remapped_rows.failure": "remapped rows/remapping failure occurred",
    "retired_pages.pending": "retired pages/pending",
}
"""Columns of ``--query-gpu`` and the path under which ``-q`` prints the same."""


def _recognises(document: Document) -> bool:
    head = document.head
    first = head.lstrip().partition("\n")[0]
    return "=NVSMI LOG=" in head or bool(_LOST.search(head) and len(document.data) < 1 << 16) or _is_csv(first)


def _is_csv(first: str) -> bool:
    return bool(_CSV.match(first)) and sum(column.partition(" [")[0] in CSV_KEYS for column in first.split(", ")) > 0


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    lost = tuple(_lost(document, line) for line in document.lines if _LOST.search(line.text))
    gpus = _from_csv(document) if _is_csv(document.head.lstrip().partition("\n")[0]) else _from_query(document)
    return Reading(findings=lost, gpus=tuple(gpus))


def _lost(document: Document, line: Line) -> Finding:
    found = _LOST.search(line.text)
    return LOST.of(document.seen(line, gpu=pci_address(found["pci"]) if found and found["pci"] else None))


def _from_query(document: Document) -> list[Gpu]:
    gpus: list[Gpu] = []
    path: list[tuple[int, str]] = []
    for line, scope in scoped(document.lines, document.node):
        if found := _GPU.match(line.text):
            gpus.append(Gpu(document, pci_address(found["pci"]), scope, {}))
            path = []
        elif gpus and (pair := _PAIR.match(line.text) or _SECTION.match(line.text)):
            depth, key = len(pair["indent"]), pair["key"].strip().lower()
            path = [each for each in path if each[0] < depth]
            if "value" in pair.groupdict():
                parent = f"{path[-1][1]}/" if path else ""
                gpus[-1].values.setdefault(_name(parent, key), Value(pair["value"].strip(), line))
            path.append((depth, key))
    return gpus


def _name(parent: str, key: str) -> str:
    """Return how a value is called: slowdown reasons by themselves, since drivers moved them between sections."""
    return key if key.startswith("hw ") else parent + key


def _from_csv(document: Document) -> list[Gpu]:
    columns: list[str] = []
    gpus = []
    for line, scope in scoped(document.lines, document.node):
        cells = [cell.strip() for cell in line.text.split(",")]  # nvidia-smi quotes nothing
        if _is_csv(line.text):
            columns = [cell.partition(" [")[0] for cell in cells]
        elif columns and len(cells) == len(columns):
            gpus.append(_of_row(document, line, scope, dict(zip(columns, cells, strict=True))))
    return gpus


def _of_row(document: Document, line: Line, scope: Scope, row: dict[str, str]) -> Gpu:
    address = pci_address(row.get("pci.bus_id") or row.get("gpu_bus_id") or "")
    values = {CSV_KEYS[name]: Value(cell, line) for name, cell in row.items() if name in CSV_KEYS}
    return Gpu(document, address, scope, values)


READER = Reader(_recognises, _read)
