"""Sources beyond grids and random crops: tables of any kind, mixes and weights."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from conftest import Array
from zarr_writer import write_array

STARTS = [[0, 0, 0], [8, 6, 4], [1, 2, 3], [4, 4, 4], [2, 0, 1]]
FLIPS = [[], [-1], [-1, -3], [], [-2]]
WEIGHTS = [0.5, 0, 1, 2, 0.5]


def check(crops: hr.Crops, values: Array) -> None:
    """Sample i is the crop of row i, reversed as it says."""
    with hr.Loader(crops, batch_size=2) as loader:
        seen: list[int] = []
        for batch in loader:
            for i, got in zip(batch.ids, batch.numpy(), strict=True):
                z, y, x = STARTS[i]
                want = values[z : z + 4, y : y + 4, x : x + 4]
                np.testing.assert_array_equal(got, np.flip(want, FLIPS[i]) if FLIPS[i] else want)
                seen.append(i)
    assert sorted(seen) == [*range(5)]


def columns() -> dict[str, Any]:
    return {"start": STARTS, "flip": FLIPS, "weight": WEIGHTS}


def split() -> dict[str, Any]:
    """A column for each axis, as a DataFrame would have it."""
    axes = {f"start{i}": [s[i] for s in STARTS] for i in range(3)}
    return axes | {"flip": [" ".join(map(str, f)) for f in FLIPS], "weight": WEIGHTS}


def test_json_lines(volume: str, values: Array, tmp_path: Path) -> None:
    path = tmp_path / "crops.jsonl"
    rows = ({"array": volume, "start": s, "flip": f, "weight": w} for s, f, w in zip(STARTS, FLIPS, WEIGHTS, strict=True))
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    check(hr.crop_list(path, volume, (4, 4, 4)), values)


def test_csv(volume: str, values: Array, tmp_path: Path) -> None:
    path = tmp_path / "crops.csv"
    table = split()
    path.write_text("\n".join([",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]))
    crops = hr.crop_list(path, volume, (4, 4, 4))
    check(crops, values)
    # The same rows are the same source, however they come.
    assert crops.fingerprint == hr.crop_list(columns(), volume, (4, 4, 4)).fingerprint
    assert pickle.loads(pickle.dumps(crops)).fingerprint == crops.fingerprint


class Frame:
    """What pandas, polars and pyarrow have in common."""

    def __init__(self, table: dict[str, Any], names: str) -> None:
        self._table = table
        setattr(self, names, list(table))

    def __getitem__(self, name: str) -> Any:
        return np.asarray(self._table[name])


@pytest.mark.parametrize("names", ["columns", "column_names"])
def test_anything_with_columns_is_a_table(volume: str, values: Array, names: str) -> None:
    check(hr.crop_list(Frame(split(), names), volume, (4, 4, 4)), values)
    check(hr.crop_list(columns(), volume, (4, 4, 4)), values)


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_tables_of_packages(volume: str, values: Array, package: str) -> None:
    module = pytest.importorskip(package, reason=f"{package} is not installed: make test-torch")
    make = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}[package]
    for table in (split(), columns()):
        check(hr.crop_list(getattr(module, make)(table), volume, (4, 4, 4)), values)


def test_tables_that_are_none(volume: str, tmp_path: Path) -> None:
    def refused(what: Any, match: str, **more: Any) -> None:
        with pytest.raises(hr.HeadraceError, match=match):
            len(hr.crop_list(what, volume, (4, 4, 4), **more))

    refused({"start": STARTS, "name": ["a"] * 5}, r"\['name'\]")
    refused({"weight": WEIGHTS}, "must have a column start")
    refused({"start0": [0], "start2": [0]}, "without a gap")
    refused({"start": STARTS, "weight": [1]}, "different lengths")
    refused({"start": [[0, 0, 0.5]]}, "row 0.*0.5")
    refused({"start": []}, "without a row")
    refused({"start": [[0, 0]]}, "line 1.*axes")
    refused({"start": [[99, 0, 0]]}, "outside")
    refused({"start": [[0, 0, 0]], "array": ["b.zarr"]}, "b.zarr")
    refused({"start": [[0, 0, 0]], "flip": [[1]]}, "flip")
    refused(tmp_path / "none.csv", "none.csv")
    refused("crops.txt", "txt")
    assert len(hr.crop_list({"start": STARTS, "name": ["a"] * 5}, volume, (4, 4, 4), extra=True)) == 5
    assert len(hr.crop_list({"start": [[99, 0, 0]]}, volume, (4, 4, 4), outside=True)) == 1
    with pytest.raises(ValueError, match="arrays and shape"):
        hr.crop_list({"start": STARTS})
    with pytest.raises(ValueError, match="arrays and shape"):
        hr.crop_list([], volume)
    with pytest.raises(TypeError, match="int"):
        hr.crop_list(3, volume, (4, 4, 4))


@pytest.fixture
def three(tmp_path: Path) -> list[str]:
    """Arrays of 8, 16 and 24 elements, in which all are 0, 1 and 2."""
    return [str(write_array(tmp_path / f"{k}.zarr", np.full((8 * (k + 1),), k, np.uint8), (4,))) for k in range(3)]


def test_a_mix_is_exact_in_every_epoch(three: list[str]) -> None:
    parts = [hr.random_crops(uri, (2,), 30, seed=k) for k, uri in enumerate(three)]
    crops = hr.mix([(parts[0], 0.5), (parts[1], 0.3), (parts[2], 0.2)], count=40)
    assert len(crops) == 40
    again: Counter[tuple[int, int]] = Counter()
    with hr.Loader(crops, batch_size=7) as loader:
        for _ in range(3):
            found: Counter[int] = Counter()
            for batch in loader:
                origins = loader.origin(batch)
                assert [part for part, _ in origins] == batch.numpy()[:, 0].tolist()
                found.update(part for part, _ in origins)
                again.update(origins)
            assert found == {0: 20, 1: 12, 2: 8}
        assert loader.report()["digest"] == loader.expected()["digest"]
    # 60 of 30 samples, 36 of 30, 24 of 30: none more than once as often as another.
    for part, counts in ((0, {2}), (1, {1, 2}), (2, {1})):
        assert {n for (p, _), n in again.items() if p == part} == counts


def test_a_mix_without_weights_is_all_of_its_parts(three: list[str]) -> None:
    crops = hr.mix([hr.grid_crops(uri, (4,)) for uri in three])
    with hr.Loader(crops, batch_size=12) as loader:
        batch = next(loader)
        assert Counter(batch.numpy()[:, 0].tolist()) == {0: 2, 1: 4, 2: 6}
        assert sorted(loader.origin(batch)) == [(p, i) for p, n in enumerate((2, 4, 6)) for i in range(n)]
    with pytest.raises(ValueError, match="every part has a weight"):
        hr.mix([(hr.grid_crops(three[0], (4,)), 1), hr.grid_crops(three[1], (4,))])
    with pytest.raises(ValueError, match="fields"):
        hr.mix([hr.grid_crops(three[0], (4,)), hr.grid_crops({"x": three[1]}, (4,))])
    with pytest.raises(ValueError, match="empty"):
        hr.mix([])
    with pytest.raises(hr.HeadraceError, match="shape"):
        len(hr.mix([hr.grid_crops(three[0], (4,)), hr.grid_crops(three[1], (2,))]))


def test_weights(volume: str) -> None:
    table = hr.crop_list(columns(), volume, (4, 4, 4))
    for crops in (hr.weighted(table, count=16), hr.weighted(table, WEIGHTS, count=16)):
        found: Counter[int] = Counter()
        with hr.Loader(crops, batch_size=4) as loader:
            for batch in loader:
                found.update(index for _, index in loader.origin(batch))
        assert found == {0: 2, 2: 4, 3: 8, 4: 2}
    with pytest.raises(ValueError, match="weight"):
        len(hr.weighted(table, [1, 2]))
    with pytest.raises(ValueError, match=r"weights\[1\]"):
        hr.weighted(table, [1, -2, 0, 0, 0])
    with pytest.raises(ValueError, match="weights are not given"):
        len(hr.weighted(hr.grid_crops(volume, (4, 4, 4))))


def test_blocks_of_storage(volume: str) -> None:
    """A window touches so many shards and no more, and the samples are the same."""
    crops = hr.grid_crops(volume, (4, 4, 4), stride=(1, 1, 1), by_shard=True)
    with hr.Loader(crops, batch_size=1, window=2) as loader:
        assert loader.quality()["window_blocks"] == 2 < loader.quality()["blocks"]
        ids = [i for b in loader for i in b.ids]
    assert sorted(ids) == [*range(9 * 7 * 5)]
    with hr.Loader(crops, batch_size=16, block=20, window=3, locality=True) as loader:
        assert sorted(i for b in loader for i in b.ids) == sorted(ids)
    with pytest.raises(ValueError, match="window"):
        hr.Loader(hr.grid_crops(volume, (4, 4, 4)), batch_size=2, window=2)
    with pytest.raises(ValueError, match="block"):
        hr.Loader(crops, batch_size=2, locality=True)
