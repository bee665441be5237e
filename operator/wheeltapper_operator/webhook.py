"""The mutating webhook that every operator serves, leader or not: the API server asks it about each new pod."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import ssl
from collections.abc import Mapping

import orjson
from aiohttp import web

from wheeltapper.config import PodPreflightSection
from wheeltapper_operator import preflight
from wheeltapper_operator.api import Json
from wheeltapper_operator.certificates import CERTIFICATE, KEY

log = logging.getLogger(__name__)

PATH = "/preflight"

REVIEW_BYTES = 8 << 20
"""The API server takes no request of more than 3 MB, and a review holds its object at most twice."""

REOPEN_S = 5.0
"""How soon a port that could not be had is tried again."""


class Webhook:
    """Serves reviews over HTTPS, once there is a certificate."""

    def __init__(self, section: PodPreflightSection) -> None:
        self._section = section
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._ready = asyncio.Event()
        self.port = 0

    def use(self, files: Mapping[str, bytes]) -> None:
        """Serve with the certificate in *files* from the next connection on."""
        try:
            load(self._context, files[CERTIFICATE], files[KEY])
        except (KeyError, OSError) as error:  # ssl.SSLError is one
            log.error("The webhook goes on with the certificate that it has; the new one is no good: %s.", error)
            return
        self._ready.set()

    async def run(self) -> None:
        """Serve, for ever. A port that cannot be had is tried again: without us pods start unchecked."""
        await self._ready.wait()
        application = web.Application(client_max_size=REVIEW_BYTES)
        application.router.add_post(PATH, self._answer)
        application.router.add_get("/ready", _is_ready)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            await self._listen(runner)
            log.info("The webhook is served on port %d.", self.port)
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> None:
        while True:
            try:
                site = web.TCPSite(runner, self._section.listen, self._section.port, ssl_context=self._context)
                await site.start()
            except OSError as error:
                log.error("Pods start unchecked, because the webhook's port cannot be had: %s.", error)
                await asyncio.sleep(REOPEN_S)
                continue
            self.port = runner.addresses[0][1]
            return

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            said = answer(orjson.loads(await request.read()), self._section)
        except (KeyError, TypeError, AttributeError, orjson.JSONDecodeError) as error:
            log.error("A review is not understood (%r); its pod starts unchecked.", error)
            return web.Response(status=400)
        return web.Response(body=orjson.dumps(said), content_type="application/json")


async def _is_ready(_request: web.Request) -> web.Response:
    return web.Response(text="ready")


def answer(review: Json, section: PodPreflightSection) -> Json:
    """Return the answer to *review*: every pod may be made, and some are changed."""
    request = review["request"]
    response: Json = {"uid": request["uid"], "allowed": True}
    patch = preflight.mutate(request["object"], section)
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(patch)).decode()}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Give *context* another certificate. The key touches no disk: the container's is read-only.

    Raises:
        OSError: they are no certificate and its key.
    """
    memory = os.memfd_create("wheeltapper-webhook", os.MFD_CLOEXEC)
    try:
        os.write(memory, certificate + b"\n" + key)
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)
