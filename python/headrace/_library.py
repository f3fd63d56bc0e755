"""Loading libheadrace.so, and the C interface as ctypes sees it.

Nothing is loaded when headrace is imported: the Go runtime that comes with the
library does not survive a fork, and many programs import first and fork later.
`library()` loads it on first use. From then on it belongs to this process: a
child that is forked later gets a `Forked` error from every call, at once, and its
finalisers do nothing.

The structs and prototypes repeat cabi/headrace.h and cabi/client/headrace_client.h.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from pathlib import Path
from typing import Any, NoReturn

from ._errors import Bug, Forked, HeadraceError, error_of

OK, AGAIN, END = 0, 1, 2

ABI_VERSION = 1
CLIENT_ABI_VERSION = 2

STEP_MS = 100
"""Longest stay in the library at a time: Python's signal handlers wait that long."""

MAX_NDIM = 33


class Error(ctypes.Structure):
    _fields_ = (("code", c_int32), ("kind", c_void_p), ("message", c_void_p))
    kind: int | None
    message: int | None


class Result(ctypes.Structure):
    _fields_ = (("handle", c_uint64), ("json", c_void_p))
    handle: int
    json: int | None


class TensorOut(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("dtype", c_int32),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("shape", c_int64 * MAX_NDIM),
    )
    data: int | None
    dtype: int
    device_type: int
    device_id: int
    ndim: int
    shape: Any


class BatchOut(ctypes.Structure):
    _fields_ = (
        ("token", c_void_p),
        ("tensors", POINTER(TensorOut)),
        ("tensor_room", c_int32),
        ("tensors_out", c_int32),
        ("ids", POINTER(c_int64)),
        ("id_room", c_int64),
        ("samples", c_int64),
        ("epoch", c_int64),
        ("step", c_int64),
        ("view", c_int64),
        ("weight", c_double),
        ("errors", c_void_p),
    )
    tensors_out: int
    samples: int
    epoch: int
    step: int
    view: int
    weight: float
    errors: int | None


class View(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("shape", POINTER(c_int64)),
        ("ndim", c_int32),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("read_only", c_uint16),
    )


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
}

# name: result, argument types, of libheadrace_client.so.
_CLIENT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "hr_client_abi_version": (c_int32, ()),
    "hr_client_load": (c_int32, (c_char_p,)),
    "hr_slot_new": (c_void_p, (c_int32,)),
    "hr_slot_token": (c_void_p, (c_void_p,)),
    "hr_slot_retain": (None, (c_void_p,)),
    "hr_slot_release": (None, (c_void_p,)),
    "hr_slot_refs": (c_int32, (c_void_p,)),
    "hr_client_python": (None, (c_void_p, c_void_p, c_void_p)),
}


class Library:
    """The loaded library. All methods may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.pid = os.getpid()
        self._client = _load_client(folder / "libheadrace_client.so")
        self._client.hr_client_load(os.fsencode(folder / "libheadrace.so"))
        self._engine = _load_engine(folder / "libheadrace.so")  # says why, if it was not loaded
        # hr_capsule calls into Python and so keeps the GIL.
        self._capsule: Any = ctypes.PyDLL(str(folder / "libheadrace_client.so")).hr_capsule
        self._capsule.restype = ctypes.py_object
        self._capsule.argtypes = (c_void_p, POINTER(View), c_int32)
        fd = c_int32(-1)
        self.call("hr_start", _json({"env": dict(os.environ)}), byref(fd))
        self._release_fd = fd.value

    # --- calls -----------------------------------------------------------------

    def check_process(self) -> None:
        """Raises Forked in a child of the process that loaded the library."""
        if os.getpid() != self.pid:
            raise Forked(
                f"headrace was loaded in process {self.pid} and this is its forked child {os.getpid()}: "
                "start the child with the spawn or forkserver method, or load headrace only in the child"
            )

    def alive(self) -> bool:
        """Whether finalisers may still call the library."""
        return os.getpid() == self.pid and not sys.is_finalizing()

    def call(self, name: str, *args: Any) -> int:
        """One exported function; its status, or the exception for its error."""
        self.check_process()
        error = Error()
        status: int = getattr(self._engine, name)(*args, byref(error))
        if status < 0:
            raise self._take_error(error)
        return status

    def open(self, what: dict[str, Any]) -> tuple[int, Any]:
        """Opens an object: its handle and its description."""
        return self._wait(lambda call: self.call("hr_open", _json(what), byref(call)))

    def ask(self, handle: int, method: str, argument: Any = None) -> Any:
        """Asks an object for something that may take long; a JSON value."""
        text = _json(argument)
        return self._wait(lambda call: self.call("hr_call", handle, method.encode(), text, byref(call)))[1]

    def close(self, handle: int, *, wait: bool = True) -> None:
        """Closes an object. Without waiting it is closed in its own time."""
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

    def room(self, tensors: int, samples: int) -> Room:
        """Room for one batch of at most so many tensors and samples."""
        self.check_process()
        return Room(self._client, self._release_fd, tensors, samples)

    def next(self, handle: int, room: Room, timeout_ms: int) -> int:
        """Puts the next batch of a pipeline or loader into the room: OK, AGAIN or END."""
        return self.call("hr_next", handle, timeout_ms, byref(room.out))

    def take_errors(self, out: BatchOut) -> list[dict[str, Any]]:
        """The samples that were skipped or filled."""
        text = self._take_text(out.errors)
        out.errors = None
        return [] if text is None else json.loads(text)

    def capsule(self, hold: Hold, view: View, versioned: bool) -> object:
        """A DLPack capsule with its own share of the batch."""
        self.check_process()
        return self._capsule(hold.slot, byref(view), int(versioned))


class Hold:
    """A share of a batch's memory: what Python objects that look at it have in common.

    The engine gets the memory back when this object and all capsules are gone.
    """

    __slots__ = ("_release", "slot")

    def __init__(self, client: Any, release_fd: int) -> None:
        self.slot: int | None = client.hr_slot_new(release_fd)
        # Kept here: at the end of the interpreter modules go before objects do.
        self._release: Callable[[int], None] = client.hr_slot_release
        if self.slot is None:
            raise MemoryError("no memory for the slot of a batch")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a batch is memory of the engine and cannot be copied or pickled: copy .numpy()")

    def __del__(self) -> None:
        slot: int | None = getattr(self, "slot", None)  # one that no __init__ made has none
        if slot is not None:
            self._release(slot)
            self.slot = None


class Room:
    """Where the engine puts a batch and its description.

    The hold is there before the batch is: whatever interrupts the caller between
    the two, the batch goes back.
    """

    def __init__(self, client: Any, release_fd: int, tensors: int, samples: int) -> None:
        self._hold: Hold | None = Hold(client, release_fd)
        self.tensors = (TensorOut * max(1, tensors))()
        self.ids = (c_int64 * max(1, samples))()
        self.out = BatchOut(
            token=client.hr_slot_token(self._hold.slot),
            tensors=self.tensors,
            tensor_room=tensors,
            ids=ctypes.cast(self.ids, POINTER(c_int64)),
            id_room=samples,
        )

    def take_hold(self) -> Hold:
        """The hold of the batch, which passes to the caller."""
        hold, self._hold = self._hold, None
        assert hold is not None
        return hold


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _load_engine(path: Path) -> Any:
    engine: Any = ctypes.CDLL(str(path))
    engine.hr_abi_version.argtypes = ()
    engine.hr_abi_version.restype = c_int32
    _check_version(path, engine.hr_abi_version(), ABI_VERSION)
    for name, arguments in _ENGINE.items():
        function = getattr(engine, name)
        function.argtypes, function.restype = arguments, c_int32
    engine.hr_cancel.argtypes, engine.hr_cancel.restype = (c_uint64,), None
    engine.hr_free.argtypes, engine.hr_free.restype = (c_void_p,), None
    return engine


def _load_client(path: Path) -> Any:
    client: Any = ctypes.CDLL(str(path))
    for name, (result, arguments) in _CLIENT.items():
        function = getattr(client, name)
        function.argtypes, function.restype = arguments, result
    _check_version(path, client.hr_client_abi_version(), CLIENT_ABI_VERSION)
    client.hr_client_python(
        *(
            ctypes.cast(getattr(ctypes.pythonapi, name), c_void_p)
            for name in ("PyCapsule_New", "PyCapsule_GetPointer", "PyCapsule_IsValid")
        )
    )
    return client


def _check_version(path: Path, found: int, wanted: int) -> None:
    if found != wanted:
        raise Bug(f"{path} has ABI version {found}, this package needs {wanted}: reinstall headrace")


FOLDER = Path(__file__).parent
"""Where the shared libraries lie."""

_lock = threading.Lock()
_loaded: Library | None = None


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()


# Another thread of the parent may have held it.
os.register_at_fork(after_in_child=_new_lock)


def library() -> Library:
    """The library, loaded on the first call in a process."""
    global _loaded
    found = _loaded
    if found is None:
        found = _load()
    found.check_process()
    return found


def _load() -> Library:
    global _loaded
    with _lock:
        if _loaded is None:
            if os.environ.get("HEADRACE_ENGINE"):
                raise error_of(
                    "unsupported",
                    "HEADRACE_ENGINE names a companion engine, which comes with a later version: unset it",
                )
            _loaded = Library(FOLDER)
        return _loaded
