"""The calls that read one GPU. Each field stands by itself: what one call refuses costs no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import byref
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from wheeltapper.checks.gpu.snapshot import (
    FUNCTION_NOT_FOUND,
    IS_LOST,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    Clocks,
    Fabric,
    Gpu,
    Heat,
    Link,
    Mode,
    Pages,
    Pcie,
    Rows,
    Use,
)
from wheeltapper.evidence import pci_address

T = TypeVar("T")
Values = dict[tuple[int, int], int]

MB = 1 << 20

RECOVERY_ACTION = 230
MEMORY_TEMPERATURE = 82
RETIRED_SINGLE, RETIRED_DOUBLE, RETIRED_PENDING = 29, 30, 31
LINK_RECOVERIES, LINK_CRC_ERRORS = 162, 163
LINK_RECEIVE_ERRORS, LINK_RECOVERY_EVENTS = 208, 215
"""Fields of ``nvmlDeviceGetFieldValues``. Those of a link take its number as scope: the first two up to Hopper, the
last two from Blackwell on."""

OF_GPU = (RECOVERY_ACTION, MEMORY_TEMPERATURE, RETIRED_SINGLE, RETIRED_DOUBLE, RETIRED_PENDING)
OF_LINK = (LINK_RECOVERIES, LINK_CRC_ERRORS, LINK_RECEIVE_ERRORS, LINK_RECOVERY_EVENTS)

SLOWDOWN, MEMORY_MAX = 1, 2
"""Kinds of temperature threshold."""

VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The member of a field's value, by its type."""


class _Lost(Exception):  # noqa: N818 - no error: the reading of a GPU ends here
    """The GPU is lost: further calls answer nothing, or hang."""


class _Asking:
    """Asks one GPU, and remembers what it refused."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.unread: dict[str, int] = {}
        self.fault: int | None = None

    def ask(self, name: str, call: Callable[[], T]) -> T | None:
        """Return what *call* returns, or None and a note under the field's *name*."""
        try:
            return call()
        except self.nvml.NVMLError as error:
            self.refuse(name, error.value)
            return None

    def refuse(self, name: str, code: int) -> None:
        """Note that the field called *name* was refused with *code*; a lost GPU is asked no more."""
        self.unread[name] = code
        if code in {IS_LOST, RESET_REQUIRED}:
            self.fault = code
        if code == IS_LOST:
            raise _Lost


def read_gpu(nvml: Any, handle: Any) -> Gpu:
    """Return what the GPU behind *handle* tells.

    Raises:
        NVMLError: not even its address can be told.
    """
    bus_id = nvml.nvmlDeviceGetPciInfo(handle).busId
    address = pci_address(bus_id.decode() if isinstance(bus_id, bytes) else bus_id) or str(bus_id)
    asking = _Asking(nvml)
    told: dict[str, Any] = {}
    try:
        told["uuid"] = asking.ask("uuid", lambda: nvml.nvmlDeviceGetUUID(handle))
        told["name"] = asking.ask("name", lambda: nvml.nvmlDeviceGetName(handle)) or ""
        for name, read in _READERS.items():
            told[name] = asking.ask(name, partial(read, nvml, handle))
        links = told["links"] or ()
        values = _field_values(asking, handle, [link.number for link in links])
        told |= _from_fields(asking, values, told["heat"], links)
    except _Lost:
        pass
    return Gpu(address, **told, fault=asking.fault, unread=asking.unread)


def _rows(nvml: Any, handle: Any) -> Rows:
    corrected, uncorrected, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
    return Rows(corrected, uncorrected, bool(pending), bool(failed))


def _sram_exceeded(nvml: Any, handle: Any) -> bool:
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    nvml.nvmlDeviceGetSramEccErrorStatus(handle, byref(status))
    return bool(status.bThresholdExceeded)


def _heat(nvml: Any, handle: Any) -> Heat:
    return Heat(
        nvml.nvmlDeviceGetTemperature(handle, 0),
        slowdown_at_c=_or_none(nvml, lambda: nvml.nvmlDeviceGetTemperatureThreshold(handle, SLOWDOWN)),
        memory_max_c=_or_none(nvml, lambda: nvml.nvmlDeviceGetTemperatureThreshold(handle, MEMORY_MAX)),
        left_c=_or_none(nvml, lambda: nvml.nvmlDeviceGetMarginTemperature(handle)),
    )


def _clocks(nvml: Any, handle: Any) -> Clocks:
    reasons = _first_known(
        nvml,
        lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
        lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),  # its name before driver 535
    )
    return Clocks(
        reasons,
        _or_none(nvml, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        _or_none(nvml, lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
    )


def _pcie(nvml: Any, handle: Any) -> Pcie:
    return Pcie(
        nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
        nvml.nvmlDeviceGetMaxPcieLinkWidth(handle),
        nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
        nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle),
        _or_none(nvml, lambda: nvml.nvmlDeviceGetPcieReplayCounter(handle)),
    )


def _links(nvml: Any, handle: Any) -> tuple[Link, ...]:
    links: list[Link] = []
    for number in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            links.append(Link(number, bool(nvml.nvmlDeviceGetNvLinkState(handle, number))))
        except nvml.NVMLError as error:
            if number == 0:
                raise
            if error.value == NOT_SUPPORTED:
                continue  # a link that this board does not wire
            if error.value == nvml.NVML_ERROR_INVALID_ARGUMENT:
                break  # beyond the last link of this GPU
            raise
    return tuple(links)


def _fabric(nvml: Any, handle: Any) -> Fabric:
    told = nvml.c_nvmlGpuFabricInfo_v2_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(told))
    return Fabric(told.state, told.status, told.healthMask)


def _use(nvml: Any, handle: Any) -> Use:
    memory = _first_known(
        nvml,
        lambda: nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2),  # it tells apart what the driver reserves
        lambda: nvml.nvmlDeviceGetMemoryInfo(handle),
    )
    processes = _first_known(
        nvml,
        lambda: nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle),
        lambda: nvml.nvmlDeviceGetComputeRunningProcesses_v2(handle),  # before driver 510
    )
    return Use(
        nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        int(memory.used // MB),
        tuple(sorted(each.pid for each in processes)),
    )


_READERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "ecc_uncorrected": lambda nvml, handle: nvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0),  # 0: since driver load
    "ecc_corrected": lambda nvml, handle: nvml.nvmlDeviceGetTotalEccErrors(handle, 0, 0),
    "sram_exceeded": _sram_exceeded,
    "rows": _rows,
    "heat": _heat,
    "clocks": _clocks,
    "pcie": _pcie,
    "links": _links,
    "fabric": _fabric,
    "use": _use,
    "persistence": lambda nvml, handle: bool(nvml.nvmlDeviceGetPersistenceMode(handle)),
    "mig": lambda nvml, handle: Mode(*nvml.nvmlDeviceGetMigMode(handle)),
    "ecc_mode": lambda nvml, handle: Mode(*nvml.nvmlDeviceGetEccMode(handle)),
}
"""What is read by a call of its own, by the field of :class:`Gpu`."""


def _or_none(nvml: Any, call: Callable[[], T]) -> T | None:
    """Return what *call* returns; None when the GPU has no such thing."""
    try:
        return call()
    except nvml.NVMLError as error:
        if error.value == IS_LOST:
            raise
        return None


def _first_known(nvml: Any, newer: Callable[[], T], older: Callable[[], T]) -> T:
    """Return what *newer* returns, or *older* where the driver does not know *newer*."""
    try:
        return newer()
    except nvml.NVMLError as error:
        if error.value not in {FUNCTION_NOT_FOUND, NOT_SUPPORTED, nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH}:
            raise
        return older()


def _field_values(asking: _Asking, handle: Any, links: Sequence[int]) -> Values:
    """Return the values of all fields in one call, by field and scope. Fields that are refused are left out."""
    wanted = [(number, 0) for number in OF_GPU] + [(number, link) for link in links for number in OF_LINK]
    values: Values = {}
    for each in asking.ask("fields", lambda: asking.nvml.nvmlDeviceGetFieldValues(handle, wanted)) or ():
        if each.nvmlReturn == 0:
            values[each.fieldId, each.scopeId] = int(getattr(each.value, VALUE_MEMBERS[each.valueType]))
        elif each.fieldId == RECOVERY_ACTION:
            asking.refuse("recovery_action", each.nvmlReturn)
        elif each.fieldId == RETIRED_PENDING:
            asking.refuse("pages", each.nvmlReturn)
    return values


def _from_fields(asking: _Asking, values: Values, heat: Heat | None, links: Sequence[Link]) -> dict[str, Any]:
    """Return the fields of a :class:`Gpu` that come from *values*."""
    if code := asking.unread.get("fields"):
        asking.unread |= {"recovery_action": code, "pages": code}
    told: dict[str, Any] = {"recovery_action": values.get((RECOVERY_ACTION, 0))}
    if (RETIRED_PENDING, 0) in values:
        retired = sum(values.get((number, 0), 0) for number in (RETIRED_SINGLE, RETIRED_DOUBLE))
        told["pages"] = Pages(retired, bool(values[RETIRED_PENDING, 0]))
    if heat is not None:
        told["heat"] = replace(heat, memory_c=values.get((MEMORY_TEMPERATURE, 0)))
    if links:
        told["links"] = tuple(_counted(link, values) for link in links)
    return told


def _counted(link: Link, values: Values) -> Link:
    at = link.number
    recoveries = values.get((LINK_RECOVERY_EVENTS, at), values.get((LINK_RECOVERIES, at)))
    return replace(
        link,
        recoveries=recoveries,
        crc_errors=values.get((LINK_CRC_ERRORS, at)),
        receive_errors=values.get((LINK_RECEIVE_ERRORS, at)),
    )
