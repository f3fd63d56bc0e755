"""Batches as torch and the trainers around it expect them, and the process group of a torch job.

torch is never imported here for its own sake: what a program has not imported, it does
not use.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ._check import needed

if TYPE_CHECKING:
    from ._batch import Batch


class TorchBatch(dict[str, Any]):
    """A dict from field to torch.Tensor, with what the batch tells beside its tensors.

    `Batch.to` and `Batch.torch_dict` make it. Trainers that move batches to a device
    themselves (Lightning, Accelerate) call `to` on whatever a loader gives, and hand the
    result to the training step.
    """

    def __init__(self, tensors: dict[str, Any], batch: Batch | TorchBatch) -> None:
        super().__init__(tensors)
        self.ids = batch.ids
        """See Batch."""
        self.epoch = batch.epoch
        """See Batch."""
        self.step = batch.step
        """See Batch."""
        self.weight = batch.weight
        """See Batch."""
        self.weights = batch.weights
        """See Batch."""

    def to(self, device: Any = None, *, non_blocking: bool = False) -> TorchBatch:
        """The same on another device; tensors that are there already are not copied."""
        return TorchBatch({n: t.to(device, non_blocking=non_blocking) for n, t in self.items()}, self)

    def __reduce__(self) -> Any:
        return (_restore, (dict(self), self.__dict__))


def _restore(tensors: dict[str, Any], more: dict[str, Any]) -> TorchBatch:
    batch = TorchBatch.__new__(TorchBatch)
    batch.update(tensors)
    batch.__dict__.update(more)
    return batch


def torch_batch(batch: Batch, device: Any, non_blocking: bool) -> TorchBatch:
    """The tensors of a batch, without a copy where they lie on the device."""
    needed("torch", ".to()")
    tensors = {name: batch[name].torch() for name in batch}
    moved = TorchBatch(tensors, batch)
    return moved if device is None else moved.to(device, non_blocking=non_blocking)


class ProcessGroup:
    """torch.distributed's default process group, as far as a loader needs it."""

    def __init__(self, distributed: Any) -> None:
        self._distributed = distributed
        self.rank = int(distributed.get_rank())
        self.world_size = int(distributed.get_world_size())

    def gather(self, value: Any) -> list[Any]:
        """What each rank gave, on all of them. All must call it."""
        out: list[Any] = [None] * self.world_size
        self._distributed.all_gather_object(out, value)
        return out


def process_group() -> ProcessGroup | None:
    """The group of this process if it has joined one."""
    torch: Any = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return ProcessGroup(distributed)
