"""headrace beside tensorstore, zarrs-python and zarr-python: the same files, crops and cache budgets, in one run.

    compare.py [--rounds N] [--sets mask50,lm,blosc] [--cases random,cached,aligned] [--batches N]

Prints samples/s of every reader and our ratio to the best rival, and writes all
figures with command, commit and machine to bench/results/. The data (3 GiB
decoded, four arrays a set) goes to data/compare and is made once.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import random
import statistics
import subprocess
import sys
from pathlib import Path

import volumes

ROOT = Path(__file__).resolve().parents[1]
CROP, BATCH, LOOKAHEAD = 128, 16, 64
CORES = len(os.sched_getaffinity(0))
CASES = {
    "random": "overlapping random crops, no cache",
    "cached": "overlapping random crops, 256 MiB of cache",
    "aligned": "aligned boxes, each read once",
}
# What to reach: ours by the best of tensorstore and zarrs-python, and by zarr-python.
# Aligned boxes leave nothing to reuse: every reader is bound by the same decoders there.
GOALS = {"random": (1.5, 5.0), "cached": (1.5, 5.0), "aligned": (1.0, 1.0)}
# Readers with their choices of requests in flight or threads; the best choice counts.
READERS = {
    "headrace": [LOOKAHEAD],
    "tensorstore": [BATCH, LOOKAHEAD],
    "zarrs-python": [1, CORES],
    "zarr-python": [1, CORES],
}


WARM = 4  # batches read before the clock starts: a look-ahead's worth


def crops(case: str, arrays: int, batches: int, seed: int) -> list:
    """(array, start) of every crop."""
    rng = random.Random(seed)
    if case == "aligned":
        steps = range(0, volumes.EDGE, CROP)
        every = [(a, (z, y, x)) for a in range(arrays) for z in steps for y in steps for x in steps]
        rng.shuffle(every)
        return every[: batches * BATCH]
    room = volumes.EDGE - CROP
    return [(rng.randrange(arrays), tuple(rng.randint(0, room) for _ in range(3))) for _ in range(batches * BATCH)]


def warm(paths: list[Path]) -> None:
    """Reads every file once, so that the page cache holds it."""
    for path in paths:
        for name in path.rglob("*"):
            if name.is_file():
                name.read_bytes()


def run(job: dict) -> dict:
    script = Path(__file__).with_name("readers.py")
    done = subprocess.run([sys.executable, script], input=json.dumps(job), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{job['reader']} failed on {job['kind']}:\n{done.stderr}")
    return json.loads(done.stdout)


def compare(kind: str, case: str, options: argparse.Namespace) -> dict:
    """All readers on one data set and case: rounds are interleaved, medians are compared."""
    paths = volumes.prepare(ROOT / "data" / "compare", kind, 4)
    warm(paths)
    every = crops(case, len(paths), options.batches, seed=7)
    job = {"kind": kind, "paths": [str(p) for p in paths], "edge": CROP, "batch": BATCH, "lookahead": LOOKAHEAD}
    job["warm"] = crops("random", len(paths), WARM, seed=8)
    job["cache"] = 256 << 20 if case == "cached" else 0
    runs: dict[str, dict[int, list[dict]]] = {}
    for _ in range(options.rounds):
        for reader, choices in READERS.items():
            # zarr-python is slow: a part of the crops tells its rate.
            part = every if reader != "zarr-python" else every[: max(2, options.batches // 4) * BATCH]
            for ahead in choices:
                result = run(job | {"reader": reader, "ahead": ahead, "crops": part})
                runs.setdefault(reader, {}).setdefault(ahead, []).append(result)
    check_agreement(runs, kind, case)
    return {"set": kind, "case": case, "samples": len(every), "readers": {r: best(c) for r, c in runs.items()}}


def best(choices: dict[int, list[dict]]) -> dict:
    rates = {ahead: statistics.median(r["samples_per_s"] for r in results) for ahead, results in choices.items()}
    ahead = max(rates, key=lambda a: rates[a])
    results = choices[ahead]
    return {
        "samples_per_s": rates[ahead],
        "all": sorted(r["samples_per_s"] for r in results),
        "ahead": ahead,
        "cpu_ms_per_sample": statistics.median(r["cpu_seconds"] / r["seconds"] / r["samples_per_s"] for r in results) * 1e3,
        "peak_bytes": max(r["peak_bytes"] for r in results),
    }


def check_agreement(runs: dict, kind: str, case: str) -> None:
    """All readers must give the same bytes in the first batch, and those that read all crops in the last."""
    whole = [r["checks"] for reader, c in runs.items() for rs in c.values() for r in rs if reader != "zarr-python"]
    first = [r["checks"][0] for c in runs.values() for rs in c.values() for r in rs]
    if len(set(map(tuple, whole))) != 1 or len(set(first)) != 1:
        raise SystemExit(f"{kind} {case}: the readers do not agree on the data")


def ratios(row: dict) -> tuple[float, float]:
    rate = {name: r["samples_per_s"] for name, r in row["readers"].items()}
    return rate["headrace"] / max(rate["tensorstore"], rate["zarrs-python"]), rate["headrace"] / rate["zarr-python"]


def table(rows: list[dict]) -> str:
    lines = [f"{'samples/s':10}{'case':10}" + "".join(f"{name:>14}" for name in READERS) + f"{'best':>9}{'zarr-py':>9}  goal"]
    for row in rows:
        rates = "".join(f"{row['readers'][name]['samples_per_s']:14.1f}" for name in READERS)
        over, plain = ratios(row)
        goal, plain_goal = GOALS[row["case"]]
        verdict = "reached" if over >= goal and plain >= plain_goal else "missed"
        lines.append(f"{row['set']:10}{row['case']:10}{rates}{over:8.2f}x{plain:8.2f}x  {goal}x, {plain_goal}x {verdict}")
    return "\n".join(lines)


def cpu_table(rows: list[dict]) -> str:
    """CPU time is what is left of a comparison on a machine that does other work too."""
    lines = [f"{'CPU ms':10}{'a sample':10}" + "".join(f"{name:>14}" for name in READERS)]
    for row in rows:
        costs = "".join(f"{row['readers'][name]['cpu_ms_per_sample']:14.1f}" for name in READERS)
        lines.append(f"{row['set']:10}{row['case']:10}{costs}")
    return "\n".join(lines)


def machine() -> dict:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    memory = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    return {
        "cpu": cpu,
        "cores": CORES,
        "memory_bytes": memory,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def versions() -> dict[str, str]:
    names = ["headrace", "tensorstore", "zarr", "zarrs", "numcodecs", "numpy"]
    return {name: importlib.metadata.version(name) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--sets", default=",".join(volumes.KINDS))
    parser.add_argument("--cases", default=",".join(CASES))
    options = parser.parse_args()
    rows = []
    for kind in options.sets.split(","):
        for case in options.cases.split(","):
            print(f"{kind}: {CASES[case]}", file=sys.stderr, flush=True)
            rows.append(compare(kind, case, options))
    print(table(rows))
    print(cpu_table(rows))
    now = datetime.datetime.now(datetime.timezone.utc)
    record = {
        "command": " ".join(["bench/compare.py", *sys.argv[1:]]),
        "commit": commit(),
        "date": now.isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "geometry": {"edge": volumes.EDGE, "chunk": volumes.CHUNK, "shard": volumes.SHARD, "crop": CROP, "batch": BATCH},
        "rows": [row | dict(zip(("ratio_best", "ratio_zarr_python"), ratios(row), strict=True)) for row in rows],
    }
    out = ROOT / "bench" / "results" / f"compare-{now:%Y%m%d-%H%M%S}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"written: {out.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
