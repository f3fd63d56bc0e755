"""What an engine in this process and one in another have in common, and the tiny C library of both.

The structs and prototypes repeat cabi/headrace.h and cabi/client/headrace_client.h.
"""

from __future__ import annotations

import ctypes
import os
import sys
from abc import ABC, abstractmethod
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from pathlib import Path
from typing import Any, NoReturn

from ._errors import Bug, Forked

OK, AGAIN, END = 0, 1, 2

CLIENT_ABI_VERSION = 6

STEP_MS = 100
"""Longest stay in the library at a time: Python's signal handlers wait that long."""

MAX_NDIM = 33


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
        ("turn", c_int64),
        ("weight", c_double),
        ("errors", c_void_p),
    )
    tensors_out: int
    samples: int
    epoch: int
    step: int
    view: int
    turn: int
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
        ("flags", c_uint16),
    )


# name: result, argument types, of libheadrace_client.so.
_CLIENT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "hr_client_abi_version": (c_int32, ()),
    "hr_client_load": (c_int32, (c_char_p,)),
    "hr_slot_token": (c_void_p, (c_void_p,)),
    "hr_slot_attach": (c_int32, (c_void_p, c_void_p)),
    "hr_slot_use": (None, (c_void_p, c_int64)),
    "hr_slot_after": (None, (c_void_p, c_int64)),
    "hr_slot_fetch": (c_int32, (c_void_p, c_void_p, c_uint64, c_int64)),
    "hr_slot_retain": (None, (c_void_p,)),
    "hr_slot_release": (None, (c_void_p,)),
    "hr_slot_refs": (c_int32, (c_void_p,)),
    "hr_memory_map": (c_void_p, (c_int32, c_int64)),
    "hr_memory_import": (c_void_p, (c_char_p, c_char_p, c_int32, c_uint64, c_char_p, c_int32)),
    "hr_memory_ordinal": (c_int32, (c_void_p,)),
    "hr_memory_address": (c_void_p, (c_void_p,)),
    "hr_memory_release": (None, (c_void_p,)),
    "hr_send": (c_int32, (c_int32, c_char_p, c_int64)),
    "hr_client_python": (None, (c_void_p, c_void_p, c_void_p)),
}


_CAPSULES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "hr_slot_capsule": (ctypes.py_object, (c_int32,)),
    "hr_slot_of": (c_void_p, (ctypes.py_object,)),
    "hr_capsule": (ctypes.py_object, (c_void_p, POINTER(View), c_int32)),
}


class Client(ABC):
    """An engine as its objects see it. All methods may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.pid = os.getpid()
        self._client = _load_client(folder / "libheadrace_client.so")
        self._capsules = _load_capsules(folder / "libheadrace_client.so")
        self._release_fd = -1

    def check_process(self) -> None:
        """Raises Forked in a child of the process that began with the engine."""
        if os.getpid() != self.pid:
            raise Forked(
                f"headrace was loaded in process {self.pid} and this is its forked child {os.getpid()}: "
                "start the child with the spawn or forkserver method, or load headrace only in the child; "
                "a torch DataLoader around it takes num_workers=0, the engine's threads are the workers"
            )

    def alive(self) -> bool:
        """Whether finalisers may still call the engine."""
        return os.getpid() == self.pid and not sys.is_finalizing()

    @abstractmethod
    def open(self, what: dict[str, Any]) -> tuple[int, Any]:
        """Opens an object: its handle and its description."""

    @abstractmethod
    def ask(self, handle: int, method: str, argument: Any = None) -> Any:
        """Asks an object for something that may take long; a JSON value."""

    @abstractmethod
    def close(self, handle: int, *, wait: bool = True) -> None:
        """Closes an object. Without waiting it is closed in its own time."""

    @abstractmethod
    def push(self, handle: int, words: list[int], samples: int) -> int:
        """Gives a batch to a pipeline, as numbers (see hr_push in cabi/abi.go): OK, or AGAIN where there is no room."""

    @abstractmethod
    def next(self, handle: int, room: Room, timeout_ms: int) -> int:
        """Puts the next batch of a pipeline or loader into the room: OK, AGAIN or END."""

    ordered = True
    """False leaves the consumers' streams out, for the test that shows what is lost then."""

    def use(self, hold: Hold, stream: int) -> None:
        """Notes a stream on which a batch is used, numbered as in DLPack; -1 is one that is not known.

        The batch's memory is not written again before the work is done that the stream
        has when the last share of it is dropped. The stream must not be destroyed.
        """
        self.check_process()
        if self.ordered:
            self._use(hold, stream)

    def after(self, hold: Hold, stream: int) -> None:
        """The same for the work that the stream has now; it may be destroyed afterwards."""
        self.check_process()
        if self.ordered:
            self._after(hold, stream)

    @abstractmethod
    def _use(self, hold: Hold, stream: int) -> None: ...

    @abstractmethod
    def _after(self, hold: Hold, stream: int) -> None: ...

    @abstractmethod
    def fetch(self, hold: Hold, tensor: int, source: int, to: int, nbytes: int) -> None:
        """Copies a tensor on a GPU, by its number in the batch and its address, to host memory, and waits for it."""

    def host_memory(self, nbytes: int) -> tuple[Hold, int]:
        """New host memory: a hold of it, and its address."""
        memory = self._client.hr_memory_map(-1, nbytes)
        if memory is None:
            raise MemoryError(f"cannot take {nbytes} bytes")
        hold = Hold(self._capsules, -1)  # of no batch: it sends nothing
        self._client.hr_slot_attach(hold.slot, memory)
        address: int = self._client.hr_memory_address(memory)
        self._client.hr_memory_release(memory)
        return hold, address

    def token(self, hold: Hold) -> int:
        """The engine's number of a batch."""
        return c_uint64.from_address(self._client.hr_slot_token(hold.slot)).value

    def room(self, tensors: int, samples: int) -> Room:
        """Room for one batch of at most so many tensors and samples."""
        self.check_process()
        return Room(self._client, self._capsules, self._release_fd, tensors, samples)

    def capsule(self, hold: Hold, view: View, versioned: bool) -> object:
        """A DLPack capsule with its own share of the batch."""
        self.check_process()
        return self._capsules.hr_capsule(hold.slot, byref(view), int(versioned))


class Hold:
    """A share of a batch's memory: what Python objects that look at it have in common.

    The engine gets the memory back when this object and all capsules are gone.
    """

    __slots__ = ("_owner", "slot")

    def __init__(self, capsules: Any, release_fd: int) -> None:
        # The capsule drops the share, in C: an exception of a signal handler cannot come in between.
        self._owner: object = capsules.hr_slot_capsule(release_fd)
        self.slot: int = capsules.hr_slot_of(self._owner)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a batch is memory of the engine and cannot be copied or pickled: copy .numpy()")


class Room:
    """Where the engine puts a batch and its description.

    The hold is there before the batch is: whatever interrupts the caller between
    the two, the batch goes back.
    """

    def __init__(self, client: Any, capsules: Any, release_fd: int, tensors: int, samples: int) -> None:
        self._hold: Hold | None = Hold(capsules, release_fd)
        self.slot = self._hold.slot
        self.tensors = (TensorOut * max(1, tensors))()
        self.ids = (c_int64 * max(1, samples))()
        self.errors: list[dict[str, Any]] = []  # the samples that were skipped or filled
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


def _load_client(path: Path) -> Any:
    client: Any = ctypes.CDLL(str(path))
    for name, (result, arguments) in _CLIENT.items():
        function = getattr(client, name)
        function.argtypes, function.restype = arguments, result
    check_version(path, client.hr_client_abi_version(), CLIENT_ABI_VERSION)
    client.hr_client_python(
        *(
            ctypes.cast(getattr(ctypes.pythonapi, name), c_void_p)
            for name in ("PyCapsule_New", "PyCapsule_GetPointer", "PyCapsule_IsValid")
        )
    )
    return client


def _load_capsules(path: Path) -> Any:
    """The functions that call into Python, and so keep the GIL."""
    capsules: Any = ctypes.PyDLL(str(path))
    for name, (result, arguments) in _CAPSULES.items():
        function = getattr(capsules, name)
        function.argtypes, function.restype = arguments, result
    return capsules


def check_version(path: Path, found: int, wanted: int) -> None:
    if found != wanted:
        raise Bug(f"{path} has ABI version {found}, this package needs {wanted}: reinstall headrace")
