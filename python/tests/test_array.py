"""open(uri)[...]: what numpy would give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from conftest import Array
from zarr_writer import write_array, write_group

INDICES: list[Any] = [
    (),
    ...,
    0,
    -1,
    slice(None),
    slice(3, 9),
    slice(-4, -1),
    slice(5, 5),
    slice(9, 3),
    slice(0, 99),
    (1, 2, 3),
    (1, ...),
    (..., 1),
    (slice(2, 7), 3, slice(None)),
    (slice(2, 7), ..., slice(-2, None)),
    (..., np.int64(2), slice(1, 4)),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_numpys(volume: str, values: Array, index: Any) -> None:
    with hr.open(volume) as a:
        got, want = a[index], values[index]
        np.testing.assert_array_equal(got, want)
        assert type(got) is type(want) and got.dtype == want.dtype and got.shape == want.shape


@pytest.mark.parametrize(
    "index", [12, -13, (0, 0, 0, 0), slice(None, None, 2), slice(None, None, -1), 1.0, "x", (..., ...), None]
)
def test_indices_that_are_none(volume: str, index: Any) -> None:
    with hr.open(volume) as a, pytest.raises(IndexError):
        a[index]


def test_what_an_array_tells(volume: str, values: Array) -> None:
    with hr.open(Path(volume)) as a:
        assert (a.shape, a.ndim, a.size, len(a), a.chunks, a.shards) == ((12, 10, 8), 3, 960, 12, (5, 4, 8), None)
        assert a.dtype == np.uint16 and a.attrs == {"name": "volume"} and "volume.zarr" in repr(a)
        np.testing.assert_array_equal(np.asarray(a), values)
        np.testing.assert_array_equal(np.asarray(a, np.float32), values.astype(np.float32))
        with pytest.raises(ValueError, match="copy"):
            a.__array__(copy=False)
    with hr.open(f"file://{volume}") as a:
        assert a[11, 9, 7] == values[11, 9, 7]


def test_arrays_without_axes_or_elements(tmp_path: Path) -> None:
    point = write_array(tmp_path / "point.zarr", np.array(42, np.int32), ())
    with hr.open(point) as a:
        assert a.shape == () and a[()] == 42 and a[...].shape == () and int(np.asarray(a)) == 42
        with pytest.raises(TypeError):
            len(a)
    none = write_array(tmp_path / "none.zarr", np.zeros((0, 3), np.int32), (2, 2))
    with hr.open(none) as a:
        assert a[...].shape == (0, 3)


def test_a_crop_is_the_callers_own(tmp_path: Path) -> None:
    """Small crops are copies; large ones keep the engine's memory, and outlive the array."""
    data = np.arange(1 << 20, dtype=np.float64)
    path = write_array(tmp_path / "large.zarr", data, (1 << 17,))
    with hr.open(path) as a:
        small, large = a[:10], a[:]
        again = a[:10]
    small[0] = large[0] = -1
    assert again[0] == 0
    np.testing.assert_array_equal(large[1:], data[1:])


def test_missing_chunks_hold_the_fill_value(tmp_path: Path) -> None:
    path = write_array(tmp_path / "a.zarr", np.full((6, 6), 7, np.int16), (3, 3), fill=7)
    assert not list(path.glob("c/**/0"))
    with hr.open(path) as a:
        assert (a[:] == 7).all()


def test_errors(tmp_path: Path, broken: str) -> None:
    with hr.open(broken) as a:
        with pytest.raises(hr.Corrupt, match="0/0/0") as caught:
            a[0]
        assert broken in str(caught.value) and "sample" not in str(caught.value)
        assert a[6:].shape == (6, 10, 8)
    with pytest.raises(FileNotFoundError, match=r"zarr\.json"):
        hr.open(tmp_path)
    write_group(tmp_path / "group.zarr", {})
    write_array(tmp_path / "group.zarr" / "inner", np.zeros(2, np.uint8), (2,))
    with pytest.raises(hr.NotFound, match="inner"):
        hr.open(tmp_path / "group.zarr")
    strange = write_array(tmp_path / "strange.zarr", np.zeros(2, np.uint8), (2,))
    document = strange / "zarr.json"
    document.write_text(document.read_text().replace('"name": "bytes"', '"name": "novel"'))
    with pytest.raises(hr.Unsupported, match="novel"):
        hr.open(strange)
    document.write_text(document.read_text()[:-20])
    with pytest.raises(hr.Corrupt):
        hr.open(strange)
    for uri in ("s3://bucket/a.zarr", "https://example.org/a.zarr"):
        with pytest.raises(hr.Unsupported, match="later"):
            hr.open(uri)
    with pytest.raises(ValueError, match="empty"):
        hr.open("")


def test_a_slice_longer_than_one_read(tmp_path: Path) -> None:
    path = write_array(tmp_path / "long.zarr", np.zeros(4, np.uint8), (4,))
    document = path / "zarr.json"
    meta = json.loads(document.read_text())
    meta["shape"] = [2**40]
    document.write_text(json.dumps(meta))
    with hr.open(path) as a, pytest.raises(hr.Shape, match=r"slice 0:1099511627776 .*at most 2147483646.*long\.zarr"):
        a[:]


def test_use_after_close(volume: str) -> None:
    a = hr.open(volume)
    a.close()
    a.close()
    with pytest.raises(hr.Closed):
        a[0]
    assert a.shape == (12, 10, 8)  # known, not read
