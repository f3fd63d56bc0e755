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

VALIDATING = """
import os, signal, sys
import headrace as hr

crops = hr.grid_crops(sys.argv[1], (8, 16, 16))
with hr.Loader(crops, batch_size=4, mode="async", device="cpu") as loader:
    with hr.Loader(crops, batch_size=4, coord="off", device="cpu") as validation:
        print("validated", sum(len(batch.ids) for batch in validation), flush=True)
    for batch in loader:
        if os.environ["LOCAL_RANK"] == "0" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
    done, expected = loader.coverage(), loader.expected()
    print("exact", done["count"] == expected["count"] and done["digest"] == expected["digest"], flush=True)
"""

EVALUATE = Path(__file__).resolve().parents[2] / "examples" / "elastic" / "evaluate.py"
TRAIN = EVALUATE.with_name("train.py")


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


def test_a_loader_beside_the_jobs(tmp_path: Path) -> None:
    """Each process has one for validation too. One that is started again, in a later view, has it without a warning."""
    data = write_array(tmp_path / "image.zarr", np.zeros((32, 128, 128), dtype=np.uint8), (8, 32, 32), compress=True)
    script = tmp_path / "train.py"
    script.write_text(VALIDATING)
    command = [sys.executable, "-P", "-m", "headrace", "launch", "--live", "--max-restarts", "1", "--nproc-per-node", "2"]
    env = os.environ | {"PYTHON_EXEC": sys.executable}
    done = subprocess.run([*command, str(script), str(data)], env=env, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("validated 128\n") == 3
    assert "exact True\n" in done.stdout
    assert "it is started again" in done.stderr
    assert "Warning" not in done.stderr


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


@pytest.mark.parametrize(("restarts", "lost"), [(0, [0]), (0, [1]), (2, [0]), (2, [1]), (3, [0, 1, 2])])
def test_the_model_of_survivors_is_that_of_one_process(tmp_path: Path, restarts: int, lost: list[int]) -> None:
    """Ranks are killed in the middle, such as the one that leads the collectives: no step is left out or done twice.

    With restarts a new process gets the model from the others, or comes when all is done. If all are lost they begin again.
    """
    rng = np.random.default_rng(5)
    data = write_array(
        tmp_path / "image.zarr", rng.integers(0, 255, (32, 128, 128), dtype=np.uint8), (8, 32, 32), compress=True
    )
    arguments = [str(TRAIN), "--data", str(data), "--epochs", "60", "--out"]
    subprocess.run([sys.executable, "-P", *arguments, str(tmp_path / "alone")], check=True, capture_output=True, timeout=60)
    alone = json.loads(next((tmp_path / "alone").glob("*.json")).read_text())
    command = [sys.executable, "-P", "-m", "headrace", "launch", "--live", "--live-profile", "fast", "--nproc-per-node", "3"]
    command += ["--max-restarts", str(restarts), *arguments, str(tmp_path / "out")]
    env = os.environ | {"PYTHON_EXEC": sys.executable}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        try:
            pids: dict[int, int] = {}
            for line in launcher.stdout:
                if said := re.search(r"rank (\d) of 3, process (\d+): step 1\d\b", line):  # lines of two may be mixed
                    pids[int(said[1])] = int(said[2])
                if pids.keys() >= set(lost):
                    break
            for rank in lost:
                os.kill(pids[rank], signal.SIGKILL)
            _, errors = launcher.communicate(timeout=90)
        finally:
            launcher.terminate()
    assert launcher.returncode == 0, errors
    assert "was killed by signal 9" in errors
    assert ("it is started again" in errors) == (restarts > 0), errors
    models = [json.loads(file.read_text()) for file in (tmp_path / "out").glob("*.json")]
    assert len(models) >= 2, errors
    assert all(model == alone for model in models)
