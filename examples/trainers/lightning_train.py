"""Lightning: the loader is what `fit` is given, and its state is in Lightning's checkpoints.

    torchrun --nproc-per-node 2 lightning_train.py --data DIR --work DIR

Lightning moves a batch to the device by its `to`, so that the training step gets
a dict of torch tensors with `ids` and `weights` beside them.
"""

from __future__ import annotations

import os
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from tiny import arguments, gather, loader, loss_of, network, prove

import headrace as hr


class Segmenter(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = network()
        self.ids: list[int] = []
        self.validated: list[int] = []
        self.passes: list[list[int]] = []

    def training_step(self, batch: hr.TorchBatch, _: int) -> torch.Tensor:
        self.ids += [i for i in batch.ids if i >= 0]
        return loss_of(self.model, batch)

    def validation_step(self, batch: hr.TorchBatch, _: int) -> None:
        self.validated += [i for i in batch.ids if i >= 0]

    def on_validation_epoch_end(self) -> None:
        if not self.trainer.sanity_checking:
            self.passes.append(self.validated)
        self.validated = []

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def validation(options: Any) -> hr.Loader:
    """Lightning tries two batches before it trains: with restart they come again."""
    grid = hr.grid_crops({n: options.data / f"{n}.zarr" for n in ("image", "labels")}, (48, 64, 64))
    return hr.Loader(grid, batch_size=1, dtype={"image": "f32"}, tail="mask", shuffle=False, restart=True, device="cpu")


def trainer(options: Any, **more: Any) -> L.Trainer:
    return L.Trainer(
        accelerator="cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        strategy="ddp",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=options.work,
        **more,
    )


def main() -> None:
    options = arguments(__doc__)
    checkpoint = options.work / "lightning.ckpt"
    with loader(options) as batches:
        # In the middle of the epoch: at its end Lightning counts it as done.
        save = ModelCheckpoint(options.work, "lightning", every_n_train_steps=4, enable_version_counter=False)
        module = Segmenter()
        trainer(options, max_steps=4, callbacks=[save]).fit(module, batches)
        before, ids = batches.report(), module.ids

    with loader(options) as batches, validation(options) as others:
        second = trainer(options, max_epochs=2, enable_checkpointing=False)
        module = Segmenter()
        second.fit(module, batches, others, ckpt_path=checkpoint)
        reports = gather((before, batches.report(0), batches.report(1), ids + module.ids, module.passes))
        if second.is_global_zero:
            print(prove(batches, *(r[0] for r in reports), *(r[1] for r in reports), epoch=0))
            print(prove(batches, *(r[2] for r in reports), epoch=1))
            everyone = sorted(i for r in reports for i in r[3])
            print("each sample twice in two epochs:", everyone == sorted([*range(options.samples)] * 2))
            passes = [sorted(i for r in reports for i in r[4][n]) for n in range(2)]
            print("each validation saw all:", passes == [[*range(len(others.crops))]] * 2)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
