"""Everything that needs a GPU, on a machine with Python, a driver and prebuilt binaries: no Go, no compiler.

    make gpu-binaries               # where Go is: fills build/gpu
    python3 tests/gpu/run.py        # where the GPU is, from a checkout with build/gpu in it

It runs the Go tests of the driver's binding and of the engine on GPU 0, the command, and
the Python tests from the wheel with whatever this Python has of torch, cupy and jax. Names
of parts as arguments run those alone. Exit 0: all passed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Part:
    """A command, where it runs, and what its environment has beyond this one."""

    command: list[str]
    folder: Path = ROOT
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def run(self) -> int:
        return subprocess.run(self.command, cwd=self.folder, env=os.environ | self.environment, check=False).returncode


def go_test(binaries: Path, name: str, package: str, *flags: str) -> Part:
    """A test binary in its package's folder, where its test data are."""
    binary = binaries / name
    if not binary.exists():
        sys.exit(f"run.py: {binary} is missing: make gpu-binaries, where Go is")
    return Part([str(binary), "-test.timeout=300s", *flags], ROOT / package)


def unpack(binaries: Path, folder: Path) -> None:
    """The wheel as pip would install it; pip itself need not be there."""
    wheels = sorted(binaries.glob("headrace-*.whl"))
    if len(wheels) != 1:
        sys.exit(f"run.py: {binaries} has {len(wheels)} wheels, one is needed: make gpu-binaries, where Go is")
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder)
    (folder / "headrace" / "_bin" / "headrace").chmod(0o755)


def python_tests(binaries: Path, site: Path, chosen: str) -> Part:
    unpack(binaries, site)
    tests = ["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--durations=5", "test_gpu.py"]
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH", ""))))
    select = ["-k", chosen] if chosen else []
    return Part([sys.executable, "-P", *tests, *select], ROOT / "python" / "tests", {"PYTHONPATH": path})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=Path, default=ROOT / "build" / "gpu", help="folder of the binaries and the wheel")
    parser.add_argument("-k", default="", metavar="EXPRESSION", help="of the Python tests those that match, as pytest -k")
    parser.add_argument("parts", nargs="*", metavar="part", help="cuda, pipeline, command, python; default: all")
    args = parser.parse_args()
    binaries = args.binaries.resolve()
    with tempfile.TemporaryDirectory() as site:
        parts: dict[str, Callable[[], Part]] = {
            "cuda": lambda: go_test(binaries, "cuda.test", "cuda", "-cuda.driver=real"),
            "pipeline": lambda: go_test(binaries, "pipe.test", "pipeline", "-device", "cuda:0", "-test.short"),
            "command": lambda: Part([str(binaries / "headrace"), "doctor"]),
            "python": lambda: python_tests(binaries, Path(site), args.k),
        }
        unknown = set(args.parts) - set(parts)
        if unknown:
            parser.error(f"there is no part {sorted(unknown)[0]!r}: {', '.join(parts)}")
        failed: list[str] = []
        for name in args.parts or parts:
            print(f"== {name}", flush=True)
            began = time.monotonic()
            code = parts[name]().run()
            print(f"== {name}: {'ok' if code == 0 else f'exit {code}'}, {time.monotonic() - began:.1f} s", flush=True)
            failed += [name] if code else []
    print(f"== failed: {', '.join(failed)}" if failed else "== all passed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
