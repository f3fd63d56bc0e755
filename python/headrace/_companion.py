"""The engine in another process, over the socket that HEADRACE_ENGINE names.

No Go runtime is loaded here: only libheadrace_client.so, which maps the memory of
batches and gives them back. companion/doc.go describes the protocol.

A thread reads all replies. It never runs a signal handler, so nothing that was read
is lost to one; who waits for a reply waits for a lock. A message is sent by one call
into C, which no signal handler interrupts.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import socket
import struct
import threading
import weakref
from array import array
from collections import deque
from ctypes import c_uint64
from pathlib import Path
from typing import Any

from ._client import AGAIN, END, OK, Client, Hold, Room
from ._errors import Budget, Device, EngineLost, HeadraceError, error_of
from ._version import __version__

MAGIC = b"headrace"
VERSION = 1
"""Of the protocol."""

MAX_FRAME = 256 << 20
CLOSED = 1 << 63
"""Marks a number in the release pipe as that of memory that was closed."""

LOST = -1
"""Stands for a descriptor that came and found no place in this process. A frame has one at most."""

HELLO_SECONDS = 10.0
CLOSE_SECONDS = 10.0  # an engine that is stopped by a signal must not keep the trainer from its end
GREETING = struct.Struct("<8sII")
HEADER = struct.Struct("<IBBHQ")

# Kinds of frames.
OPEN, ASK, CLOSE, PUSH, NEXT, CANCEL = 1, 2, 3, 4, 5, 6
RESULT, NOT_YET, ENDED, ERROR, BATCH, FORGET = 64, 65, 66, 67, 68, 69


class Memory:
    """Memory of the engine, open here until nothing needs it any more."""

    def __init__(self, client: Any, pointer: int) -> None:
        self._release = client.hr_memory_release
        self.pointer: int | None = pointer
        self.address: int = client.hr_memory_address(pointer)
        self.device: int = max(0, client.hr_memory_ordinal(pointer))
        """Number of its device, as this process counts them."""

    @classmethod
    def map(cls, client: Any, fd: int, size: int) -> Memory:
        """A file of the engine."""
        pointer = client.hr_memory_map(fd, size)
        if pointer is None:
            raise Budget(f"cannot map {size} bytes of a batch")
        return cls(client, pointer)

    @classmethod
    def open(cls, client: Any, uuid: str, handle: str, release_fd: int, number: int) -> Memory:
        """An allocation of the engine on a GPU, which hears when it is closed here, or could not be opened."""
        why = ctypes.create_string_buffer(256)
        digits = bytes.fromhex(uuid.removeprefix("GPU-").removeprefix("MIG-").replace("-", ""))
        pointer = client.hr_memory_import(digits, bytes.fromhex(handle), release_fd, CLOSED | number, why, len(why))
        if pointer is None:
            raise Device(why.value.decode(errors="replace"))
        return cls(client, pointer)

    def __del__(self) -> None:
        pointer: int | None = getattr(self, "pointer", None)
        if pointer is not None:
            self._release(pointer)
            self.pointer = None


class Call:
    """A request that waits for its reply."""

    __slots__ = ("answered", "done", "error", "handle", "room", "status", "value")

    def __init__(self, room: Room | None) -> None:
        self.done = threading.Lock()
        self.done.acquire()
        self.answered = False
        self.room = room
        self.status = OK
        self.handle = 0
        self.value: Any = None
        self.error: HeadraceError | None = None

    def answer(self) -> None:
        """Wakes who waits. All else is set before."""
        self.answered = True
        self.done.release()


class Companion(Client):
    """A connection to an engine."""

    def __init__(self, path: str, folder: Path) -> None:
        super().__init__(folder)
        self.path = path
        self.lost: EngineLost | None = None
        self._release_source, self._release_fd = os.pipe2(os.O_CLOEXEC)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self.engine = self._greet()
        except BaseException:
            self._close_all()
            raise
        # Reentrant, for signal handlers and finalisers that call the engine.
        self._sending = threading.RLock()
        self._ids = itertools.count(1)
        self._calls: dict[int, Call] = {}
        self._memory: dict[int, Memory] = {}
        self._unopened: dict[int, HeadraceError] = {}  # memory that cannot be had here, and why
        self._fds: deque[int] = deque()
        _connections.add(self)
        threading.Thread(target=self._read, name="headrace engine", daemon=True).start()

    # --- greeting --------------------------------------------------------------

    def _greet(self) -> dict[str, Any]:
        self._socket.settimeout(HELLO_SECONDS)
        try:
            self._socket.connect(self.path)
            self._check_peer()
            hello = {"release": __version__, "pid": self.pid, "env": dict(os.environ), "memory": ["memfd", "cuda_ipc"]}
            body = _json(hello)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it says why it does not listen
                socket.send_fds(self._socket, [GREETING.pack(MAGIC, VERSION, len(body))], [self._release_source])
                self._socket.sendall(body)
            welcome = self._read_welcome()
        except (OSError, EOFError, ValueError) as e:
            raise EngineLost(f"no engine at {self.path} (HEADRACE_ENGINE): {_reason(e)}") from None
        if welcome.get("error"):
            raise error_of(welcome["error"]["kind"], f"engine at {self.path}: {welcome['error']['message']}")
        self._socket.settimeout(None)
        return welcome

    def _check_peer(self) -> None:
        _, user, _ = struct.unpack("3i", self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user != os.geteuid():
            raise ValueError(f"it belongs to user {user}, this process to user {os.geteuid()}")

    def _read_welcome(self) -> dict[str, Any]:
        magic, version, length = GREETING.unpack(_exactly(self._socket, GREETING.size))
        if magic != MAGIC:
            raise ValueError("what listens there is no engine")
        if version == VERSION:
            return json.loads(_exactly(self._socket, length))
        raise ValueError(
            f"it speaks version {version} of the protocol, this package {VERSION}: install the same headrace on both sides"
        )

    # --- requests --------------------------------------------------------------

    def alive(self) -> bool:
        return self.lost is None and super().alive()

    def open(self, what: dict[str, Any]) -> tuple[int, Any]:
        call = self.call(OPEN, _json(what | {"dir": _folder()}))
        return call.handle, call.value

    def ask(self, handle: int, method: str, argument: Any = None) -> Any:
        return self.call(ASK, _json({"handle": handle, "method": method, "argument": argument})).value

    def close(self, handle: int, *, wait: bool = True) -> None:
        if self.lost is not None:
            return  # it went with the engine
        if not wait:
            self._give_back(handle)
            return
        with contextlib.suppress(EngineLost):
            self.call(CLOSE, struct.pack("<Q", handle), patience=CLOSE_SECONDS)

    def push(self, handle: int, words: list[int], samples: int) -> int:
        return self.call(PUSH, struct.pack("<QII", handle, samples, 0) + _little(words)).status

    def next(self, handle: int, room: Room, timeout_ms: int) -> int:
        return self.call(NEXT, struct.pack("<QII", handle, timeout_ms, 0), room).status

    def _use(self, hold: Hold, stream: int) -> None:
        self._client.hr_slot_use(hold.slot, stream)

    def _after(self, hold: Hold, stream: int) -> None:
        self._client.hr_slot_after(hold.slot, stream)

    def fetch(self, hold: Hold, tensor: int, source: int, to: int, nbytes: int) -> None:
        self.check_process()
        status = self._client.hr_slot_fetch(hold.slot, to, source, nbytes)
        if status:
            raise Device(f"copying a batch from the GPU: CUDA error {status}")

    def call(self, kind: int, payload: bytes, room: Room | None = None, patience: float = -1) -> Call:
        """Sends a request and waits for its reply, or raises its error.

        With `patience` it waits so many seconds: the engine has the request and may
        carry it out later.
        """
        self.check_process()
        call, number = Call(room), next(self._ids)
        self._calls[number] = call
        try:
            self._send(kind, number, payload)
            call.done.acquire(timeout=patience)
        except BaseException:  # of a signal handler, mostly
            self._give_up(number, call)
            raise
        if call.error is not None:
            raise call.error
        return call

    def _send(self, kind: int, number: int, payload: bytes) -> None:
        if len(payload) > MAX_FRAME:
            raise error_of("budget", f"a request of {len(payload)} bytes, the engine takes at most {MAX_FRAME}")
        frame = HEADER.pack(len(payload), kind, 0, 0, number) + payload
        with self._sending:
            if self.lost is not None:
                raise self._gone()
            errno = self._client.hr_send(self._socket.fileno(), frame, len(frame))
        if errno:
            raise self._gone()

    def _give_up(self, number: int, call: Call) -> None:
        """Ends a call that nobody waits for. What it opens all the same is closed."""
        if not self.alive():
            return
        if self._calls.pop(number, None) is not None:
            with contextlib.suppress(EngineLost):
                self._send(CANCEL, number, b"")
            return
        if not call.answered:
            call.done.acquire()  # the reader is at it
        if call.handle:
            self._give_back(call.handle)

    def _give_back(self, number: int) -> None:
        """Closes an object, or releases a batch, from any place: a finaliser or the reader."""
        os.write(self._release_fd, struct.pack("=Q", number))

    def _gone(self) -> EngineLost:
        return EngineLost(
            f"the engine at {self.path} (process {self.engine['pid']}) has gone: start it again, "
            "make a new loader or pipeline, and take a loader to its place with load_state_dict"
        )

    # --- replies: the reader's thread alone ------------------------------------

    def _read(self) -> None:
        buffer = bytearray()
        try:
            while True:
                while len(buffer) < HEADER.size:
                    self._receive(buffer)
                length, kind, fds, _, number = HEADER.unpack_from(buffer)
                if length > MAX_FRAME:
                    return
                while len(buffer) < HEADER.size + length:
                    self._receive(buffer)
                payload = bytes(buffer[HEADER.size : HEADER.size + length])
                del buffer[: HEADER.size + length]
                self._take(kind, number, payload, [self._fds.popleft() for _ in range(fds)])
        except (OSError, EOFError):
            pass
        finally:
            self._end()

    def _receive(self, buffer: bytearray) -> None:
        data, fds, flags, _ = socket.recv_fds(self._socket, 1 << 16, 4, socket.MSG_CMSG_CLOEXEC)
        self._fds.extend(fds)
        if flags & socket.MSG_CTRUNC:
            self._fds.append(LOST)
        if not data:
            raise EOFError
        buffer += data

    def _take(self, kind: int, number: int, payload: bytes, fds: list[int]) -> None:
        """Hands a reply to who waits for it; what nobody waits for goes back."""
        if kind == FORGET:
            for i in struct.unpack(f"<{len(payload) // 8}Q", payload):
                self._memory.pop(i, None)
                self._unopened.pop(i, None)
            return
        value: dict[str, Any] = json.loads(payload) if payload else {}
        failed = self._map(value, fds) if kind == BATCH else None
        call = self._calls.pop(number, None)
        if failed is not None and call is not None:
            self._give_back(value["token"])
            call.error = failed
            call.answer()
            return
        if call is None:
            unwanted = value.get("token") or value.get("handle")
            if unwanted:
                self._give_back(unwanted)
            return
        try:
            self._fill(call, kind, value)
        finally:
            call.answer()

    def _fill(self, call: Call, kind: int, value: dict[str, Any]) -> None:
        if kind == RESULT:
            call.handle, call.value = value["handle"], value["value"]
        elif kind == BATCH and call.room is not None:
            self._fill_room(call.room, value)
        elif kind == ERROR:
            call.error = error_of(value["kind"], value["message"])
        else:
            call.status = {NOT_YET: AGAIN, ENDED: END}[kind]

    def _map(self, batch: dict[str, Any], fds: list[int]) -> HeadraceError | None:
        """Opens memory that is new, or tells why a batch in it cannot be had."""
        left = deque(fds)
        for new in batch.get("new", ()):
            try:
                self._memory[new["id"]] = self._open_memory(new, left)
            except HeadraceError as e:
                self._unopened[new["id"]] = e
        return self._unopened.get(batch["memory"])

    def _open_memory(self, new: dict[str, Any], fds: deque[int]) -> Memory:
        if new["kind"] == "cuda_ipc":
            return Memory.open(self._client, new["uuid"], new["handle"], self._release_fd, new["id"])
        fd = fds.popleft()
        if fd == LOST:
            raise Budget("no file is left for the memory of a batch: raise ulimit -n, and make a new pipeline or loader")
        try:
            return Memory.map(self._client, fd, new["bytes"])
        finally:
            os.close(fd)

    def _fill_room(self, room: Room, batch: dict[str, Any]) -> None:
        base = device = 0
        if batch["memory"]:
            memory = self._memory[batch["memory"]]
            if self._client.hr_slot_attach(room.slot, memory.pointer) < 0:
                raise MemoryError("no memory for a batch")
            base, device = memory.address, memory.device
        for out, tensor in zip(room.tensors, batch["tensors"], strict=False):
            shape = tensor["shape"]
            out.data = base + tensor["offset"] if base and 0 not in shape else None
            out.dtype, out.device_type = tensor["dtype"], tensor["device_type"]
            out.device_id = device if base else tensor["device_id"]
            out.ndim = len(shape)
            out.shape[: len(shape)] = shape
        out, ids = room.out, batch["ids"]
        out.samples, out.tensors_out = len(ids), len(batch["tensors"])
        room.ids[: len(ids)] = ids
        out.epoch, out.step, out.view, out.turn = batch["epoch"], batch["step"], batch["view"], batch["turn"]
        out.weight = batch["weight"]
        room.errors = batch.get("errors") or []
        # Last: from here on the batch goes back with the slot.
        c_uint64.from_address(out.token).value = batch["token"]

    def _end(self) -> None:
        """The engine has gone: wakes everyone."""
        self.lost = self._gone()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that sends
        with self._sending:
            self._socket.close()
        # The release pipe stays: batches that are held write to it.
        while self._calls:
            with contextlib.suppress(KeyError):  # its caller gave it up
                _, call = self._calls.popitem()
                call.error = self._gone()
                call.answer()
        self._memory.clear()  # batches that are held keep theirs

    def _close_all(self) -> None:
        """Closes the descriptors, which a forked child has too; a number may be another file's later."""
        for fd in (self._socket.detach(), self._release_source, self._release_fd):
            if fd >= 0:
                os.close(fd)
        self._release_source = self._release_fd = -1


_connections: weakref.WeakSet[Companion] = weakref.WeakSet()


def _disown() -> None:
    # The engine knows by the end of the connection that the trainer has ended: a child
    # must not keep it open.
    for connection in list(_connections):
        connection._close_all()  # pyright: ignore[reportPrivateUsage]


os.register_at_fork(after_in_child=_disown)


def _exactly(source: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        more = source.recv(n - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _reason(e: Exception) -> str:
    if isinstance(e, (FileNotFoundError, ConnectionRefusedError)):
        return "nothing listens there; start `headrace engine --socket` with this path"
    if isinstance(e, EOFError):
        return "it closed the connection"
    return (e.strerror if isinstance(e, OSError) else None) or str(e)


def _folder() -> str:
    """Where relative paths begin."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _little(words: list[int]) -> bytes:
    numbers = array("q", words)
    if struct.pack("=H", 1) != struct.pack("<H", 1):
        numbers.byteswap()
    return numbers.tobytes()


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
