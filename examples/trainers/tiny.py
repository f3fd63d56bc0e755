"""What the examples of this folder share: crops of a volume, and a network that is small."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import headrace as hr

CROP = (8, 16, 16)
GLOBAL_BATCH = 12


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with image.zarr and labels.zarr: see examples/torchrun"
    )
    parser.add_argument("--work", type=Path, required=True, help="folder for checkpoints")
    parser.add_argument("--samples", type=int, default=100)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    return options


def crops(data: Path, samples: int) -> hr.Crops:
    """Random crops of an image and its labels, at the same places."""
    return hr.random_crops({"image": data / "image.zarr", "labels": data / "labels.zarr"}, CROP, samples, seed=1)


def loader(options: argparse.Namespace) -> hr.Loader:
    """This rank's batches."""
    return hr.Loader(
        crops(options.data, options.samples),
        global_batch_size=GLOBAL_BATCH,
        dtype={"image": "f32", "labels": "u8"},
        scale={"image": 1 / 255, "labels": None},
        tail="mask",
        device="cpu",
    )


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv3d(4, 1, 1))


def loss_of(model: nn.Module, batch: hr.TorchBatch) -> torch.Tensor:
    """The mean over this rank's samples, weighed so that the mean over ranks is that of the global batch."""
    target = (batch["labels"] > 0).float().unsqueeze(1)
    out = nn.functional.binary_cross_entropy_with_logits(model(batch["image"].unsqueeze(1)), target, reduction="none")
    weights = torch.tensor(batch.weights, device=out.device)
    return (out.mean(dim=(1, 2, 3, 4)) * weights).sum() / weights.sum().clamp(min=1) * batch.weight


def gather(value: Any) -> list[Any]:
    """What each rank has, on all of them."""
    out: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(out, value)
    return out


def prove(loader: hr.Loader, *reports: hr.Report, epoch: int) -> str:
    """Whether the ranks' reports, and those of earlier runs, make up the whole epoch."""
    whole, expected = hr.merge_reports(reports), loader.expected(epoch)
    exact = (whole["count"], whole["digest"]) == (expected["count"], expected["digest"])
    return f"epoch {epoch}: {whole['count']} of {whole['of']} samples, exact: {exact}"
