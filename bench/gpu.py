"""The GPU engine over its scenarios: rates, bytes copied, time to the first batch.

    gpu.py [--binary bin/headrace] [--commit ID] [--out bench/results] [--only NAME,...] [--check]

Each row is one run of `headrace bench`; its data is written where it is missing.
Prints a table, and writes all figures with command, commit and machine.
"""

import argparse
import json
import os
import subprocess
from pathlib import Path

from record import save

# Relative: the command of each run is written down.
SCENARIOS = Path(os.path.relpath(Path(__file__).with_name("scenarios")))
NVCOMP = "nvcomp"  # --nvcomp says where it is
LARGE = ["--device-bytes", str(24 << 30), "--host-bytes", str(6 << 30)]  # waves of thousands of frames
KEPT = ["--compressed-cache", str(3 << 30)]  # all stored chunks of the scenario stay on the GPU
# name: (scenario, flags)
ROWS = {
    "raw-none": ("gpu-raw", ["--reuse", "none"]),
    "raw-batch": ("gpu-raw", ["--reuse", "batch"]),
    "raw-none-ring": ("gpu-raw", ["--reuse", "none", "--reader", "ring", "--readers", "12"]),
    "raw-batch-ring": ("gpu-raw", ["--reuse", "batch", "--reader", "ring", "--readers", "16"]),
    "raw-window": ("gpu-raw", ["--reuse", "window"]),
    "raw-cache": ("gpu-raw", ["--reuse", "cache", "--device-bytes", str(16 << 30)]),
    "lz4-batch": ("gpu-lz4", ["--reuse", "batch"]),
    "lz4-batch-large": ("gpu-lz4", ["--reuse", "batch", *LARGE]),
    "lz4-none-large": ("gpu-lz4", ["--reuse", "none", *LARGE]),
    "lz4-none": ("gpu-lz4", ["--reuse", "none"]),
    "blosc-lz4-batch": ("gpu-blosc-lz4", ["--reuse", "batch"]),
    "blosc-lz4-batch-ring": ("gpu-blosc-lz4", ["--reuse", "batch", "--reader", "ring", "--readers", "16"]),
    "blosc-lz4-none": ("gpu-blosc-lz4", ["--reuse", "none"]),
    "blosc-lz4-none-large": ("gpu-blosc-lz4", ["--reuse", "none", *LARGE]),
    "blosc-lz4-compressed": ("gpu-blosc-lz4", ["--reuse", "none", *KEPT, *LARGE]),
    "blosc-zstd-none": ("blosc-zstd", ["--reuse", "none", *LARGE]),
    "blosc-zstd-batch": ("blosc-zstd", ["--reuse", "batch", *LARGE]),
    "gzip-none": ("gpu-gzip", ["--reuse", "none", *LARGE]),
    "gzip-batch": ("gpu-gzip", ["--reuse", "batch", *LARGE]),
    "zstd-none": ("default", ["--reuse", "none", *LARGE]),
    "zstd-batch": ("default", ["--reuse", "batch", *LARGE]),
    "zstd-window": ("default", ["--reuse", "window", *LARGE]),
    "zstd-cache": ("default", ["--reuse", "cache", *LARGE]),
    "zstd-none-kept": ("default", ["--reuse", "none", *KEPT, *LARGE]),
    "zstd-batch-kept": ("default", ["--reuse", "batch", *KEPT, *LARGE]),
    "zstd-batch-own-cap": ("default", ["--reuse", "batch"]),  # the scenario's own memory
    "zstd-none-lm": ("default-lm", ["--reuse", "none", *LARGE]),
    "zstd-batch-lm": ("default-lm", ["--reuse", "batch", *LARGE]),
    "zstd-window-lm": ("default-lm", ["--reuse", "window", *LARGE]),
    "zstd-none-kept-lm": ("default-lm", ["--reuse", "none", *KEPT, *LARGE]),
    "zstd-batch-kept-lm": ("default-lm", ["--reuse", "batch", *KEPT, *LARGE]),
    "zstd-nvcomp-none": ("default", ["--reuse", "none", "--decoder", NVCOMP, *LARGE]),
    "zstd-nvcomp-batch": ("default", ["--reuse", "batch", "--decoder", NVCOMP, *LARGE]),
    "zstd-nvcomp-batch-own-cap": ("default", ["--reuse", "batch", "--decoder", NVCOMP]),
    "zstd-nvcomp-batch-lm": ("default-lm", ["--reuse", "batch", "--decoder", NVCOMP, *LARGE]),
    "zstd-nvcomp-cache": ("default", ["--reuse", "cache", "--decoder", NVCOMP, *LARGE]),
}
COLUMNS = {
    "samples_per_s": "samples/s",
    "gb_per_s": "GB/s out",
    "decoded_gb_per_s": "decoded",
    "gpu_decode_ms_per_gb": "GPU ms/GB",
    "chunks_on_host": "on host",
    "copied_gb_per_s": "copied",
    "open_ms": "open ms",
    "first_batch_ms": "first ms",
}


def run(options: argparse.Namespace, name: str) -> dict:
    scenario, flags = ROWS[name]
    if options.nvcomp:
        flags = [f"nvcomp={options.nvcomp}" if flag == NVCOMP else flag for flag in flags]
    command = [options.binary, "bench", str(SCENARIOS / f"{scenario}.json"), "--device", "cuda:0", "--json", *flags]
    if options.check:
        command += ["--check", "--batches", "4"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no word"]
        return {"name": name, "command": command[1:], "error": last[0]}
    return {"name": name, "command": command[1:], "result": json.loads(done.stdout)}


def table(rows: list[dict]) -> str:
    lines = [f"{'':22}" + "".join(f"{title:>11}" for title in COLUMNS.values()) + "   stages busy ms"]
    for row in rows:
        if "error" in row:
            lines.append(f"{row['name']:22} {row['error']}")
            continue
        result = row["result"]
        busy = " ".join(f"{s['name']} {s['busy_ms']:.0f}" for s in result["stages"] if s["busy_ms"] > 0)
        cells = "".join(f"{result[key]:11.1f}" for key in COLUMNS)
        check = " equal to a plain read" if (result.get("check") or {}).get("ok") else ""
        lines.append(f"{row['name']:22}{cells}   {busy}; {result['mapped_bytes'] >> 20} MiB mapped{check}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="bin/headrace")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--out", default="bench/results")
    parser.add_argument("--nvcomp", help="nvCOMP's library, or a folder that has it")
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--check", action="store_true", help="compare with a plain read, over few batches")
    options = parser.parse_args()
    rows = []
    for name in options.only.split(","):
        rows.append(run(options, name))
        print(table(rows[-1:]), flush=True)
    save("gpu-check" if options.check else "gpu", options, rows)


if __name__ == "__main__":
    main()
