"""Train a small 3-D network on crops of a volume and its label map, on any number of ranks.

    torchrun --nproc-per-node 2 train.py [flags]
    headrace launch --nproc-per-node 2 train.py [flags]
    headrace launch --companion --nproc-per-node 2 train.py [flags]

The script knows nothing of who started it. It prints the loss, samples/s, and what proves
each epoch: the number of samples that all ranks together got, and a digest that follows
from the plan alone. With --stop-after it leaves a checkpoint in the middle of an epoch, which
--resume takes up on another number of ranks.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import headrace as hr

ROOT = Path(__file__).resolve().parents[2]
CROP = (16, 32, 32)


def arrays_of(data: Path) -> dict[str, Path]:
    """An image and its labels: those of examples/brain, or those that `headrace gen` wrote."""
    brain = data / "brain-0.5.zarr"
    if brain.exists():
        return {"image": brain / "0", "labels": brain / "labels" / "aal" / "0"}
    return {"image": data / "image.zarr", "labels": data / "labels.zarr"}


def network() -> nn.Module:
    """Tells the voxels that have a label from those that have none."""
    return nn.Sequential(
        nn.Conv3d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv3d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv3d(8, 1, 1),
    )


class Training:
    """The state of a run: model, optimiser, loader, and the reports of earlier runs."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        torch.manual_seed(options.seed)  # the same weights on every rank
        self.device = device
        model = network().to(device)
        self.model = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-3)
        crops = hr.random_crops(arrays_of(options.data), CROP, options.samples, seed=options.seed, flips=(-1, -2))
        self.loader = hr.Loader(
            crops,
            global_batch_size=options.global_batch_size,
            dtype={"image": "f32", "labels": "u8"},
            scale={"image": 1 / 255, "labels": None},
            seed=options.seed,
            tail="mask",  # one shape for every batch of every rank
            device=str(device) if device.type == "cpu" else device.index,
        )
        self.earlier: list[hr.Report] = []

    def save(self, path: Path) -> None:
        """Every rank calls it; rank 0 writes. The loader's state is the same on all of them."""
        reports = gather(self.loader.report())
        if dist.get_rank() == 0:
            torch.save(
                {
                    "model": self.model.module.state_dict(),
                    "optimizer": self.optimizer.state_dict(),
                    "loader": self.loader.state_dict(),
                    "report": hr.merge_reports([*self.earlier, *reports]),
                },
                path,
            )
        dist.barrier()

    def load(self, path: Path) -> None:
        """A checkpoint of any number of ranks."""
        saved = torch.load(path, map_location=self.device, weights_only=True)
        self.model.module.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.loader.load_state_dict(saved["loader"])
        self.earlier = [saved["report"]]

    def step(self, batch: hr.Batch) -> torch.Tensor:
        """One step; the loss is the mean over the global batch, however it is cut into ranks."""
        data = batch.to(self.device)
        image = data["image"].unsqueeze(1)
        target = (data["labels"] > 0).float().unsqueeze(1)
        weights = torch.tensor(batch.weights, device=self.device)
        loss = nn.functional.binary_cross_entropy_with_logits(self.model(image), target, reduction="none")
        each = loss.mean(dim=(1, 2, 3, 4))
        # DDP takes the mean over the ranks, which may have different numbers of samples.
        mean = (each * weights).sum() / weights.sum().clamp(min=1) * batch.weight
        self.optimizer.zero_grad()
        mean.backward()
        self.optimizer.step()
        return mean.detach()


def gather(value: Any) -> list[Any]:
    out: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(out, value)
    return out


def say(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


def train(options: argparse.Namespace, run: Training) -> None:
    loader = run.loader
    size = f"{len(loader)} batches of {loader.global_batch_size}"
    say(f"{loader.world_size} ranks on {loader.device}, {size}, plan {loader.plan_hash}")
    done = 0
    while loader.epoch < options.epochs:
        epoch, seen, begin = loader.epoch, list[int](), time.perf_counter()
        for batch in loader:
            loss = run.step(batch)
            seen += [i for i in batch.ids if i >= 0]
            dist.all_reduce(loss, op=dist.ReduceOp.AVG if run.device.type == "cuda" else dist.ReduceOp.SUM)
            if run.device.type == "cpu":
                loss /= loader.world_size  # gloo has no AVG
            if batch.step % options.log_every == 0:
                say(f"epoch {epoch} step {batch.step}: loss {loss.item():.4f}")
            done += 1
            del batch
            if done == options.stop_after:
                run.save(options.checkpoint)
                say(f"stopped in epoch {epoch} with {loader.state_dict()['next_position']} of {len(loader.crops)} samples done")
                return
        finish(run, epoch, seen, time.perf_counter() - begin)
    if options.checkpoint:
        run.save(options.checkpoint)


def finish(run: Training, epoch: int, seen: list[int], seconds: float) -> None:
    """Shows that all ranks together, and the runs before, got each sample once."""
    everyone = [i for ids in gather(seen) for i in ids]
    whole = hr.merge_reports([*run.earlier, *gather(run.loader.report(epoch))])
    run.earlier = []
    expected = run.loader.expected(epoch)
    once = len(everyone) == len(set(everyone))
    say(f"epoch {epoch}: {len(everyone) / seconds:.0f} samples/s, {len(everyone)} samples here, no two alike: {once}")
    exact = (whole["count"], whole["digest"]) == (expected["count"], expected["digest"])
    say(f"epoch {epoch}: {whole['count']} of {whole['of']} samples, digest {whole['digest']}, exact: {exact}")
    if not exact:
        raise SystemExit(f"the epoch's digest must be {expected['digest']}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the arrays; default: data/brain, else data/torchrun")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=250, help="crops of an epoch")
    parser.add_argument("--global-batch-size", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log-every", type=int, default=4, metavar="STEPS")
    parser.add_argument("--checkpoint", type=Path, help="file to write at the end, or at --stop-after")
    parser.add_argument("--stop-after", type=int, metavar="STEPS")
    parser.add_argument("--resume", type=Path, metavar="CHECKPOINT")
    options = parser.parse_args()
    if options.stop_after and not options.checkpoint:
        parser.error("--stop-after needs --checkpoint")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no GPU")
    if "RANK" not in os.environ:
        parser.error("no rank: start it by `torchrun` or `headrace launch`, also for a single process")
    if options.data is None:
        options.data = next((d for d in (ROOT / "data" / "brain", ROOT / "data" / "torchrun") if d.exists()), None)
        if options.data is None:
            parser.error(f"no data: run `headrace gen examples/torchrun/image.json`, and the same with labels.json, in {ROOT}")
    return options


def main() -> None:
    options = parse()
    device = torch.device("cpu")
    if options.device == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    run = Training(options, device)
    if options.resume:
        run.load(options.resume)
    with run.loader:
        train(options, run)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
