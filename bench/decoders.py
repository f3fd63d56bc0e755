"""Our zstd decoder and nvCOMP's on the same frames, over fields and sizes of chunks, on a GPU.

    decoders.py [--nvcomp LIBRARY] [--commit ID] [--out bench/results] [--nvcc nvcc] [--sets DIR] [--only NAME,...]

Builds bench/kernels/zstd.cc, which compares every byte that it decodes; writes the sets where
they are missing (zstd.py: numpy and zstandard) and all figures with command, commit and machine.
Needs a GPU and nvcc of the CUDA toolkit.
"""

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from record import save

ROOT = Path(__file__).resolve().parents[1]
IMAGE = "cuda/kernels/kernels.ptx"
SETS = (
    "mask50",
    "lm",
    "lm-shuffled",
    "em",
    "weather",
    "weather-shuffled",
    "labels",
    "constant",
    *(f"{field}-{size}" for size in ("64K", "1M", "8M") for field in ("mask50", "lm", "lm-shuffled", "em")),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcomp", help="nvCOMP's library, a file")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--out", default="bench/results")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--sets", default="/tmp/sets")
    parser.add_argument("--only", default=",".join(SETS))
    options = parser.parse_args()
    names = options.only.split(",")
    rows: list[dict] = []
    began = datetime.datetime.now(datetime.timezone.utc)
    with tempfile.TemporaryDirectory() as folder:
        binary = str(Path(folder) / "zstdbench")
        source = ["-I", "cuda/kernels", "-o", binary, "bench/kernels/zstd.cc", "-lcuda", "-ldl"]
        subprocess.run([options.nvcc, "-O2", "-std=c++17", *source], check=True, cwd=ROOT)
        missing = [name for name in names if not Path(options.sets, f"{name}.bin").exists()]
        if missing:
            subprocess.run([sys.executable, "bench/kernels/zstd.py", "sets", options.sets, *missing], check=True, cwd=ROOT)
        for name in names:
            command = [binary, IMAGE, "time", f"{options.sets}/{name}.bin", *([options.nvcomp] if options.nvcomp else [])]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                sys.exit(f"zstdbench {name}: exit {done.returncode}")
            for line in map(json.loads, done.stdout.splitlines()):
                line["set"], line["image"] = name, IMAGE
                if line.get("wrong"):
                    sys.exit(f"{name}: {line['wrong']} chunks are wrong: {line}")
                rows.append({"name": f"{line['what']} {name} {line['chunks']}", "result": line})
                print(f"{rows[-1]['name']:40} {line['ms']:8.3f} ms {line['GB_per_s']:8.1f} GB/s", flush=True)
            save("decoders", options, rows, began=began)  # of each set: a run may be cut off


if __name__ == "__main__":
    main()
