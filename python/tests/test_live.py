"""The evaluation of examples/elastic under `headrace launch --live`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from zarr_writer import write_array

EVALUATE = Path(__file__).resolve().parents[2] / "examples" / "elastic" / "evaluate.py"


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Two processes that evaluate 256 crops, by a launcher that starts one of them again."""
    rng = np.random.default_rng(5)
    data = write_array(
        tmp_path / "image.zarr", rng.integers(0, 255, (32, 128, 128), dtype=np.uint8), (8, 32, 32), compress=True
    )
    command = [sys.executable, "-P", "-m", "headrace", "launch", "--live", "--max-restarts", "1", "--nproc-per-node", "2"]
    command += [str(EVALUATE), "--data", str(data), "--out", str(tmp_path / "out")]
    env = os.environ | {"PYTHON_EXEC": sys.executable}
    launcher = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield launcher
    if launcher.poll() is None:
        launcher.terminate()
        launcher.communicate(timeout=60)


def test_a_killed_process_is_started_again(job: subprocess.Popen[str], tmp_path: Path) -> None:
    """Each crop has one result, and the coordinator says so to each process that is there at the end."""
    assert job.stdout is not None
    first = job.stdout.readline()
    said = re.fullmatch(r"rank of process (\d+): 4 crops\n", first)
    assert said, first
    os.kill(int(said[1]), signal.SIGKILL)
    out, errors = job.communicate(timeout=90)
    assert job.returncode == 0, errors
    assert "it is started again" in errors
    ends = [line for line in out.splitlines() if line.startswith("coverage")]
    assert ends
    assert all(line.startswith("coverage 256 of 256, ") and line.endswith("exact: True") for line in ends)
    stored = [int(crop) for file in (tmp_path / "out").glob("*.json") for crop in json.loads(file.read_text())]
    assert set(stored) == set(range(256))
