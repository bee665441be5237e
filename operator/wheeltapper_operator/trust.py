"""Keeps the webhook's certificate in its Secret, and tells the API server whom to trust for it.

Every operator serves what stands in the Secret; the leader alone renews it, and sees to it that the webhook's
configuration names the same authorities.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from wheeltapper import kubernetes_names as names
from wheeltapper.errors import SchedulerError
from wheeltapper_operator.api import JSON_PATCH, ApiError, Json, path_of
from wheeltapper_operator.certificates import BUNDLE, renewed
from wheeltapper_operator.parts import Parts
from wheeltapper_operator.reflector import Change, Reflector
from wheeltapper_operator.webhook import Webhook

log = logging.getLogger(__name__)

LOOK_S = 3600.0
"""How often the certificate's age is looked at when nothing changes."""

AGAIN_S = 5.0
"""How soon what failed is tried again."""

CONFIGURATIONS = "admissionregistration.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Files:
    """The Secret as it stands. ``content`` is decoded, in the Secret's own names."""

    version: str
    content: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Trusted:
    """The webhook's configuration: which authorities each of its webhooks is held to (base64 of PEM)."""

    version: str
    bundles: tuple[str, ...]


class Trust:
    """The certificate of *webhook*."""

    def __init__(self, parts: Parts, webhook: Webhook) -> None:
        section = parts.settings.kubernetes
        self._parts = parts
        self._webhook = webhook
        self._namespace, self._secret = section.namespace, section.preflight.secret
        self._configuration = section.preflight.configuration
        self._hosts = hosts(section.preflight.service, section.namespace)
        self._changed = asyncio.Event()
        only = "metadata.name={}".format
        self.files = Reflector(
            parts.api,
            path_of("v1", "secrets", self._namespace),
            secret_view,
            self._hear_files,
            {"fieldSelector": only(self._secret)},
        )
        self.trusted = Reflector(
            parts.api,
            path_of(CONFIGURATIONS, "mutatingwebhookconfigurations"),
            configuration_view,
            self._hear_trusted,
            {"fieldSelector": only(self._configuration)},
        )

    async def keep(self) -> None:
        """Renew and tell, for ever, while we lead. What may not be read holds up nothing but this."""
        await self.files.synced.wait()
        await self.trusted.synced.wait()
        while True:
            self._changed.clear()
            wait = LOOK_S
            try:
                await self._renew()
                await self._tell()
            except SchedulerError as error:
                if not (isinstance(error, ApiError) and error.is_conflict):
                    log.warning("The webhook's certificate has to wait: %s.", error)
                wait = AGAIN_S
            waiting = asyncio.create_task(self._changed.wait())
            try:
                await asyncio.wait({waiting}, timeout=wait)
            finally:
                waiting.cancel()

    def _hear_files(self, change: Change[Files]) -> None:
        if change.new is not None:
            self._webhook.use(dict(change.new.content))
        self._changed.set()

    def _hear_trusted(self, _change: Change[Trusted]) -> None:
        self._changed.set()

    @property
    def _standing(self) -> Files | None:
        return self.files.get(f"{self._namespace}/{self._secret}")

    async def _renew(self) -> None:
        """Put what is due into the Secret; raise ``SchedulerError`` when that cannot be done."""
        before = self._standing
        after = renewed(dict(before.content) if before else {}, self._hosts, datetime.now(timezone.utc))
        if after is None:
            return
        path = path_of("v1", "secrets", self._namespace)
        if before is None:
            written = await self._parts.api.post(path, secret(self._namespace, self._secret, after))
        else:
            # With the version that was read: who renewed it meanwhile has done our work.
            patch = {"metadata": {"resourceVersion": before.version}, "data": encoded(after)}
            written = await self._parts.api.patch(f"{path}/{self._secret}", patch, fieldManager=names.MANAGER)
        self.files.put(written)
        log.info("The webhook's certificate was made anew.")

    async def _tell(self) -> None:
        """Have the webhook's configuration name our authorities; raise ``SchedulerError`` when that cannot be done."""
        standing, trusted = self._standing, self.trusted.get(self._configuration)
        if standing is None or trusted is None:
            return  # the chart brings the configuration; until it does nobody asks us
        bundle = base64.b64encode(dict(standing.content)[BUNDLE]).decode()
        if all(each == bundle for each in trusted.bundles):
            return
        path = path_of(CONFIGURATIONS, "mutatingwebhookconfigurations", name=self._configuration)
        patch = told(trusted, bundle)
        self.trusted.put(await self._parts.api.patch(path, patch, JSON_PATCH, fieldManager=names.MANAGER))
        log.info("The API server was told whom to trust for the webhook.")


def hosts(service: str, namespace: str) -> tuple[str, ...]:
    """Return the names that the webhook is reached by; ``localhost`` for an API server on the operator's machine."""
    return f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", "localhost"


def secret_view(item: Json) -> Files | None:
    """Return the view of the Secret; one whose content is no base64 holds nothing."""
    content: Mapping[str, str] = item.get("data") or {}
    try:
        decoded = tuple(sorted((name, base64.b64decode(value, validate=True)) for name, value in content.items()))
    except binascii.Error:
        decoded = ()
    return Files(item["metadata"]["resourceVersion"], decoded)


def configuration_view(item: Json) -> Trusted:
    """Return the view of the webhook's configuration."""
    bundles = tuple((each.get("clientConfig") or {}).get("caBundle") or "" for each in item.get("webhooks") or ())
    return Trusted(item["metadata"]["resourceVersion"], bundles)


def secret(namespace: str, name: str, files: Mapping[str, bytes]) -> Json:
    """Return the Secret that holds *files*."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",  # as the chart's, which is made before there is a certificate
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": names.MANAGER},
        },
        "data": encoded(files),
    }


def encoded(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return *files* as a Secret holds them."""
    return {each: base64.b64encode(content).decode() for each, content in files.items()}


def told(trusted: Trusted, bundle: str) -> list[Json]:
    """Return the JSON patch that has every webhook of the configuration trust *bundle*."""
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": trusted.version},
        *(
            {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": bundle}
            for number in range(len(trusted.bundles))
        ),
    ]
