"""test_gpu.py without a GPU: over a driver that keeps the device's memory on the host."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cuda_driver

ROOT = Path(__file__).parents[2]
FAKE = ROOT / "cuda" / "cudatest" / "fake"
FLAGS = [
    "-std=c++17",
    "-O2",
    "-g1",
    "-fPIC",
    "-shared",
    "-pthread",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
    "-ffp-contract=off",
]
"""Those of cuda/cudatest/build.go."""


@pytest.fixture(scope="session")
def fake_driver() -> Path:
    """The folder of a libcuda.so.1, built once for each change of its sources; `make` copies the Go tests'."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler (g++) to build the fake driver with")
    if not FAKE.is_dir():
        pytest.skip(f"the sources of the fake driver are not on this machine: {FAKE}")
    kernels = ROOT / "cuda" / "kernels"
    units = [str(f) for folder in (FAKE, kernels) for f in sorted(folder.glob("*.cc"))]
    inputs = [f for folder in (FAKE, kernels) for f in folder.iterdir() if f.suffix in (".cc", ".h", ".cu")]
    folder = ROOT / "build" / "fake"
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libcuda.so.1"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists() or library.stat().st_mtime < max(f.stat().st_mtime for f in inputs):
            part = folder / "part.so"
            subprocess.run([compiler, *FLAGS, "-o", str(part), *units, "-ldl"], check=True)
            part.rename(library)
    return folder


@pytest.mark.skipif(cuda_driver.find()[0] is not None, reason="there is a GPU: test_gpu.py runs on it")
def test_what_needs_only_a_driver(fake_driver: Path) -> None:
    """Every test of test_gpu.py passes, or skips since torch, cupy or jax has no GPU."""
    path = os.pathsep.join(filter(None, (str(fake_driver), os.environ.get("LD_LIBRARY_PATH", ""))))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_gpu.py", "-rs"],
        cwd=Path(__file__).parent,
        env=os.environ | {"LD_LIBRARY_PATH": path, "CUDA_VISIBLE_DEVICES": "0"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no NVIDIA driver" not in done.stdout and " passed" in done.stdout, done.stdout
