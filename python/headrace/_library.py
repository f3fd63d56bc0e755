"""The engine in this process: loading libheadrace.so, and its C interface as ctypes sees it.

Nothing is loaded when headrace is imported: the Go runtime that comes with the
library does not survive a fork, and many programs import first and fork later.
`library()` loads it on first use. From then on it belongs to this process: a
child that is forked later gets a `Forked` error from every call, at once, and its
finalisers do nothing. Where HEADRACE_ENGINE names an engine in another process,
`library()` connects to that one instead; see _companion.py.

The structs and prototypes repeat cabi/headrace.h.
"""

from __future__ import annotations

import ctypes
import json
import os
import threading
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from ._client import AGAIN, STEP_MS, BatchOut, Client, Hold, Room, check_version
from ._companion import Companion
from ._errors import HeadraceError, error_of

ABI_VERSION = 2


class Error(ctypes.Structure):
    _fields_ = (("code", c_int32), ("kind", c_void_p), ("message", c_void_p))
    kind: int | None
    message: int | None


class Result(ctypes.Structure):
    _fields_ = (("handle", c_uint64), ("json", c_void_p))
    handle: int
    json: int | None


_ERROR = POINTER(Error)

# name: argument types, of libheadrace.so; each returns an int32 status.
_ENGINE: dict[str, tuple[Any, ...]] = {
    "hr_start": (c_char_p, POINTER(c_int32), _ERROR),
    "hr_open": (c_char_p, POINTER(c_uint64), _ERROR),
    "hr_call": (c_uint64, c_char_p, c_char_p, POINTER(c_uint64), _ERROR),
    "hr_wait": (c_uint64, c_int32, POINTER(Result), _ERROR),
    "hr_close": (c_uint64, POINTER(c_uint64), _ERROR),
    "hr_push": (c_uint64, POINTER(c_int64), c_int64, c_int32, _ERROR),
    "hr_next": (c_uint64, c_int32, POINTER(BatchOut), _ERROR),
    "hr_use": (c_uint64, c_int64, _ERROR),
    "hr_after": (c_uint64, c_int64, _ERROR),
    "hr_copy": (c_uint64, c_int32, c_void_p, c_int64, _ERROR),
}


class Library(Client):
    """The loaded library."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._client.hr_client_load(os.fsencode(folder / "libheadrace.so"))
        self._engine = _load_engine(folder / "libheadrace.so")  # says why, if it was not loaded
        fd = c_int32(-1)
        self.call("hr_start", _json({"env": dict(os.environ)}), byref(fd))
        self._release_fd = fd.value

    def call(self, name: str, *args: Any) -> int:
        """One exported function; its status, or the exception for its error."""
        self.check_process()
        error = Error()
        status: int = getattr(self._engine, name)(*args, byref(error))
        if status < 0:
            raise self._take_error(error)
        return status

    def open(self, what: dict[str, Any]) -> tuple[int, Any]:
        return self._wait(lambda call: self.call("hr_open", _json(what), byref(call)))

    def ask(self, handle: int, method: str, argument: Any = None) -> Any:
        text = _json(argument)
        return self._wait(lambda call: self.call("hr_call", handle, method.encode(), text, byref(call)))[1]

    def close(self, handle: int, *, wait: bool = True) -> None:
        if wait:
            self._wait(lambda call: self.call("hr_close", handle, byref(call)))
            return
        call = c_uint64(0)
        self.call("hr_close", handle, byref(call))
        self._engine.hr_cancel(call)  # it closes all the same

    def _wait(self, start: Callable[[c_uint64], object]) -> tuple[int, Any]:
        """Waits for a call in steps, so that Ctrl-C comes through; then it is given up."""
        call, result = c_uint64(0), Result()
        try:
            start(call)
            while self.call("hr_wait", call, STEP_MS, byref(result)) == AGAIN:
                pass
            text = self._take_text(result.json)
            return result.handle, None if text is None else json.loads(text)
        except BaseException:  # of a signal handler; after the call's own error there is nothing to give up
            if call.value and self.alive():
                self._engine.hr_cancel(call)
                if result.handle:
                    self.close(result.handle, wait=False)
            raise

    def _take_error(self, error: Error) -> HeadraceError:
        kind = self._take_text(error.kind) or "bug"
        return error_of(kind, self._take_text(error.message) or "no message")

    def _take_text(self, address: int | None) -> str | None:
        """The text at an address that the library allocated, which is freed."""
        if not address:
            return None
        try:
            return ctypes.string_at(address).decode("utf-8", "replace")
        finally:
            self._engine.hr_free(address)

    # --- batches ---------------------------------------------------------------

    def push(self, handle: int, words: list[int], samples: int) -> int:
        numbers = (c_int64 * len(words))(*words)
        return self.call("hr_push", handle, ctypes.cast(numbers, POINTER(c_int64)), len(words), samples)

    def next(self, handle: int, room: Room, timeout_ms: int) -> int:
        status = self.call("hr_next", handle, timeout_ms, byref(room.out))
        text = self._take_text(room.out.errors)
        room.out.errors = None
        room.errors = [] if text is None else json.loads(text)
        return status

    def _use(self, hold: Hold, stream: int) -> None:
        self.call("hr_use", self.token(hold), stream)

    def _after(self, hold: Hold, stream: int) -> None:
        self.call("hr_after", self.token(hold), stream)

    def fetch(self, hold: Hold, tensor: int, source: int, to: int, nbytes: int) -> None:
        self.call("hr_copy", self.token(hold), tensor, to, nbytes)


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _load_engine(path: Path) -> Any:
    engine: Any = ctypes.CDLL(str(path))
    engine.hr_abi_version.argtypes = ()
    engine.hr_abi_version.restype = c_int32
    check_version(path, engine.hr_abi_version(), ABI_VERSION)
    for name, arguments in _ENGINE.items():
        function = getattr(engine, name)
        function.argtypes, function.restype = arguments, c_int32
    engine.hr_cancel.argtypes, engine.hr_cancel.restype = (c_uint64,), None
    engine.hr_free.argtypes, engine.hr_free.restype = (c_void_p,), None
    return engine


FOLDER = Path(__file__).parent
"""Where the shared libraries lie."""

_lock = threading.Lock()
_loaded: Library | None = None
_companions: dict[str, Companion] = {}


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()


# Another thread of the parent may have held it.
os.register_at_fork(after_in_child=_new_lock)


def library() -> Client:
    """The engine of this process: that which HEADRACE_ENGINE names, else the library, loaded on the first call."""
    global _loaded
    path = os.environ.get("HEADRACE_ENGINE")
    if path:
        return _companion(path)
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = Library(FOLDER)
    _loaded.check_process()
    return _loaded


def _companion(path: str) -> Companion:
    """The connection to an engine; a new one where the last one's engine has gone."""
    with _lock:
        found = _companions.get(path)
        if found is None or found.lost:
            found = _companions[path] = Companion(path, FOLDER)
    found.check_process()
    return found
