"""Batches: what came together, and how long it is held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from ._client import Client, Hold, Room
from ._dtype import Dtype
from ._errors import Closed, HeadraceError, error_of
from ._tensor import CPU, Tensor, stream_number
from ._torch import TorchBatch, torch_batch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


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
    batch's own part of it early. On a GPU it is then written again once the streams
    to which it was given have done what they have by then: kernels may still run when
    the last tensor goes.

    ids
        The samples in the batch, in order: places in the source for a loader,
        `Sample.id` for a pipeline.
    epoch, step
        The epoch (0 for a pipeline), and the number of the batch: within the epoch
        for a loader, since the start for a pipeline. Both count from 0.
    view
        Where ranks come and go and keep step: the number of the view that the batch is of;
        0 elsewhere.
    turn
        There: another number after each change of the ranks and after each redo, the same on
        all ranks of a step. The trainer's collectives are known by it.
    weight
        Of a loader's batch: multiply the mean loss of its samples by it, and the mean over
        the ranks, as DDP takes it of gradients, is the mean over the global batch. 1.0 where
        all ranks have as many samples, 0.0 for a batch of none, less where samples were
        skipped. Of a pipeline's: the share of a full batch.
    weights
        The weight of each sample: 1.0, or 0.0 where a loader with tail="mask" filled the
        batch up; the id is then -1.
    errors
        A SampleError, with `id` and `error`, for each sample that was skipped or
        filled; empty with on_error="raise".
    """

    __slots__ = (
        "__weakref__",
        "_hold",
        "_library",
        "_names",
        "_tensors",
        "epoch",
        "errors",
        "ids",
        "step",
        "turn",
        "view",
        "weight",
        "weights",
    )

    ids: tuple[int, ...]
    """The samples in the batch, in order: see the class."""
    epoch: int
    """The epoch of the batch, from 0; 0 for a pipeline."""
    step: int
    """Number of the batch, from 0: within the epoch for a loader, since the start for a pipeline."""
    turn: int
    """Another one after each change of the ranks and each redo: see the class."""
    view: int
    """Number of the view that it was made in: see the class."""
    weight: float
    """What the mean loss of a rank's samples is multiplied by: see the class."""
    weights: tuple[float, ...]
    """The weight of each sample: 1.0, or 0.0 for what only fills the batch up."""
    errors: tuple[SampleError, ...]
    """Samples that were skipped or filled."""

    def __init__(self, library: Client, room: Room, names: tuple[str, ...], padding: bool = False) -> None:
        out = room.out
        self._library = library
        self._hold: Hold | None = room.take_hold()
        self._tensors = room.tensors
        self._names = names
        self.ids = tuple(room.ids[: out.samples])
        self.epoch = out.epoch
        self.step = out.step
        self.turn = out.turn
        self.view = out.view
        self.weight = out.weight
        self.weights = tuple(0.0 if padding and i < 0 else 1.0 for i in self.ids)
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
        number = self._names.index(field)
        return Tensor(self._library, self._held(), field, number, self._tensors[number])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def release(self, stream: int | None = None) -> None:
        """Drops the batch's hold of its memory; tensors made before keep theirs.

        On a GPU the memory is not written again before the work is done that the
        streams have to which the batch was given. `stream` names one more, for the work
        that it has now: a CUstream as `torch.cuda.Stream.cuda_stream` gives it, 1 for
        the legacy default stream, 2 for that of this thread, -1 for "any". Raises Closed
        if the batch was released before.
        """
        hold = self._held()
        if stream is not None and self._tensors[0].device_type != CPU:
            self._library.after(hold, stream_number(stream))
        self._hold = None

    def to(self, device: Any = None, *, non_blocking: bool = False) -> TorchBatch:
        """The tensors as torch's, on a device of torch; None leaves them where they are.

        Tensors that lie there already are not copied: they are views of the batch, and
        hold its memory. ids, weight, weights, epoch and step come with them.
        """
        return torch_batch(self, device, non_blocking)

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
