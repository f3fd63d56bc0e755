"""Tensors: views of memory that the engine filled, on the host or on a GPU."""

from __future__ import annotations

import operator
import sys
from ctypes import c_int64
from typing import TYPE_CHECKING, Any, NoReturn

from ._check import is_flag, needed
from ._client import Client, Hold, TensorOut, View
from ._dtype import Dtype, dlpack_code, numpy_dtype, typestr
from ._errors import Device

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

CPU, CUDA = 1, 2
"""DLDeviceType of host memory and of a GPU's."""

COPIED = 2
"""DLPack's flag of a tensor that shares no memory."""

# The number of each type in the engine's package nd.
_ENGINE_TYPES = (
    Dtype.BOOL,
    Dtype.I8,
    Dtype.I16,
    Dtype.I32,
    Dtype.I64,
    Dtype.U8,
    Dtype.U16,
    Dtype.U32,
    Dtype.U64,
    Dtype.F16,
    Dtype.BF16,
    Dtype.F32,
    Dtype.F64,
    Dtype.C64,
    Dtype.C128,
)


def engine_type(number: int) -> Dtype:
    """The type behind a number of package nd, which counts from 1."""
    return _ENGINE_TYPES[number - 1]


class _Memory:
    """Memory as numpy takes it; numpy keeps this object, and so the hold, alive."""

    def __init__(self, hold: Hold, interface: dict[str, Any]) -> None:
        self.hold = hold
        self.__array_interface__ = interface


class Tensor:
    """One field of a batch: a C-contiguous array of shape [samples, *extents].

    It owns a share of the batch's memory, which stays valid while the tensor, or
    anything made of it without a copy, exists: also after `Batch.release`, and
    after the pipeline was closed. On a GPU whoever takes it tells its stream: see
    `Batch.release` for more.
    """

    __slots__ = ("_data", "_hold", "_library", "_number", "device", "dtype", "name", "shape")

    name: str
    """The field."""
    shape: tuple[int, ...]
    """Samples first, then the extents of the crop."""
    dtype: Dtype
    """Element type."""
    device: tuple[int, int]
    """DLPack's device type and number: (1, 0) is host memory, (2, N) GPU N."""

    def __init__(self, library: Client, hold: Hold, name: str, number: int, out: TensorOut) -> None:
        self._library = library
        self._hold = hold
        self._number = number
        self._data = out.data or 0
        self.name = name
        self.shape = tuple(out.shape[: out.ndim])
        self.dtype = engine_type(out.dtype)
        self.device = (out.device_type, out.device_id)

    def __repr__(self) -> str:
        return f"<headrace.Tensor {self.name!r} {self.dtype.short} {list(self.shape)}>"

    # copy and deepcopy come here too.
    def __reduce__(self) -> NoReturn:
        raise TypeError("a tensor is memory of the engine and cannot be copied or pickled: copy .numpy()")

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        n = self.dtype.itemsize
        for extent in self.shape:
            n *= extent
        return n

    def numpy(self) -> npt.NDArray[Any]:
        """The tensor as a numpy array: without a copy, or a copy of what lies on a GPU.

        bf16 has the dtype of the ml_dtypes package if that is installed, else
        uint16 that holds the bits; `tensor.dtype` tells the two apart. The copy of a
        tensor that somebody writes meanwhile holds any mix of old and new.
        """
        np = needed("numpy", ".numpy()")
        dtype = numpy_dtype(self.dtype)
        if self._data == 0:
            return np.empty(self.shape, dtype)
        if self.device[0] != CPU:
            copied: Any = np.empty(self.shape, dtype)
            self._fetch(copied.ctypes.data)
            return copied
        interface = {"version": 3, "shape": self.shape, "typestr": typestr(self.dtype), "data": (self._data, False)}
        array: Any = np.asarray(_Memory(self._hold, interface))
        return array.view(dtype) if self.dtype is Dtype.BF16 else array

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[tuple[Any, ...], np.dtype[Any]]:
        if copy is False and self.device[0] != CPU:
            raise ValueError(f"{self!r} lies on a GPU: it cannot be had without a copy")
        array: Any = self.numpy()
        converted = array if dtype is None else array.astype(dtype, copy=False)
        if copy is False and converted is not array:
            raise ValueError(f"{self!r} cannot become {dtype} without a copy")
        return converted.copy() if copy and converted is array else converted

    def torch(self) -> Any:
        """The tensor as a torch.Tensor, without a copy, for torch's current stream.

        Raises Device where the tensor lies on a GPU and torch has no CUDA.
        """
        torch = needed("torch", ".torch()")
        if self.device[0] != CPU and not (torch.cuda.is_initialized() or torch.cuda.is_available()):
            raise Device(f'{self!r} lies on a GPU, and this torch {torch.__version__} has no CUDA: use device="cpu"')
        return torch.from_dlpack(self)

    def cupy(self) -> Any:
        """The tensor as a cupy.ndarray, without a copy, for cupy's current stream."""
        return needed("cupy", ".cupy()").from_dlpack(self)

    def jax(self) -> Any:
        """The tensor as a jax.Array, without a copy where jax allows it."""
        return needed("jax.dlpack", ".jax()").from_dlpack(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule: the versioned form for a max_version of at least (1, 0), else the legacy one.

        `stream` is where a tensor on a GPU will be used: None or 1 for the legacy
        default stream, 2 for that of this thread, -1 for one that is not told, or a
        CUstream. The tensor is ready on any of them. A host copy of it is to be had
        with dl_device=(1, 0).

        Raises BufferError for stream 0, which is ambiguous; for copy=True, save to the
        host; for another device; and for a stream where the tensor lies in host memory.
        """
        versioned = max_version is not None and tuple(max_version) >= (1, 0)
        target = self.device if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        if target == (CPU, 0) != self.device and copy is not False:
            return self._host_copy(versioned)
        if target != self.device:
            raise BufferError(f"{self!r} lies on device {self.device} and is not copied to {target}")
        if copy:
            raise BufferError(f"{self!r} is shared and never copied: copy the result")
        if self.device[0] != CPU:
            self._library.use(self._hold, lasting(stream_number(stream), self.device[1]))
        elif stream not in (None, -1):
            raise BufferError(f"{self!r} lies in host memory: stream must be None, not {stream!r}")
        return self._library.capsule(self._hold, self._view(self._data, self.device, 0), versioned)

    def _host_copy(self, versioned: bool) -> object:
        if self._data == 0:
            return self._library.capsule(self._hold, self._view(0, (CPU, 0), COPIED), versioned)
        hold, address = self._library.host_memory(self.nbytes)
        self._fetch(address)
        return self._library.capsule(hold, self._view(address, (CPU, 0), COPIED), versioned)

    def _fetch(self, to: int) -> None:
        self._library.fetch(self._hold, self._number, self._data, to, self.nbytes)

    def _view(self, data: int, device: tuple[int, int], flags: int) -> View:
        code, bits = dlpack_code(self.dtype)
        return View(
            data=data or None,
            shape=(c_int64 * len(self.shape))(*self.shape),
            ndim=len(self.shape),
            device_type=device[0],
            device_id=device[1],
            code=code,
            bits=bits,
            flags=flags,
        )


LEGACY_STREAM = 1


def stream_number(stream: Any) -> int:
    """A stream as DLPack numbers them; None is the legacy default stream. BufferError for what is none."""
    if stream is None:
        return LEGACY_STREAM
    try:
        number = operator.index(stream)
    except TypeError:
        number = 0
    if number == 0 or number < -1 or number >= 2**63 or is_flag(stream):
        raise BufferError(
            f"stream is {stream!r}: None or 1 for the legacy default stream, 2 for the thread's, "
            "-1 for any, or the address of a CUstream"
        )
    return number


def lasting(stream: int, ordinal: int) -> int:
    """The stream if it will never be destroyed, else -1, for one that is not known.

    The engine asks the stream when the last tensor is gone: one that was destroyed
    crashes the driver. Those of torch's pool last; others that consumers name may
    not, or are only waited on while the kernels run on another, as jax has it.
    """
    if stream == LEGACY_STREAM:
        return stream
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return -1
    current = torch.cuda.current_stream(ordinal)
    pooled = current.cuda_stream == stream and current.stream_id != stream  # else an ExternalStream
    return stream if pooled else -1
