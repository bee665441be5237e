"""Do the names resolve that jobs need?

The site names them in `node.dns_names`: the controller, a file server, a registry. Each is asked for as programs do,
with the machine's own settings. Without any nothing is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from wheeltapper.checks import calls
from wheeltapper.checks.model import Check, Fault, Host, NotApplicable, Probe, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

FAILED = Fault("dns", "network/dns", "a name does not resolve")
SLOW = Fault("dns", "network/dns", "names resolve slowly")


class Limits(Section):
    """When an answer counts as slow."""

    slow_s: float = Field(
        4.0,
        gt=0,
        strict=False,
        description="Seconds. The resolver's own patience with one server is 5 (resolv.conf(5)).",
    )


def read(host: Host) -> Mapping[str, float | str]:
    """Return for each name in how many seconds it resolved, or why it does not.

    Raises:
        NotApplicable: none must.
    """
    if not host.expected.dns_names:
        raise NotApplicable("node.dns_names is not set")
    return {name: _asked(name) for name in host.expected.dns_names}


def _asked(name: str) -> float | str:
    try:
        return calls.resolve(name)
    except OSError as error:
        return error.strerror or str(error)


def judge(readings: Sequence[Reading[Mapping[str, float | str]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each name that does not resolve, or slowly."""
    now = readings[-1]
    for name, answer in now.value.items():
        if isinstance(answer, str):
            yield FAILED.seen(host, now.at, f"{name} does not resolve: {answer}", detail=f"name={name}", device=name)
        elif answer >= limits.slow_s:
            yield SLOW.seen(host, now.at, f"{name} took {answer:.1f} s to resolve", detail=f"name={name}", device=name)


PROBE = Probe("dns", read, deadline_s=30.0, may_hang=True)
CHECK = Check("dns", PROBE, judge, Limits)
