"""The examples of trainers, each of which proves its own epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import EXAMPLES, Run, lines

EXACT = ": 100 of 100 samples, exact: True"


@pytest.mark.parametrize(
    ("name", "proofs"),
    [
        ("fsdp", ["epoch 0" + EXACT]),
        (
            "lightning",
            ["epoch 0" + EXACT, "epoch 1" + EXACT, "each sample twice in two epochs: True", "each validation saw all: True"],
        ),
        ("accelerate", ["epoch 0" + EXACT]),
        (
            "torchdata",
            [f"{how}: {what}" for how in ("node", "stateful") for what in ("epoch 0" + EXACT, "each sample once: True")],
        ),
    ],
)
def test_trainer(run: Run, data: Path, tmp_path: Path, name: str, proofs: list[str]) -> None:
    """Interrupted in the middle of an epoch and taken up from a checkpoint, each sample comes once."""
    out = run("torchrun", EXAMPLES / "trainers" / f"{name}_train.py", "--data", data, "--work", tmp_path)
    for proof in proofs:
        assert lines(out, proof)
