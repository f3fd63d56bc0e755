"""headrace as the tests see it: through the Python package, or through the command."""

import io
import json
import os
import subprocess
from pathlib import Path

import numpy as np

try:
    import headrace as hr
except ImportError:  # the wheel is not built yet: the command alone is tested
    hr = None

COMMAND = Path(__file__).parents[2] / "bin" / "headrace"
Box = tuple[tuple[int, int], ...]


class ReadError(Exception):
    """A failure of a read: its kind as the engine names it, and the message."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


# How a message of the command begins, after "headrace: ".
KINDS = {
    "corrupt data": "corrupt",
    "not supported": "unsupported",
    "not found": "not_found",
    "shape mismatch": "shape",
    "I/O error": "io",
    "bad config": "config",
    "over budget": "budget",
}


class Package:
    """Reads through ``headrace.open`` in this process."""

    name = "package"

    def read(self, path: Path, box: Box | None = None, level: str | None = None) -> np.ndarray:
        return self.read_many(path, [box], level)[0]

    def read_many(self, path: Path, boxes: list[Box | None], level: str | None = None) -> list[np.ndarray]:
        assert hr is not None
        try:
            with hr.open(path, level=level) as array:
                return [np.asarray(array[index(box)]) for box in boxes]
        except hr.HeadraceError as e:
            raise ReadError(e.kind, str(e)) from e


class Command:
    """Reads through ``headrace read``, one process a box."""

    name = "command"

    def read(self, path: Path, box: Box | None = None, *flags: str) -> np.ndarray:
        where = [] if box is None else ["--box", ",".join(f"{a}:{b}" for a, b in box)]
        out = run("read", str(path), *where, *flags, "-o", "-")
        return np.load(io.BytesIO(out))

    def read_many(self, path: Path, boxes: list[Box | None]) -> list[np.ndarray]:
        return [self.read(path, box) for box in boxes]


def index(box: Box | None):
    """numpy's index of a box; an ellipsis is the whole."""
    return ... if box is None else tuple(slice(a, b) for a, b in box)


def run(*words: str) -> bytes:
    """Runs the command; its failure becomes a ReadError."""
    done = subprocess.run([COMMAND, *words], capture_output=True, timeout=60)
    if done.returncode == 0:
        return done.stdout
    text = done.stderr.decode()
    assert done.returncode in (1, 2), f"exit {done.returncode}: {text}"
    assert text.startswith("headrace: ") and text.count("\n") == 1, f"not one line that says who failed: {text!r}"
    message = text.removeprefix("headrace: ").strip()
    kind = next((k for start, k in KINDS.items() if start in message), "other")
    raise ReadError("usage" if done.returncode == 2 else kind, message)


def info(path: Path) -> dict:
    """What ``headrace info --json`` says of an array."""
    return json.loads(run("info", str(path), "--json"))


def default() -> Package | Command:
    """The package where it is installed; HEADRACE_READER=command asks for the command."""
    if hr is None or os.environ.get("HEADRACE_READER") == "command":
        return Command()
    return Package()
