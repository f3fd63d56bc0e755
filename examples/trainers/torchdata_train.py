"""torchdata: the loader as a node among others, and inside a StatefulDataLoader.

    torchrun --nproc-per-node 2 torchdata_train.py --data DIR --work DIR

A Loader has `state_dict` and `load_state_dict` and is an iterable: torchdata keeps its
state exact for what was handed out, so that an interrupted epoch goes on.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.distributed as dist
import torchdata.nodes as tn
from tiny import arguments, gather, loader, prove
from torch.utils.data import IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

import headrace as hr


def ids(batches: Any) -> list[int]:
    return [i for b in batches for i in b.ids if i >= 0]


def node(batches: hr.Loader) -> Any:
    """Batches as torch tensors, by a node that torchdata runs."""
    return tn.Loader(tn.Mapper(tn.IterableWrapper(batches), lambda batch: batch.to("cpu")))


class Batches(IterableDataset[hr.Batch]):
    """What StatefulDataLoader takes for a data set."""

    def __init__(self, batches: hr.Loader) -> None:
        self.batches = batches

    def __iter__(self) -> Any:
        return iter(self.batches)

    def state_dict(self) -> dict[str, Any]:
        return self.batches.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.batches.load_state_dict(state)


def stateful(batches: hr.Loader) -> Any:
    """No worker processes: the engine's threads are the workers."""
    return StatefulDataLoader(Batches(batches), batch_size=None, num_workers=0, collate_fn=lambda batch: batch.to("cpu"))


def main() -> None:
    options = arguments(__doc__)
    dist.init_process_group("gloo")
    for wrap in (node, stateful):
        with loader(options) as batches:
            wrapped = wrap(batches)
            first = ids(itertools.islice(wrapped, 4))
            torch.save(wrapped.state_dict(), options.work / f"torchdata-{dist.get_rank()}.pt")
            before = gather(batches.report())
        with loader(options) as batches:
            wrapped = wrap(batches)
            wrapped.load_state_dict(torch.load(options.work / f"torchdata-{dist.get_rank()}.pt", weights_only=True))
            everyone = sorted(i for part in gather(first + ids(wrapped)) for i in part)
            after = gather(batches.report(0))
            if dist.get_rank() == 0:
                print(f"{wrap.__name__}:", prove(batches, *before, *after, epoch=0))
                print(f"{wrap.__name__}: each sample once:", everyone == [*range(options.samples)])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
