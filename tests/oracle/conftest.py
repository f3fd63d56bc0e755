"""Fixtures, and the count of what was compared."""

import collections
import os

import numpy as np
import pytest

import reader

SEED = int(os.environ.get("ORACLE_SEED", "1"))
ROUNDS = int(os.environ.get("ORACLE_ROUNDS", "1"))
COUNTS: collections.Counter[str] = collections.Counter()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the seed and on the name of the test alone."""
    return np.random.default_rng([SEED, *request.node.name.encode()])


@pytest.fixture(scope="session")
def headrace() -> reader.Package | reader.Command:
    return reader.default()


@pytest.fixture(scope="session")
def package():
    """The Python package, for tests of more than single boxes."""
    return pytest.importorskip("headrace", reason="the wheel is not installed here")


@pytest.fixture(scope="session")
def counts() -> collections.Counter[str]:
    """Arrays and boxes compared so far, printed at the end."""
    return COUNTS


def check(got: np.ndarray, want: np.ndarray, what: str) -> None:
    """Fails unless shape and every byte are the same."""
    assert got.shape == want.shape, f"{what}: shape {got.shape}, want {want.shape}"
    assert got.dtype.itemsize == want.dtype.itemsize, f"{what}: dtype {got.dtype}, want {want.dtype}"
    a, b = np.ascontiguousarray(got), np.ascontiguousarray(want)
    if a.tobytes() == b.tobytes():
        return
    size = want.dtype.itemsize
    differ = np.frombuffer(a.tobytes(), f"V{size}") != np.frombuffer(b.tobytes(), f"V{size}")
    first = np.unravel_index(int(np.argmax(differ)), want.shape)
    pytest.fail(f"{what}: {differ.sum()} of {want.size} elements differ, first at {first}: {a[first]!r}, want {b[first]!r}")


@pytest.fixture
def same(headrace: reader.Package | reader.Command, counts: collections.Counter[str]):
    """same(path, want): headrace reads exactly want, whole and in boxes."""

    def compare(path, want: np.ndarray, boxes: list[reader.Box | None] | None = None) -> None:
        boxes = boxes or [None]
        for box, got in zip(boxes, headrace.read_many(path, boxes), strict=True):
            check(got, want[reader.index(box)], f"{path.name}[{box}]")
        counts["arrays"] += 1
        counts["boxes"] += len(boxes)

    return compare


@pytest.fixture
def fails(headrace: reader.Package | reader.Command):
    """fails(path, kind, *texts): a read is an error of that kind, and its message has the texts."""

    def expect(path, kind: str, *texts: str, box: reader.Box | None = None) -> None:
        with pytest.raises(reader.ReadError) as caught:
            headrace.read(path, box)
        assert caught.value.kind == kind, caught.value
        for text in texts:
            assert text in caught.value.message, f"{text!r} is not in {caught.value.message!r}"

    return expect


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(
        f"{COUNTS['arrays']} arrays and {COUNTS['boxes']} boxes compared byte by byte "
        f"through the {reader.default().name}, seed {SEED}"
    )
