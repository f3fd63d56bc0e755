"""Hugging Face Accelerate: model and optimiser are prepared, the loader is as it is.

    torchrun --nproc-per-node 2 accelerate_train.py --data DIR --work DIR
    accelerate launch --num_processes 2 --cpu accelerate_train.py --data DIR --work DIR

`prepare` passes the loader through: it needs no sampler, since it knows its rank.
`register_for_checkpointing` puts its state into `save_state`.
"""

from __future__ import annotations

import itertools

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from tiny import arguments, loader, loss_of, network, prove


def main() -> None:
    options = arguments(__doc__)
    accelerator = Accelerator(cpu=True)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with loader(options) as batches:
        model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
        accelerator.register_for_checkpointing(batches)

        def step(batch) -> None:
            with accelerator.accumulate(model):
                accelerator.backward(loss_of(model, batch.to(accelerator.device)))
                optimizer.step()
                optimizer.zero_grad()

        for batch in itertools.islice(batches, 4):
            step(batch)
        accelerator.save_state(str(options.work / "accelerate"))
        before = gather_object([batches.report()])
        for batch in itertools.islice(batches, 3):  # lost: the state is that of the checkpoint
            step(batch)
        accelerator.load_state(str(options.work / "accelerate"))
        for batch in batches:
            step(batch)
        after = gather_object([batches.report()])
        if accelerator.is_main_process:
            print(prove(batches, *before, *after, epoch=0))
    accelerator.end_training()


if __name__ == "__main__":
    main()
