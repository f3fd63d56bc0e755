"""The kernels alone on a GPU: decoders and assembly, and nvCOMP's LZ4 in the same run.

    kernels.py [--nvcomp LIBRARY] [--sets DIR] [--commit ID] [--out bench/results] [--nvcc nvcc]

Builds bench/kernels/bench.cc, which compares every byte it decodes, and writes all
figures with command, commit and machine. DIR has the sets that bench/kernels/zstd.py writes; they
are decoded beside the set of the program. Needs a GPU and nvcc of the CUDA toolkit.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from record import save

ROOT = Path(__file__).resolve().parents[1]
IMAGE = "cuda/kernels/kernels.ptx"


def build(nvcc: str, binary: Path) -> None:
    source = ["-I", "cuda/kernels", "-o", str(binary), "bench/kernels/bench.cc", "-lcuda", "-ldl", "-lpthread"]
    subprocess.run([nvcc, "-O2", "-std=c++17", *source], check=True, cwd=ROOT)


def name(line: dict) -> str:
    """Decoders are told apart by the chunks of a launch; assembly has them all busy."""
    return line["what"] if line["what"].startswith("assemble") else f"{line['what']} {line['items']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcomp", help="nvCOMP's library, a file")
    parser.add_argument("--sets", help="a folder of sets")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--out", default="bench/results")
    parser.add_argument("--nvcc", default="nvcc")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "kernelbench"
        build(options.nvcc, binary)
        given = {"--nvcomp": options.nvcomp, "--sets": options.sets}
        command = [str(binary), *(word for pair in given.items() if pair[1] for word in pair), IMAGE]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"kernelbench: exit {done.returncode}")
    print(done.stdout, end="")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    rows = [{"name": name(line), "result": line} for line in lines if "items" in line]
    save("kernels", options, rows, data=[line for line in lines if "items" not in line])


if __name__ == "__main__":
    main()
