"""Real jobs: torchrun beside `headrace launch`, two processes with gloo on the CPU."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
HEADRACE = ROOT / "bin" / "headrace"
TORCHRUN = Path(sys.executable).with_name("torchrun")

LAUNCHERS = {"torchrun": [str(TORCHRUN)], "launch": [str(HEADRACE), "launch"]}

Run = Callable[..., str]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """image.zarr and labels.zarr, as the README of examples/torchrun makes them."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("image", "labels"):
        scenario = EXAMPLES / "torchrun" / f"{name}.json"
        subprocess.run([HEADRACE, "gen", scenario, "--out", folder], check=True, stdout=subprocess.DEVNULL)
    return folder


def environment() -> dict[str, str]:
    """Ours without what a job of this test's own launcher would say."""
    mine = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC", "HEADRACE_", "PET_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(mine)}
    # One thread for each of two processes on two cores; nothing to be seen of a GPU.
    return kept | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PATH": f"{TORCHRUN.parent}:{kept['PATH']}"}


@pytest.fixture
def run() -> Run:
    """Runs a job and gives what it printed; one that hangs is ended with all its processes."""

    def job(launcher: str, *arguments: str | Path, ranks: int = 2, seconds: int = 180, fails: bool = False) -> str:
        command = [*LAUNCHERS[launcher], f"--nproc-per-node={ranks}", *map(str, arguments)]
        process = subprocess.Popen(
            command, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            out, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.terminate()  # workers have sessions of their own: launchers end them
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=60)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            pytest.fail(f"{' '.join(command)} took more than {seconds} s:\n{out}")
        if (process.returncode != 0) != fails:
            pytest.fail(f"{' '.join(command)} ended with {process.returncode}:\n{out}")
        return out

    return job


def lines(out: str, start: str) -> list[str]:
    """The lines of an output that start so; launchers may put a rank's name in front."""
    found = [line[line.index(start) :] for line in out.splitlines() if start in line]
    assert found, out
    return found
