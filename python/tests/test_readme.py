"""Runs the Python example of the README over the data of `headrace demo`.

The other blocks are run by cmd/headrace/readme_test.go.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"<!-- test: python -->\n```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(examples) == 1
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-m", "headrace", "demo", "--dir", "data/demo", "--crops", "1"], check=True)
    names: dict[str, Any] = {}
    exec(examples[0], names)
    assert names["image"].shape == (8, 32, 64, 64)
    assert names["image"].dtype == "float32" and names["mask"].dtype == "uint8"
