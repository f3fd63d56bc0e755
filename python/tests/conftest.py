from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import headrace as hr
from zarr_writer import write_array

if not any("test_gpu" in a for a in sys.argv):
    # All other tests are of the host, also where there is a GPU, which would be the default.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

Array = npt.NDArray[Any]
Boxes = list[list[tuple[int, int]]]
Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def values() -> Array:
    """What `volume` holds: every element differs from its neighbours."""
    return np.arange(12 * 10 * 8, dtype=np.uint16).reshape(12, 10, 8)


@pytest.fixture
def volume(tmp_path: Path, values: Array) -> str:
    """A gzip-compressed uint16 array of shape (12, 10, 8) in chunks that do not divide it."""
    return str(write_array(tmp_path / "volume.zarr", values, (5, 4, 8), compress=True, attrs={"name": "volume"}))


@pytest.fixture
def boxes() -> Boxes:
    """Eight boxes of shape (4, 4, 4) in `volume`."""
    return [[(i, i + 4), (i % 7, i % 7 + 4), (i % 5, i % 5 + 4)] for i in range(8)]


@pytest.fixture
def broken(tmp_path: Path, values: Array) -> str:
    """Like `volume`, with one chunk, that of the first 5 x 4 x 8 elements, cut short."""
    path = write_array(tmp_path / "broken.zarr", values, (5, 4, 8), compress=True)
    chunk = path / "c" / "0" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-20])
    return str(path)


@pytest.fixture
def python() -> Python:
    """Runs a script in a new interpreter: for what ends, forks or poisons a process."""

    def run(script: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=Path(__file__).parent,
        )
        if check and done.returncode != 0:
            pytest.fail(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    return run


def start_engine(folder: Path, *flags: str) -> subprocess.Popen[str]:
    """Starts an engine whose socket is `folder`/socket, and waits until it is ready."""
    command = [sys.executable, "-P", "-m", "headrace", "engine", "--socket", str(folder / "socket"), *flags]
    engine = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert engine.stderr is not None
    line = engine.stderr.readline()
    assert "engine ready" in line, line + engine.stderr.read()
    return engine


def stop_engine(engine: subprocess.Popen[str]) -> None:
    """Ends an engine as an operator does: it says nothing and exits with 0."""
    engine.terminate()
    _, said = engine.communicate(timeout=20)
    assert (engine.returncode, said) == (0, ""), said


@pytest.fixture(scope="session")
def shared_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of an engine that many tests use."""
    folder = tmp_path_factory.mktemp("engine")
    engine = start_engine(folder)
    yield folder / "socket"
    stop_engine(engine)


BOTH = ("test_pipeline", "test_loader", "test_ranks", "test_sources", "test_array", "test_batch", "test_floats")
"""Modules whose tests run with the engine in this process, and again with one beside it."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__ in BOTH:
        metafunc.parametrize("where", ["in_process", "companion"], indirect=True)


@pytest.fixture(autouse=True)
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the engine of a test is."""
    place: str = getattr(request, "param", "in_process")
    monkeypatch.delenv("HEADRACE_ENGINE", raising=False)
    if place == "companion":
        monkeypatch.setenv("HEADRACE_ENGINE", str(request.getfixturevalue("shared_engine")))
    return place


def spawned_reads(path: str) -> int:
    """What a worker of another process does."""
    return int(hr.open(path)[0, 0, 5])


def crop(values: Array, box: list[tuple[int, int]]) -> Array:
    """numpy's idea of a box."""
    return values[tuple(slice(*span) for span in box)]


def pipeline(volume: str, boxes: Boxes, **options: Any) -> hr.Pipeline:
    """A pipeline with all boxes pushed, in batches of 2 unless options say otherwise."""
    p = hr.Pipeline(hr.Config(**{"shape": (4, 4, 4), "batch_size": 2, **options}))
    p.push(hr.Sample(volume, box) for box in boxes)
    return p


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Waits for what another thread does in its own time."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.002)


def waits_in_library(thread: int) -> bool:
    """Whether a thread is inside a call of the library."""
    frame = sys._current_frames().get(thread)
    return (
        frame is not None
        and frame.f_code.co_name == "call"
        and frame.f_code.co_filename.endswith(("_library.py", "_companion.py"))
    )
