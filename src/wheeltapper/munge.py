"""MUNGE credentials, made and opened by the host's own libmunge.

A credential says which user made it on which host, holds a short secret, and can be opened by one user alone, once, and
for five minutes. libmunge asks munged over a unix socket and waits for it, for seconds when munged hangs: event loops
call this in a thread.
"""

from __future__ import annotations

import ctypes
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wheeltapper.errors import WireError

LIBRARY = "libmunge.so.2"

DEFAULT_SOCKET = Path("/run/munge/munge.socket.2")
"""Where munged listens unless it was built or started otherwise (munged(8))."""

MAX_CREDENTIAL = 4096
"""Characters: a credential with 32 bytes in it has some 200."""

# enum munge_opt and enum munge_err of munge.h; they are part of the library's interface, version 2.
_OPT_ADDR4, _OPT_SOCKET, _OPT_UID_RESTRICTION = 5, 8, 9
_SUCCESS = 0


@dataclass(frozen=True, slots=True)
class Opened:
    """What a valid credential held, which user made it, and the IPv4 address of the host where that was."""

    payload: bytes
    uid: int
    address: str


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(LIBRARY)
    library.munge_ctx_create.restype = ctypes.c_void_p
    library.munge_ctx_destroy.argtypes = [ctypes.c_void_p]
    library.munge_ctx_destroy.restype = None
    library.munge_ctx_strerror.argtypes = [ctypes.c_void_p]
    library.munge_ctx_strerror.restype = ctypes.c_char_p
    library.munge_strerror.argtypes = [ctypes.c_int]
    library.munge_strerror.restype = ctypes.c_char_p
    library.munge_encode.argtypes = [
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int,
    ]
    library.munge_decode.argtypes = [
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_int),
        ctypes.POINTER(ctypes.c_uint32),
        ctypes.POINTER(ctypes.c_uint32),
    ]
    return library


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]
    libc.free.restype = None
    return libc


def is_here(socket: Path | None = None) -> bool:
    """True when this host has libmunge, and munged has made its *socket*."""
    try:
        _library()
    except OSError:
        return False
    return (socket or DEFAULT_SOCKET).exists()


def encode(payload: bytes, uid: int, socket: Path | None = None) -> str:
    """Return a credential that holds *payload* and that only the user *uid* can open.

    Raises:
        WireError: MUNGE is not here, or refused; the message says why.
    """
    credential = ctypes.c_void_p()
    with _context(socket) as (library, context):
        _require(library, context, library.munge_ctx_set(context, _OPT_UID_RESTRICTION, ctypes.c_uint32(uid)))
        _require(library, context, library.munge_encode(ctypes.byref(credential), context, payload, len(payload)))
    try:
        return ctypes.string_at(credential.value or 0).decode("ascii")
    finally:
        _libc().free(credential)


def decode(credential: str, socket: Path | None = None) -> Opened:
    """Return what *credential* holds; every credential opens once.

    Raises:
        WireError: it is none, is expired, was opened before, is not for us, or MUNGE is not here.
    """
    payload, length = ctypes.c_void_p(), ctypes.c_int()
    uid, gid, address = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_uint32()
    with _context(socket) as (library, context):
        try:
            code = library.munge_decode(
                credential.encode("ascii", "replace"),
                context,
                ctypes.byref(payload),
                ctypes.byref(length),
                ctypes.byref(uid),
                ctypes.byref(gid),
            )
            _require(library, context, code)
            _require(library, context, library.munge_ctx_get(context, _OPT_ADDR4, ctypes.byref(address)))
            held = ctypes.string_at(payload.value, length.value) if payload.value else b""
        finally:
            # Of an expired or replayed credential, too, the payload is handed out.
            _libc().free(payload)
    # struct in_addr is in network order.
    return Opened(held, uid.value, str(ipaddress.IPv4Address(bytes(address))))


@contextmanager
def _context(socket: Path | None) -> Iterator[tuple[ctypes.CDLL, ctypes.c_void_p]]:
    try:
        library = _library()
    except OSError as error:
        raise WireError(f"MUNGE is not here: {error}") from error
    context = ctypes.c_void_p(library.munge_ctx_create())
    if not context:
        raise WireError("MUNGE has no memory left")
    try:
        if socket is not None:
            _require(library, context, library.munge_ctx_set(context, _OPT_SOCKET, str(socket).encode()))
        yield library, context
    finally:
        library.munge_ctx_destroy(context)


def _require(library: ctypes.CDLL, context: ctypes.c_void_p, code: int) -> None:
    if code != _SUCCESS:
        said = library.munge_ctx_strerror(context) or library.munge_strerror(code) or b""
        raise WireError(f"MUNGE refuses: {said.decode('utf-8', 'replace') or f'error {code}'}")
