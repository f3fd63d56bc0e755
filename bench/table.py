"""Writes the tables of docs/performance.md, gpu.md and probe.md from the files in bench/results.

    table.py [--check]

Nothing in those tables is typed by hand: of every run the newest result is taken,
and what was never measured is said to be so. Runs that gpu.py makes no more are left out.
--check only says whether the pages are what the results give.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu import ROWS

RESULTS = Path(__file__).with_name("results")
PAGES = [Path(__file__).parents[1] / "docs" / f"{name}.md" for name in ("performance", "gpu", "probe")]
Run = dict[str, Any]


@dataclass
class Goal:
    what: str
    goal: str
    run: str  # the name of the run or kernel that shows it
    judge: Callable[[dict[str, Any]], tuple[str, str]] | None = None  # the value, whether it is reached


def at_least(key: str, least: float, unit: str = "GB/s") -> Callable[[dict[str, Any]], tuple[str, str]]:
    return lambda r: (f"{r[key]:.1f} {unit}", "yes" if r[key] >= least else "no")


def busy(r: dict[str, Any], *stages: str) -> float:
    return sum(s["busy_ms"] for s in r["stages"] if s["name"] in stages)


def host_cores(r: dict[str, Any]) -> tuple[str, str]:
    cores = busy(r, "plan", "dispatch", "locate", "read", "issue", "decode") / 1e3 / r["wall_s"]
    return f"{cores:.2f} (busy time of the host's stages / wall time)", "yes" if cores <= 2 else "no"


def submitting(r: dict[str, Any]) -> tuple[str, str]:
    scheduler, issuer = (busy(r, *names) / r["batches"] for names in (("plan", "dispatch"), ("issue",)))
    return (
        f"{scheduler:.1f} ms of plan and dispatch, beside {issuer:.1f} ms of issue on another goroutine, reuse window",
        "yes" if max(scheduler, issuer) <= 3 else "no",
    )


def first_batch(r: dict[str, Any]) -> tuple[str, str]:
    return f"{r['first_batch_s'] * 1e3:.0f} ms, Open included, in a process with torch's context", "yes" if r[
        "first_batch_s"
    ] <= 0.3 else "no"


def beside(r: dict[str, Any]) -> tuple[str, str]:
    fed = r["gb_per_s"] >= 4.9
    met = "no" if r["slower"] > 0.1 else "yes" if fed else "not at 5 GB/s"
    return f"{r['slower'] * 100:.1f} % slower beside {r['gb_per_s']:.1f} GB/s", met


def within_cap(r: dict[str, Any]) -> tuple[str, str]:
    cap = r["scenario_keys"]["pipeline"]["max_gpu_memory_mb"] << 20
    return f"{r['device_bytes'] >> 20} of {cap >> 20} MiB, by the engine's own count", "yes" if r[
        "device_bytes"
    ] <= cap else "no"


def assembled(r: dict[str, Any]) -> tuple[str, str]:
    rate = r["GB_per_s"]
    return f"{rate:.0f} GB/s", "no" if rate < 500 else "yes" if rate >= 1500 else "yes, below the stretch"


def beside_nvcomp(r: dict[str, Any]) -> tuple[str, str]:
    if "rival" not in r:
        return "nvCOMP was not measured", ""
    ratio = r["GB_per_s"] / r["rival"]
    return f"{r['GB_per_s']:.1f} GB/s, {ratio:.2f} times nvCOMP's {r['rival']:.1f}", "yes" if ratio >= 3 else "no"


H2D = "90 % of the pinned copy rate of 55 GB/s: 49.5"
ZSTD_GOALS = [
    Goal(f"default scenario (zstd, {field}), {what}, f32 out", str(least), run, at_least("gb_per_s", least))
    for what, run, least, least_lm in [
        ("each use decoded", "zstd-none", 52, 75),
        ("reuse batch", "zstd-batch", 75, 100),
        ("reuse window", "zstd-window", 200, 200),
        ("reuse batch, stored bytes on the GPU", "zstd-batch-kept", 150, 120),
    ]
    for field, run, least in [("mask50", run, least), ("lm", f"{run}-lm", least_lm)]
] + [Goal("default scenario (zstd, mask50), reuse cache, f32 out", "300", "zstd-cache", at_least("gb_per_s", 300))]
GPU_GOALS = [
    Goal("copies to the GPU, uncompressed, page cache pinned", H2D, "raw-none", at_least("copied_gb_per_s", 49.5)),
    Goal("host cores busy meanwhile", "at most 2", "raw-none", host_cores),
    Goal("copies to the GPU, LZ4, page cache pinned", H2D, "lz4-none-large", at_least("copied_gb_per_s", 49.5)),
    Goal(
        "copies to the GPU, uncompressed, through the ring",
        "36",
        "raw-none-ring",
        at_least("copied_gb_per_s", 36),
    ),
    *(
        Goal(
            f"blosc-lz4 with shuffle, the kernel alone, {chunks} chunks a call",
            "3 times nvCOMP's LZ4 of the shuffled bytes, as many a call, same run",
            f"blosc-lz4 {chunks}",
            beside_nvcomp,
        )
        for chunks in (512, 4096)
    ),
    *ZSTD_GOALS,
    Goal("default scenario (zstd) by nvCOMP, reuse batch, f32 out", "45", "zstd-nvcomp-batch", at_least("gb_per_s", 45)),
    Goal("default scenario (zstd) by nvCOMP, reuse cache, f32 out", "250", "zstd-nvcomp-cache", at_least("gb_per_s", 250)),
    Goal("uncompressed data, reuse cache, f32 out", "250 (set for zstd)", "raw-cache", at_least("gb_per_s", 250)),
    Goal("assemble alone, u16 to f32", "500, stretch 1500", "assemble u16 f32", assembled),
    Goal("planning and submitting a batch of 128 samples", "3 ms of wall time", "raw-window", submitting),
    Goal("first batch, the context being there", "300 ms after Open", "trainer", first_batch),
    Goal("GPU memory", "never above the cap", "raw-batch", within_cap),
    Goal("a bf16 matmul loop beside a feed of 5 GB/s", "10 % slower at most", "trainer", beside),
]


# --- reading


def newest(pattern: str, name: Callable[[Run], str]) -> dict[str, Run]:
    """The newest row of each name in the files, with what its file says of it."""
    runs: dict[str, Run] = {}
    for path in sorted(RESULTS.glob(pattern)):
        record = json.loads(path.read_text())
        about = {k: v for k, v in record.items() if k not in ("rows", "command")} | {
            "file": path.name,
            "call": record["command"],
        }
        for row in record["rows"]:
            if "error" not in row and about["date"] >= runs.get(name(row), {"date": ""})["date"]:
                runs[name(row)] = about | row
    return runs


def engine_runs() -> tuple[str, list[tuple[str, dict[str, str]]], list[str]]:
    """The newest text of `headrace bench`: its first line, the lines of each run by
    the run's name, and the Go benchmarks."""
    text = max(RESULTS.glob("engine-*.txt")).read_text()
    head, commands, *lines = text.splitlines()
    names = re.search(r"\{(.*)\}\.json", commands)
    assert names, "the second line lists the runs"
    blocks: list[dict[str, str]] = []
    scenario = ""
    for line in lines:
        word = re.split(r"\s{2,}", line)[0]
        if word.startswith("scenario"):
            scenario = line
        elif word == "rate":
            blocks.append({"scenario": scenario})
        if blocks and word in ("rate", "chunks", "cost", "first batch", "memory", "bare decoder"):
            blocks[-1][word] = line[len(word) :].strip()
    named = list(zip(names.group(1).split(","), blocks, strict=True))
    return head.removeprefix("# "), named, [line for line in lines if line.startswith("Benchmark")]


# --- writing


def table(titles: list[str], rows: list[list[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def source(run: Run) -> str:
    return f"{run['date'][:10]}, {run['commit']}, [{run['file']}](../bench/results/{run['file']})"


def gpu_goals(runs: dict[str, Run]) -> str:
    rows: list[list[str]] = []
    for g in GPU_GOALS:
        run = runs.get(g.run)
        if run is None and g.run not in ROWS:
            raise SystemExit(f"{g.what}: no measurement is called {g.run!r}")
        if run is None or g.judge is None:
            rows.append([g.what, g.goal, "not measured", "", ""])
            continue
        value, met = g.judge(run["result"])
        rows.append([g.what, g.goal, value, met, f"{run['name']}, {run['date'][:10]}, {run['commit']}"])
    return table(["what", "goal", "measured", "met", "run"], rows)


def gpu_machines(runs: dict[str, Run]) -> str:
    seen = {(r["machine"]["gpu"], r["machine"]["cores"], r["machine"]["kernel"]) for r in runs.values()}
    lines = [f"{gpu}; {cores} cores, Linux {kernel}" for gpu, cores, kernel in sorted(seen)]
    return "GPU, driver, generation and lanes of PCIe: " + ". ".join(lines) + "."


def gpu_rows(runs: dict[str, Run]) -> str:
    rows = []
    for name, run in runs.items():
        r = run["result"]
        data = r["scenario_keys"]["dataset"]
        rows.append(
            [
                name,
                f"{data.get('field', 'mask50')}, {', '.join(data['codecs'])}",
                f"{r['samples_per_s']:.0f}",
                f"{r['gb_per_s']:.1f}",
                f"{r['decoded_gb_per_s']:.1f}" if r["decoded_gb_per_s"] else "-",
                f"{r['copied_gb_per_s']:.1f}",
                f"{r['open_ms']:.0f}",
                f"{r['first_batch_ms']:.0f}",
                f"{r['device_bytes'] >> 20}",
                f"{r['mapped_bytes'] >> 20}",
                f"`headrace {' '.join(run['command'])}`",
                source(run),
            ]
        )
    titles = [
        "run",
        "data",
        "samples/s",
        "GB/s out",
        "decoded",
        "copied",
        "Open ms",
        "first ms",
        "GPU MiB",
        "mapped MiB",
        "command",
        "source",
    ]
    return table(titles, rows)


READERS = ["headrace", "tensorstore", "zarrs-python", "zarr-python"]
# As in compare.py: to the better of tensorstore and zarrs-python, and to zarr-python.
READER_GOALS = {"random": (1.5, 5), "cached": (1.5, 5), "aligned": (1, 1)}


def compare_rows(runs: dict[str, Run]) -> str:
    rows = []
    for name, run in sorted(runs.items()):
        rates = {reader: figures["samples_per_s"] for reader, figures in run["readers"].items()}
        best, plain = run["ratio_best"], run["ratio_zarr_python"]
        least, least_plain = READER_GOALS[run["case"]]
        met = ", ".join("yes" if ok else "no" for ok in (best >= least, plain >= least_plain))
        cells = [f"{rates[reader]:.1f}" for reader in READERS]
        rows.append(
            [name, *cells, f"{best:.2f}", f"{plain:.2f}", f"{least:g}, {least_plain:g}", met, f"`{run['call']}`", source(run)]
        )
    titles = [
        "data and case",
        "headrace",
        "tensorstore",
        "zarrs-python",
        "zarr-python",
        "to the best",
        "to zarr-python",
        "goal",
        "met",
        "command",
        "source",
    ]
    return table(titles, rows)


def compare_machines(runs: dict[str, Run]) -> str:
    seen = {(r["machine"]["cpu"], r["machine"]["cores"], tuple(sorted(r["versions"].items()))) for r in runs.values()}
    lines = [f"{cores} cores of {cpu}; {', '.join(' '.join(v) for v in versions)}." for cpu, cores, versions in sorted(seen)]
    return "Samples a second. " + " ".join(lines)


def engine_part() -> str:
    head, runs, benchmarks = engine_runs()
    titles = ["run", "rate", "first batch", "cost", "memory", "bare decoder"]
    keys = ["rate", "first batch", "cost", "memory", "bare decoder"]
    rows = [[name, *(run.get(key, "-") for key in keys)] for name, run in runs]
    return f"{head}\n\n{table(titles, rows)}\n\n```\n" + "\n".join(benchmarks) + "\n```"


def kernel_runs() -> dict[str, Run]:
    """The newest run of the kernels: the best grid of each, and nvCOMP's time with ours."""
    runs: dict[str, Run] = {}
    for path in sorted(RESULTS.glob("kernels-*.json")):
        record = json.loads(path.read_text())
        ours: dict[str, dict[str, Any]] = {}
        rivals: dict[str, float] = {}
        for row in record["rows"]:
            r = row["result"]
            if r["image"] == "nvCOMP":
                rivals[row["name"]] = r["GB_per_s"]
            elif r["GB_per_s"] > ours.get(row["name"], {"GB_per_s": 0})["GB_per_s"]:
                ours[row["name"]] = r
        about = {"date": record["date"], "commit": record["commit"], "file": path.name}
        for name, r in ours.items():
            rival = rivals.get(name.replace("blosc-lz4", "lz4 of shuffled bytes"))
            runs[name] = about | {"name": name, "result": r | ({"rival": rival} if rival else {})}
    return runs


def kernel_rows(runs: dict[str, Run]) -> str:
    rows: list[list[str]] = []
    for name, run in runs.items():
        r = run["result"]
        rival = f"{r['rival']:.1f}" if "rival" in r else "-"
        rows.append([name, f"{r['ms']:.3f}", f"{r['GB_per_s']:.1f}", rival, f"{r['grid']} x {r['block']}", source(run)])
    return table(["kernel, chunks", "ms", "GB/s", "nvCOMP 5, same run", "grid", "source"], rows)


def decoder_rows(pattern: str) -> str:
    """The newest run of each set of frames: ours, nvCOMP's in the same file, and how often ours is as fast."""
    runs = newest(pattern, lambda row: row["name"])
    rows: list[list[str]] = []
    for name, run in runs.items():
        what, chunks = name.split(" ", 1)
        if what != "own" or run["result"].get("unchecked"):
            continue
        beside = {kind: r for kind in ("nvcomp", "steady") if (r := runs.get(f"{kind} {chunks}")) and r["file"] == run["file"]}
        ours = run["result"]
        rates = {kind: r["result"]["GB_per_s"] for kind, r in beside.items()}
        nvcomp = [f"{rates['nvcomp']:.1f}", f"{ours['GB_per_s'] / rates['nvcomp']:.1f}"] if "nvcomp" in rates else ["-", "-"]
        steady = f"{rates['steady']:.1f}" if "steady" in rates else "-"
        cells = [f"{ours['ms']:.2f}", f"{ours['GB_per_s']:.1f}", *nvcomp, steady]
        rows.append([ours["set"], f"{ours['chunks']}", *cells, source(run)])
    titles = ["set", "chunks a call", "ms", "GB/s", "nvCOMP 5, same run", "ratio", "three calls in flight", "source"]
    return table(titles, rows)


# codec as it is read, its data, the largest call of its kernel (a pattern of files and a name), reuse none, reuse batch
SUMMARY = [
    ("uncompressed", None, "raw-none", "raw-batch"),
    ("lz4", ("kernels", "lz4 4096"), "lz4-none-large", "lz4-batch-large"),
    ("blosc-lz4, shuffled", ("kernels", "blosc-lz4 4096"), "blosc-lz4-none-large", "blosc-lz4-batch"),
    ("zstd", ("decoders", "own mask50 4096"), "zstd-none", "zstd-batch"),
    ("zstd", ("decoders", "own lm 4096"), "zstd-none-lm", "zstd-batch-lm"),
    ("zstd, shuffled", ("decoders", "own lm-shuffled 4096"), "", ""),
    ("blosc-zstd, shuffled", None, "blosc-zstd-none", "blosc-zstd-batch"),
    ("gzip", ("inflate", "own lm-zlib6 4096"), "gzip-none", "gzip-batch"),
]


def summary(gpu: dict[str, Run], kernels: dict[str, Run]) -> str:
    """A line a codec, of the tables below."""
    alone = {"kernels": kernels} | {k: newest(f"{k}-*.json", lambda row: row["name"]) for k in ("decoders", "inflate")}
    rows: list[list[str]] = []
    for codec, kernel, *names in SUMMARY:
        run = alone[kernel[0]].get(kernel[1]) if kernel else None
        cells = [f"{run['result']['GB_per_s']:.1f}" if run else "-"]
        field = "lm"
        for name in names:
            if name and name not in ROWS:
                raise SystemExit(f"the summary: gpu.py makes no run {name!r}")
            if name not in gpu:
                cells.append("-")
                continue
            r = gpu[name]["result"]
            field = r["scenario_keys"]["dataset"].get("field", "mask50")
            cells.append(f"{r['gb_per_s']:.1f} ({r['device_bytes'] / (1 << 30):.0f} GiB)")
        rows.append([codec, field, *cells])
    return table(["stored as", "data", "decoder alone, 4096 chunks a call", "f32 batches, reuse none", "reuse batch"], rows)


def rank_rows() -> str:
    """The newest run of each data set on one GPU and on several."""
    runs = {(r := json.loads(path.read_text()))["command"].split()[1]: r for path in sorted(RESULTS.glob("ranks-*.json"))}
    rows: list[list[str]] = []
    for data, run in sorted(runs.items()):
        one, more = run["rows"]
        met = "yes" if run["ratio"] >= 1.8 and run["same_digest"] else "no"
        rates = f"{one['samples_per_s']:.0f}", f"{more['samples_per_s']:.0f}"
        digest = f"{more['digest'][:8]}…, {'the same' if run['same_digest'] else 'not the same'}"
        where = f"`{run['command']}`, {run['date'][:10]}, {run['commit']}"
        rows.append([data, *rates, f"{more['ranks']}", f"{run['ratio']:.2f}", "1.8", met, digest, where])
    return table(["data", "samples/s of one rank", "of all", "ranks", "ratio", "goal", "met", "digest", "command"], rows)


def codec_rows(gpu: dict[str, Run], kernels: dict[str, Run]) -> str:
    """The codecs beside each other on the same data."""
    alone = {"kernels": kernels} | {k: newest(f"{k}-*.json", lambda row: row["name"]) for k in ("decoders", "inflate")}
    rows: list[list[str]] = []
    for codec, kernel, name, _ in SUMMARY:
        run = alone[kernel[0]].get(kernel[1]) if kernel else None
        r = gpu[name]["result"] if name in gpu else None
        if (kernel and " mask50 " in kernel[1]) or "blosc-zstd" in codec:
            continue
        ratio = "1" if not kernel else f"{r['decoded_gb_per_s'] / r['copied_gb_per_s']:.2f}" if r else "-"
        decoded = f"{run['result']['GB_per_s']:.0f}" if run else "-"
        rows.append([codec, ratio, decoded, f"{r['gb_per_s']:.1f}" if r else "-"])
    return table(["stored as", "ratio", "decoder alone, GB/s", "f32 batches without reuse, GB/s"], rows)


def reached(gpu: dict[str, Run]) -> str:
    """What whole runs reach of what copies alone would allow."""
    plain = gpu["raw-none"]
    words: list[str] = []
    for name in ("blosc-lz4-none-large", "zstd-none", "zstd-none-lm"):
        if name not in gpu or gpu[name]["file"] != plain["file"]:
            continue
        r = gpu[name]["result"]
        # A byte that is copied is ratio bytes decoded, which are so many of f32.
        allowed = plain["result"]["copied_gb_per_s"] * r["gb_per_s"] / r["copied_gb_per_s"]
        words.append(f"{r['gb_per_s']:.1f} of {allowed:.1f} (`{name}`)")
    file = f"[{plain['file']}](../bench/results/{plain['file']})"
    rate = plain["result"]["copied_gb_per_s"]
    head = f"In {file} copies of uncompressed chunks run at {rate:.1f} GB/s.\n"
    return head + "Of the f32 GB/s which that rate allows whole runs reach " + ",\n".join(words) + "."


def reuse_words(gpu: dict[str, Run]) -> str:
    """What reuse batch saves, of bytes decoded for a byte of a u16 crop."""
    if not all(name in gpu for name in ("zstd-none", "zstd-batch", "zstd-batch-own-cap")):
        return "Not measured."
    none, batch, own = (gpu[name]["result"] for name in ("zstd-none", "zstd-batch", "zstd-batch-own-cap"))
    once, each = (2 * r["decoded_gb_per_s"] / r["gb_per_s"] for r in (batch, none))
    return (
        f"With the memory of zstd-batch ({batch['device_bytes'] / (1 << 30):.0f} GiB) {once:.2f} bytes are decoded\n"
        f"for a byte of a crop, and {each:.2f} where each use is decoded (zstd-none). With the scenario's own memory it is\n"
        f"{own['gb_per_s']:.1f} GB/s (zstd-batch-own-cap)."
    )


def parts() -> dict[str, str]:
    kernels = kernel_runs()
    measured = newest("gpu-2*.json", lambda row: row["name"])
    gpu = {name: measured[name] for name in ROWS if name in measured}
    compare = newest("compare-*.json", lambda row: f"{row['set']} {row['case']}")
    return {
        "summary": summary(gpu, kernels),
        "codecs": codec_rows(gpu, kernels),
        "reached": reached(gpu),
        "gpu goals": gpu_goals(gpu | newest("trainer-*.json", lambda row: row["name"]) | kernels),
        "gpu reuse": reuse_words(gpu),
        "gpu kernels": kernel_rows(kernels),
        "gpu zstd": decoder_rows("decoders-*.json"),
        "gpu inflate": decoder_rows("inflate-*.json"),
        "gpu runs": gpu_machines(gpu) + "\n\n" + gpu_rows(gpu),
        "ranks": rank_rows(),
        "readers": compare_machines(compare) + "\n\n" + compare_rows(compare),
        "engine": engine_part(),
    }


def fill(pages: dict[Path, str]) -> dict[Path, str]:
    """The pages with each generated part in its place, which is on one of them."""
    pages = dict(pages)
    for name, text in parts().items():
        begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        places = [path for path, page in pages.items() if begin in page and end in page.partition(begin)[2]]
        if len(places) != 1:
            raise SystemExit(f"the part {name!r} has {len(places)} places in {', '.join(str(path) for path in pages)}")
        before, _, rest = pages[places[0]].partition(begin)
        pages[places[0]] = before + begin + text + end + rest.partition(end)[2]
    return pages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if a page is out of date")
    options = parser.parse_args()
    pages = {path: path.read_text() for path in PAGES}
    filled = fill(pages)
    if options.check:
        sys.exit(0 if pages == filled else "docs are not what bench/results gives: make tables")
    for path, page in filled.items():
        path.write_text(page)


if __name__ == "__main__":
    main()
