"""Fully sharded data parallel training, with torch.distributed.checkpoint.

    torchrun --nproc-per-node 2 fsdp_train.py --data DIR --work DIR

The loader is a Stateful like the model's and the optimiser's state: it goes into
the checkpoint as it is, and may come back on another number of ranks.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from tiny import arguments, gather, loader, loss_of, network, prove
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import headrace as hr


def main() -> None:
    options = arguments(__doc__)
    dist.init_process_group("gloo")
    model = fully_shard(network(), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(batches: Any) -> float:
        loss = torch.zeros(())
        for batch in batches:
            loss = loss_of(model, batch.to("cpu"))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    checkpoint = str(options.work / "fsdp")
    with loader(options) as batches:
        train(itertools.islice(batches, 4))
        dcp.save({"model": model.state_dict(), "loader": batches}, checkpoint_id=checkpoint)
        before = gather(batches.report())

    with loader(options) as batches:
        state = {"model": model.state_dict(), "loader": batches}
        dcp.load(state, checkpoint_id=checkpoint)
        assert batches.state_dict()["next_position"] == 4 * batches.global_batch_size
        loss = train(batches)
        after = gather(batches.report())
        if dist.get_rank() == 0:
            print(f"loss {loss:.4f}")
            print(prove(batches, *before, *after, epoch=0))
            print("one epoch on, the digest differs:", hr.merge_reports(after)["digest"] != batches.expected(1)["digest"])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
