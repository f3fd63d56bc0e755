"""An engine in another process. What it serves is tested with the rest (see BOTH in conftest.py); this is what it adds."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as hr
from conftest import Python


def test_no_go_runtime_is_loaded(python: Python, volume: str, shared_engine: Path) -> None:
    """The trainer maps the small C library and its batches, and nothing else of ours."""
    done = python(
        """
        import os, sys
        os.environ["HEADRACE_ENGINE"] = sys.argv[2]
        import headrace as hr
        loader = hr.Loader(hr.random_crops(sys.argv[1], (4, 4, 4), 4), batch_size=2)
        batch = next(loader)
        assert hr.open(sys.argv[1]).shape == (12, 10, 8)
        maps = [line.split(maxsplit=5)[-1].strip() for line in open("/proc/self/maps")]
        print(sorted({os.path.basename(m) for m in maps if "headrace" in m}))
        """,
        volume,
        str(shared_engine),
    )
    assert done.stdout.strip() == "['libheadrace_client.so', 'memfd:headrace batch (deleted)']"


def test_no_engine(volume: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_ENGINE", str(tmp_path / "socket"))
    with pytest.raises(hr.EngineLost, match=r"HEADRACE_ENGINE.*nothing listens.*headrace engine --socket"):
        hr.open(volume)
