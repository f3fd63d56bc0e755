"""Evaluate a model on every crop of a volume, each once, by processes of which any may die.

    HEADRACE_AGENT=... LOCAL_RANK=... evaluate.py --data image.zarr --out results

Ranks need not know of each other: a coordinator hands out the crops, and takes a batch as done when
its results are stored. What a rank that dies has not committed comes to the others.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import headrace as hr

CROP = (8, 16, 16)


def evaluate(loader: hr.Loader, out: Path) -> None:
    """Stores a result for each crop, then commits the batch: in this order nothing is lost, and at worst stored twice alike."""
    for batch in loader:
        means = batch.numpy().mean(axis=(1, 2, 3))  # the model
        name = f"{batch.ids[0]}-{os.getpid()}.json"
        (out / f"{name}.part").write_text(json.dumps(dict(zip(map(str, batch.ids), means.tolist(), strict=True))))
        (out / f"{name}.part").rename(out / name)
        if not loader.commit(batch):  # other ranks have these crops by now
            (out / name).unlink()
        print(f"rank of process {os.getpid()}: {len(batch.ids)} crops", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a zarr array")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    crops = hr.grid_crops(str(options.data), CROP)
    with hr.Loader(crops, batch_size=4, dtype="f32", mode="async", coord="require", commit="manual", device="cpu") as loader:
        evaluate(loader, options.out)
        done, expected = loader.coverage(), loader.expected()
        assert done is not None
        exact = (done["count"], done["digest"]) == (expected["count"], expected["digest"])
        print(f"coverage {done['count']} of {len(crops)}, digest {done['digest']}, exact: {exact}", flush=True)


if __name__ == "__main__":
    main()
