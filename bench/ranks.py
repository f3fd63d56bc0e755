"""Samples a second of one rank and of several, each on its own GPU, and the digest of the epoch.

    ranks.py ARRAY... [--ranks 2] [--batch N] [--count N] [--crop EDGE] [--binary bin/headrace]
             [--python PYTHON] [--commit ID] [--out DIR]

The ranks are started by `headrace launch`. Each makes the same loader, with a batch of the
same size at any number of ranks, and goes through two epochs; the second one counts, from
the first rank's start to the last one's end. Both worlds must deliver the same positions:
the digests of their merged reports are compared with the plan's.
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import headrace as hr
from record import save


def rank(options: argparse.Namespace, out: Path) -> None:
    """The part of a rank: an epoch to warm up, one that is timed."""
    arrays = [found for pattern in options.array for found in sorted(glob.glob(pattern))]
    crops = hr.random_crops({"image": arrays}, shape=(options.crop,) * 3, count=options.count)
    with hr.Loader(crops, batch_size=options.batch, dtype="f32", seed=1) as loader:
        for batch in loader:
            del batch  # a batch that is held keeps its slot
        began, samples = time.time(), 0
        for batch in loader:
            samples += len(batch.ids)
            del batch
        record = {
            "began": began,
            "ended": time.time(),
            "samples": samples,
            "report": loader.report(),
            "expected": loader.expected(),
            "device": loader.device,
            "stats": {name: loader.stats()[name] for name in ("device_bytes", "mapped_bytes", "host_bytes")},
        }
    (out / f"{os.environ['RANK']}.json").write_text(json.dumps(record))


def world(options: argparse.Namespace, ranks: int) -> dict:
    """The figures of so many ranks."""
    with tempfile.TemporaryDirectory() as folder:
        command = [options.binary, "launch", "--no-python", "--nproc-per-node", str(ranks), options.python]
        command += [__file__, *options.array, "--rank-out", folder, "--count", str(options.count)]
        command += ["--batch", str(options.batch), "--crop", str(options.crop)]
        subprocess.run(command, check=True)
        records = [json.loads((Path(folder) / f"{r}.json").read_text()) for r in range(ranks)]
    seconds = max(r["ended"] for r in records) - min(r["began"] for r in records)
    samples = sum(r["samples"] for r in records)
    merged, expected = hr.merge_reports(r["report"] for r in records), records[0]["expected"]
    return {
        "ranks": ranks,
        "devices": [r["device"] for r in records],
        "samples_per_s": samples / seconds,
        "seconds": seconds,
        "samples": samples,
        "digest": merged["digest"],
        "exact": (merged["count"], merged["digest"]) == (expected["count"], expected["digest"]),
        "stats": [r["stats"] for r in records],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("array", nargs="+", help="URIs, or patterns of paths")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128, help="samples in a batch of each rank")
    parser.add_argument("--count", type=int, default=12800)
    parser.add_argument("--crop", type=int, default=128)
    parser.add_argument("--binary", default="bin/headrace")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--out", default="bench/results")
    parser.add_argument("--rank-out", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_out:
        rank(options, Path(options.rank_out))
        return
    rows = [world(options, ranks) for ranks in (1, options.ranks)]
    ratio = rows[1]["samples_per_s"] / rows[0]["samples_per_s"]
    same = rows[0]["digest"] == rows[1]["digest"] and all(row["exact"] for row in rows)
    for row in rows:
        print(
            f"{row['ranks']} ranks: {row['samples_per_s']:.0f} samples/s on {', '.join(row['devices'])}, digest {row['digest']}"
        )
    print(f"{ratio:.2f} times one rank, {'same digest' if same else 'DIGESTS DIFFER'}")
    save("ranks", options, rows, ratio=ratio, same_digest=same)
    sys.exit(not same)


if __name__ == "__main__":
    main()
