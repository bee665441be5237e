"""Only one operator acts: a Lease says which, and who holds it renews it long before it runs out.

The lease is judged by this machine's own clock, from the moment at which its record was last seen to change: clocks of
two machines are never compared.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timezone

from wheeltapper.errors import SchedulerError
from wheeltapper.tasks import end
from wheeltapper_operator.api import Api, ApiError, Json, path_of

log = logging.getLogger(__name__)

LEASE_S = 15
"""A leader that was not heard of for so long is dead: kube-controller-manager's own value."""
RENEW_S = 10.0
"""A leader that could not renew for so long stops by itself, before another may begin."""
TRY_S = 2.0
"""How often it is renewed, or looked at."""

GROUP = "coordination.k8s.io/v1"


class Leader:
    """Takes part in the election on the Lease *namespace*/*name* as *me*."""

    def __init__(self, api: Api, namespace: str, name: str, me: str) -> None:
        self._api = api
        self._path = path_of(GROUP, "leases", namespace, name)
        self._create = path_of(GROUP, "leases", namespace)
        self._namespace = namespace
        self._name = name
        self.me = me
        self.leads = False
        self._seen: Json = {}
        self._seen_at = 0.0
        self._renewed_at = 0.0

    def may_act(self) -> bool:
        """True while we lead and the lease is fresh, by the clock and not by what our tasks have noticed."""
        return self.leads and time.monotonic() - self._renewed_at < RENEW_S

    async def run(self, lead: Callable[[], Coroutine[None, None, None]]) -> None:
        """Wait until the lease is ours, then run *lead* until it ends or the lease is lost; for ever.

        *lead* is cancelled when the lease is lost, and has ended before this looks for the lease again.
        """
        while True:
            while not await self._try():  # noqa: ASYNC110 - the server tells nobody when a lease runs out
                await asyncio.sleep(TRY_S)
            log.info("This operator (%s) leads.", self.me)
            self.leads = True
            work = asyncio.create_task(lead())
            renewing = asyncio.create_task(self._renew())
            try:
                await asyncio.wait({work, renewing}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.leads = False
                await end((work, renewing))
            if work.done() and not work.cancelled():
                work.result()
            log.warning("This operator (%s) no longer leads.", self.me)

    async def resign(self) -> None:
        """Give the lease back, so that another need not wait for it to run out."""
        if self._holder(self._seen) == self.me:
            with suppress(SchedulerError):
                await self._write({**self._seen["spec"], "holderIdentity": "", "leaseDurationSeconds": 1})

    async def _renew(self) -> None:
        while self.may_act():
            await asyncio.sleep(TRY_S)
            # Not wait_for: before Python 3.12 it may swallow the cancellation that ends us.
            attempt = asyncio.create_task(self._try())
            try:
                await asyncio.wait({attempt}, timeout=RENEW_S - (time.monotonic() - self._renewed_at))
            finally:
                attempt.cancel()
            has_failed = not attempt.done() or attempt.cancelled() or not attempt.result()
            if has_failed and self._holder(self._seen) not in {self.me, ""}:
                return

    async def _try(self) -> bool:
        """Take or renew the lease if that is possible; return whether it is ours."""
        try:
            lease = await self._api.get(self._path)
            self._look(lease)
            holder = self._holder(lease)
            ran_out = time.monotonic() - self._seen_at > int(lease["spec"].get("leaseDurationSeconds") or LEASE_S)
            if holder not in {self.me, ""} and not ran_out:
                return False
            changes = int(lease["spec"].get("leaseTransitions") or 0) + (holder != self.me)
            since = lease["spec"].get("acquireTime") if holder == self.me else _now()
            await self._write(self._spec(since, changes))
        except ApiError as error:
            if error.status == 404:
                return await self._make()
            if not error.is_conflict:
                log.warning("The lease %s cannot be had: %s.", self._name, error)
            return False
        except SchedulerError as error:
            log.warning("The lease %s cannot be had: %s.", self._name, error)
            return False
        return True

    async def _make(self) -> bool:
        meta = {"name": self._name, "namespace": self._namespace}
        body = {"apiVersion": GROUP, "kind": "Lease", "metadata": meta, "spec": self._spec(_now(), 0)}
        asked = time.monotonic()
        try:
            self._look(await self._api.post(self._create, body))
        except SchedulerError as error:
            log.warning("The lease %s cannot be made: %s.", self._name, error)
            return False
        self._renewed_at = asked
        return True

    async def _write(self, spec: Json) -> None:
        asked = time.monotonic()
        # With the version that was read: whoever was quicker has it, and we get a conflict.
        self._look(await self._api.put(self._path, {**self._seen, "spec": spec}))
        self._renewed_at = asked

    def _spec(self, since: str | None, changes: int) -> Json:
        return {
            "holderIdentity": self.me,
            "leaseDurationSeconds": LEASE_S,
            "acquireTime": since or _now(),
            "renewTime": _now(),
            "leaseTransitions": changes,
        }

    def _look(self, lease: Json) -> None:
        if lease["metadata"].get("resourceVersion") != self._seen.get("metadata", {}).get("resourceVersion"):
            self._seen_at = time.monotonic()
        self._seen = lease

    @staticmethod
    def _holder(lease: Json) -> str:
        return str(lease.get("spec", {}).get("holderIdentity") or "")


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
