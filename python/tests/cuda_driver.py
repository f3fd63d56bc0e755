"""A consumer's own use of the CUDA driver, by ctypes: for tests that need no more than streams and copies.

It works on the fake driver of cuda/cudatest too, whose switches are `Driver.fake`.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int, c_int64, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

NON_BLOCKING = 1


class Driver:
    """The primary context of GPU 0."""

    def __init__(self) -> None:
        self._library: Any = ctypes.CDLL("libcuda.so.1")
        self._get: Any = self._library.cuGetProcAddress_v2
        self._get.argtypes = (c_char_p, c_void_p, c_int, c_uint64, c_void_p)
        self._entries: dict[str, Any] = {}
        self("cuInit", c_uint(0))
        count = c_int()
        self("cuDeviceGetCount", byref(count))
        self.count = count.value
        self._context = c_void_p()

    def __call__(self, name: str, *arguments: Any) -> None:
        entry = self._entries.get(name)
        if entry is None:
            address = c_void_p()
            if self._get(name.encode(), byref(address), 12000, 0, None) != 0:
                raise OSError(f"the driver has no {name}")
            entry = self._entries[name] = ctypes.CFUNCTYPE(c_int, *(type(a) for a in _plain(arguments)))(address.value or 0)
        status = entry(*_plain(arguments))
        if status != 0:
            raise OSError(f"{name}: CUDA error {status}")

    def within(self, name: str, *arguments: Any) -> None:
        """A call inside the context, which is this thread's for the call only."""
        if not self._context:
            self("cuDevicePrimaryCtxRetain", byref(self._context), c_int(0))
        self("cuCtxPushCurrent", self._context)
        try:
            self(name, *arguments)
        finally:
            self("cuCtxPopCurrent", byref(c_void_p()))

    def stream(self) -> int:
        """A new stream that does not wait for the legacy default stream."""
        stream = c_void_p()
        self.within("cuStreamCreateWithPriority", byref(stream), c_uint(NON_BLOCKING), c_int(0))
        return stream.value or 0

    def destroy(self, stream: int) -> None:
        self.within("cuStreamDestroy", c_void_p(stream))

    def wait(self, stream: int) -> None:
        self.within("cuStreamSynchronize", c_void_p(stream))

    def alloc(self, nbytes: int) -> int:
        address = c_uint64()
        self.within("cuMemAlloc", byref(address), c_size_t(nbytes))
        return address.value

    def free(self, address: int) -> None:
        self.within("cuMemFree", c_uint64(address))

    def copy(self, stream: int, to: int, source: int, nbytes: int) -> None:
        """Queues a copy; both sides are the GPU's, or pinned."""
        self.within("cuMemcpyAsync", c_uint64(to), c_uint64(source), c_size_t(nbytes), c_void_p(stream))

    def bytes_at(self, stream: int, address: int, nbytes: int) -> bytes:
        """Memory of the GPU once the stream has done what it has."""
        pinned = c_void_p()
        self.within("cuMemHostAlloc", byref(pinned), c_size_t(nbytes), c_uint(0))
        self.copy(stream, pinned.value or 0, address, nbytes)
        self.wait(stream)
        got = ctypes.string_at(pinned, nbytes)
        self.within("cuMemFreeHost", pinned)
        return got

    @property
    def is_fake(self) -> bool:
        return hasattr(self._library, "hr_fake")

    def fake(self, switch: str, a: int = 0, name: str = "", b: int = 0) -> int:
        """A switch of the fake driver."""
        function = self._library.hr_fake
        function.argtypes, function.restype = (c_char_p, c_char_p, c_int64, c_int64), c_int64
        return function(switch.encode(), name.encode(), a, b)


def _plain(arguments: tuple[Any, ...]) -> list[Any]:
    """The arguments as values of simple types: what byref gave is an address."""
    return [a if isinstance(a, ctypes._SimpleCData) else ctypes.cast(a, c_void_p) for a in arguments]  # pyright: ignore


def find() -> tuple[Driver | None, str]:
    """The driver of this machine, or why there is none."""
    try:
        driver = Driver()
    except (OSError, AttributeError) as e:
        return None, f"no NVIDIA driver: {e}"
    return (driver, "") if driver.count else (None, "the NVIDIA driver sees no GPU")
