"""What everything with a handle in the engine has in common."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Any, NoReturn

from ._errors import Closed, ConfigError, PoolStarved
from ._library import library


class Engine:
    """A handle, closed once."""

    def __init__(self, what: dict[str, Any]) -> None:
        self._handle = 0
        self._library = library()
        self._handle, self._about = self._library.open(what)

    @property
    def closed(self) -> bool:
        """Whether close was called."""
        return self._handle == 0

    def close(self) -> None:
        """Cancels what is under way and frees the engine's memory. May be called twice, and from any thread.

        What waits in another thread raises Closed. Batches and tensors that are
        held stay valid.
        """
        handle, self._handle = self._handle, 0
        if handle:
            self._library.close(handle)

    def _open_handle(self) -> int:
        self._library.check_process()
        if self._handle == 0:
            raise Closed(f"this {type(self).__name__} was closed")
        return self._handle

    def _ask(self, method: str, argument: Any = None) -> Any:
        return self._library.ask(self._open_handle(), method, argument)

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", 0), 0
        if handle and self._library.alive():
            self._library.close(handle, wait=False)

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"a {name} belongs to its process and cannot be pickled: open it where it is used")


class Starvation:
    """Tells a wait that only the caller can end: every slot is a batch that is held.

    A wait for storage is none, however long it takes.
    """

    def __init__(self, slots: int, timeout: float | None) -> None:
        self._slots = slots
        self._timeout = timeout
        self._since: float | None = None

    def check(self, held: int) -> None:
        """Raises PoolStarved once every slot has been held for the timeout."""
        if held < self._slots:
            self._since = None
            return
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if self._timeout is not None and now - self._since >= self._timeout:
            raise PoolStarved(starved(held, self._slots))


def starved(held: int, slots: int) -> str:
    """What to do where every slot is held."""
    return (
        f"{held} batches are held and there are {slots} slots, so no batch can be made: drop batches "
        "and what was made of them without a copy, copy what you keep, or raise slots="
    )


def patience(timeout: Any) -> float | None:
    """A timeout in seconds, None for ever."""
    if timeout is None:
        return None
    if isinstance(timeout, (int, float)) and timeout >= 0:
        return float(timeout)
    raise ConfigError(f"timeout is {timeout!r}: seconds, or None to wait for ever")


def device_name(device: str | int | None) -> str:
    """The engine's name of a device: "" for the default, "cpu", "cuda:N", a UUID."""
    if device is None:
        return ""
    if isinstance(device, int) and not isinstance(device, bool) and device >= 0:
        return f"cuda:{device}"
    if isinstance(device, str) and device.startswith(("GPU-", "MIG-")):
        return device
    text = str(device).lower()  # a torch.device too
    if text == "cpu" or (text.startswith("cuda:") and text[5:].isdigit()):
        return text
    known = '"cpu", "cuda:N", N, "GPU-<uuid>" or "MIG-<uuid>"'
    raise ConfigError(f"device is {device!r}: {known}, or None for the GPU of this rank if it has one")


def environment() -> dict[str, str]:
    """The environment for the engine: Go sees only what the process started with."""
    return dict(os.environ)
