"""Does everything run that must?

The site names in `node.services` what must run: systemd units by their full name (`nvidia-fabricmanager.service`),
asked by `systemctl is-active`, or processes by their name (`slurmd`), looked for in `/proc`. Without any nothing is
checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wheeltapper.checks import processes, running
from wheeltapper.checks.model import Check, Fault, Host, NoLimits, NotApplicable, Probe, Reading
from wheeltapper.evidence import Finding

AWAY = Fault("services", "software/config", "a service that must run does not")

ASK_S = 10.0

RUNS = frozenset({"active", "reloading"})


def read(host: Host) -> Mapping[str, str]:
    """Return the state of each service of *host* that must run, by its name; a process ``runs`` or is ``absent``.

    Raises:
        NotApplicable: none must.
        OSError: systemd does not answer, or processes cannot be listed.
        ValueError: systemd's answer cannot be read.
    """
    wanted = host.expected.services
    if not wanted:
        raise NotApplicable("node.services is not set")
    units = [name for name in wanted if "." in name]
    found = dict(zip(units, _asked(host, units), strict=True)) if units else {}
    if len(units) < len(wanted):
        names = {each.comm for each in processes.every(host)}
        for name in wanted:
            if name not in units:
                found[name] = "active" if name[: processes.COMM_BYTES] in names else "absent"
    return found


def _asked(host: Host, units: Sequence[str]) -> list[str]:
    systemctl = running.find(host, "systemctl")
    if systemctl is None:
        raise ValueError("node.services names systemd units, and systemctl is not installed")
    states = running.run([str(systemctl), "is-active", "--", *units], ASK_S).output.split()
    if len(states) != len(units):
        raise ValueError(f"systemctl answered: {' '.join(states)[:200]}")
    return states


def judge(readings: Sequence[Reading[Mapping[str, str]]], host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield each service that does not run."""
    now = readings[-1]
    for name, state in now.value.items():
        if state not in RUNS:
            yield AWAY.seen(
                host, now.at, f"{name} must run, and is {state}", detail=f"service={name} state={state}", device=name
            )


PROBE = Probe("services", read, deadline_s=ASK_S + 1.0, may_hang=True)
CHECK = Check("services", PROBE, judge)
