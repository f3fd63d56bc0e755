"""Batches and tensors: views of memory that the engine filled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ctypes import c_int64
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from ._check import needed
from ._client import Client, Hold, Room, TensorOut, View
from ._dtype import Dtype, dlpack_code, numpy_dtype, typestr
from ._errors import Closed, HeadraceError, error_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

CPU = 1
"""DLDeviceType of host memory."""

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
    after the pipeline was closed.
    """

    __slots__ = ("_data", "_hold", "_library", "device", "dtype", "name", "shape")

    name: str
    """The field."""
    shape: tuple[int, ...]
    """Samples first, then the extents of the crop."""
    dtype: Dtype
    """Element type."""
    device: tuple[int, int]
    """DLPack's device type and number: (1, 0) is host memory."""

    def __init__(self, library: Client, hold: Hold, name: str, out: TensorOut) -> None:
        self._library = library
        self._hold = hold
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
        """The tensor as a numpy array, without a copy.

        bf16 has the dtype of the ml_dtypes package if that is installed, else
        uint16 that holds the bits; `tensor.dtype` tells the two apart.
        Raises TypeError for a tensor on a GPU.
        """
        if self.device[0] != CPU:
            raise TypeError(f"{self!r} lies on a GPU: use torch(), cupy() or jax()")
        np = needed("numpy", ".numpy()")
        dtype = numpy_dtype(self.dtype)
        if self._data == 0:
            return np.empty(self.shape, dtype)
        interface = {"version": 3, "shape": self.shape, "typestr": typestr(self.dtype), "data": (self._data, False)}
        array: Any = np.asarray(_Memory(self._hold, interface))
        return array.view(dtype) if self.dtype is Dtype.BF16 else array

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[tuple[Any, ...], np.dtype[Any]]:
        array: Any = self.numpy()
        converted = array if dtype is None else array.astype(dtype, copy=False)
        if copy is False and converted is not array:
            raise ValueError(f"{self!r} cannot become {dtype} without a copy")
        return converted.copy() if copy and converted is array else converted

    def torch(self) -> Any:
        """The tensor as a torch.Tensor, without a copy."""
        return needed("torch", ".torch()").from_dlpack(self)

    def cupy(self) -> Any:
        """The tensor as a cupy.ndarray, without a copy."""
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

        Raises BufferError for copy=True, for another device, and for a stream
        where the tensor lies in host memory.
        """
        if stream not in (None, -1):
            raise BufferError(f"{self!r} lies in host memory: stream must be None, not {stream!r}")
        if dl_device is not None and tuple(dl_device) != self.device:
            raise BufferError(f"{self!r} lies on device {self.device} and is not copied to {tuple(dl_device)}")
        if copy:
            raise BufferError(f"{self!r} is shared and never copied: copy the result")
        code, bits = dlpack_code(self.dtype)
        view = View(
            data=self._data or None,
            shape=(c_int64 * len(self.shape))(*self.shape),
            ndim=len(self.shape),
            device_type=self.device[0],
            device_id=self.device[1],
            code=code,
            bits=bits,
        )
        return self._library.capsule(self._hold, view, max_version is not None and tuple(max_version) >= (1, 0))


class SampleError:
    """A sample that was skipped or filled, and why."""

    __slots__ = ("error", "id")

    def __init__(self, id: int, error: HeadraceError) -> None:
        self.id = id
        self.error = error

    def __repr__(self) -> str:
        return f"<headrace.SampleError {self.id}: {self.error}>"


class Batch(Mapping[str, Tensor]):
    """A batch: a mapping from field to tensor, and a hold of their memory.

    A batch of one field has the tensor's own `numpy`, `torch`, `cupy`, `jax`,
    `shape`, `dtype` and `__dlpack__`. The memory goes back to the engine when the
    batch and all tensors are gone; `release`, or leaving a `with` block, drops the
    batch's own part of it early.

    ids
        The samples in the batch, in order: places in the source for a loader,
        `Sample.id` for a pipeline.
    epoch, step
        The epoch (0 for a pipeline), and the number of the batch: within the epoch
        for a loader, since the start for a pipeline. Both count from 0.
    weight
        Share of a full batch: 1.0, less for the last of an epoch or where samples
        were skipped, 0.0 for a batch of no samples. Weigh the loss of a short batch
        with it.
    errors
        A SampleError, with `id` and `error`, for each sample that was skipped or
        filled; empty with on_error="raise".
    """

    __slots__ = ("__weakref__", "_hold", "_library", "_names", "_tensors", "epoch", "errors", "ids", "step", "weight")

    ids: tuple[int, ...]
    """The samples in the batch, in order: see the class."""
    epoch: int
    """The epoch of the batch, from 0; 0 for a pipeline."""
    step: int
    """Number of the batch, from 0: within the epoch for a loader, since the start for a pipeline."""
    weight: float
    """Share of a full batch: 1.0, less for the last of an epoch, 0.0 for a batch of no samples."""
    errors: tuple[SampleError, ...]
    """Samples that were skipped or filled."""

    def __init__(self, library: Client, room: Room, names: tuple[str, ...]) -> None:
        out = room.out
        self._library = library
        self._hold: Hold | None = room.take_hold()
        self._tensors = room.tensors
        self._names = names
        self.ids = tuple(room.ids[: out.samples])
        self.epoch = out.epoch
        self.step = out.step
        self.weight = out.weight
        self.errors = tuple(SampleError(e["id"], error_of(e["kind"], e["message"])) for e in room.errors)

    # Two batches are never the same one, whatever their tensors hold.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        state = "released" if self._hold is None else f"{len(self.ids)} samples of {', '.join(self._names)}"
        return f"<headrace.Batch epoch {self.epoch} step {self.step}: {state}>"

    def __getitem__(self, field: str) -> Tensor:
        """The tensor of a field. Raises KeyError for a name that is none, Closed after release."""
        if field not in self._names:
            raise KeyError(f"{field!r} is none of the fields {list(self._names)}")
        return Tensor(self._library, self._held(), field, self._tensors[self._names.index(field)])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def release(self, event: object = None) -> None:
        """Drops the batch's hold of its memory; tensors made before keep theirs.

        `event` is what a GPU must have passed before the memory is used again; for
        a batch in host memory there is nothing to wait for. Raises Closed if the
        batch was released before.
        """
        self._held()
        self._hold = None

    def __enter__(self) -> Batch:
        self._held()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._hold = None

    def _held(self) -> Hold:
        if self._hold is None:
            raise Closed(f"the batch of epoch {self.epoch}, step {self.step} was released")
        self._library.check_process()
        return self._hold

    # A batch of one field stands for its tensor.

    def _only(self) -> Tensor:
        if len(self._names) != 1:
            raise TypeError(f"the batch has the fields {', '.join(self._names)}: pick one, as in batch[{self._names[0]!r}]")
        return self[self._names[0]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the only tensor."""
        return self._only().shape

    @property
    def dtype(self) -> Dtype:
        """Element type of the only tensor."""
        return self._only().dtype

    def numpy(self) -> npt.NDArray[Any]:
        """The only tensor; see Tensor.numpy."""
        return self._only().numpy()

    def torch(self) -> Any:
        """The only tensor; see Tensor.torch."""
        return self._only().torch()

    def cupy(self) -> Any:
        """The only tensor; see Tensor.cupy."""
        return self._only().cupy()

    def jax(self) -> Any:
        """The only tensor; see Tensor.jax."""
        return self._only().jax()

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[tuple[Any, ...], np.dtype[Any]]:
        return self._only().__array__(dtype, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._only().__dlpack_device__()

    def __dlpack__(self, **options: Any) -> object:
        return self._only().__dlpack__(**options)

    # copy and deepcopy come here too.
    def __reduce__(self) -> NoReturn:
        raise TypeError("a batch is memory of the engine and cannot be copied or pickled: copy .numpy()")
