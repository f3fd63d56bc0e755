"""Crop sources: which samples there are. A loader decides on their order."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from ._check import choice, flag, integer, integers, shown, spelled
from ._config import Extents, PerField
from ._errors import ConfigError
from ._library import library
from ._sample import DEFAULT_FIELD, Path, Sample, uri_of
from ._table import is_table, table_rows

Arrays: TypeAlias = "Path | Sequence[Path]"
"""One array, a list of arrays, or a glob pattern that matches arrays."""

WEIGHTS = ("volume", "equal")
TAILS = ("drop", "shift", "pad")


class Crops:
    """A finite, indexed set of samples: what `random_crops`, `grid_crops` and `crop_list` return.

    It holds a description and no data, opens nothing until a loader or `len` needs
    it, and can be pickled and sent to another process.
    """

    def __init__(self, kind: str, fields: dict[str, list[str]], shape: PerField[Extents], more: dict[str, Any]) -> None:
        self.kind = kind
        self.arrays = fields
        """The arrays of each field as they were given."""
        self.shape = shape
        """Extents of a crop, or those of each field."""
        self._more = more
        self._about: dict[str, Any] | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields, in the order of the tensors of a batch."""
        return tuple(self.arrays)

    def describe(self) -> dict[str, Any]:
        """The source as the engine reads it."""
        if "parts" in self._more:
            return {"kind": self.kind} | self._more
        shapes = self.shape if isinstance(self.shape, Mapping) else dict.fromkeys(self.arrays, self.shape)
        fields = [{"name": n, "arrays": a, "shape": list(shapes[n])} for n, a in self.arrays.items()]
        return {"kind": self.kind, "fields": fields} | self._more

    def __len__(self) -> int:
        """The number of samples; a grid opens its arrays for it."""
        return int(self._opened()["len"])

    @property
    def fingerprint(self) -> str:
        """A hex hash of the kind, the parameters and the metadata of the arrays; no path and no time enters it."""
        return str(self._opened()["fingerprint"])

    def __repr__(self) -> str:
        shape = dict(self.shape) if isinstance(self.shape, Mapping) else tuple(self.shape)
        arrays = ", ".join(
            f"{name}={uris[0]!r}" + (f" and {len(uris) - 1} more" if uris[1:] else "") for name, uris in self.arrays.items()
        )
        name = {"list": "crop_list", "table": "crop_list", "mix": "mix", "weighted": "weighted"}.get(
            self.kind, f"{self.kind}_crops"
        )
        count = f" count {self._more['count']}" if self._more.get("count") else ""
        return f"<headrace.{name} {arrays} shape {shape}{count}>"

    def _opened(self) -> dict[str, Any]:
        if self._about is None:
            lib = library()
            handle, about = lib.open({"open": "source", "source": self.describe()})
            lib.close(handle, wait=False)
            self._about = about
            return about
        return self._about


@spelled
def random_crops(
    arrays: Arrays | Mapping[str, Arrays],
    shape: PerField[Sequence[int]],
    count: int,
    *,
    seed: int = 0,
    weights: str = "volume",
    flips: Sequence[int] = (),
) -> Crops:
    """Crops at random places, `count` of them; crop i is a function of `seed` and i alone.

    `arrays` is a path or URI, a list of them, or a glob pattern; a mapping gives
    several fields, whose lists are paired: crop i has the same place in the k-th
    array of each field. `shape` has the extents of a crop along the axes of the
    array, or is a mapping from field to extents: axes are then aligned at the last
    one, and a smaller crop lies in the middle of a larger one. Arrays are drawn in
    proportion to their volume, or all alike ("equal"). Along each of the axes
    `flips`, counted from the end (-1 is the last), half of the crops are reversed.

    Raises ConfigError (a ValueError) for an impossible argument. What is wrong with
    the arrays comes out of the loader: NotFound, Shape if a crop does not fit.

    >>> crops = random_crops({"image": "a.zarr", "mask": "b.zarr"}, shape=(64, 128, 128), count=1000)
    >>> crops.fields, len(crops.arrays["image"])
    (('image', 'mask'), 1)
    """
    weights = choice("weights", weights, WEIGHTS)
    fields = _fields(arrays)
    return Crops(
        "random",
        fields,
        _shapes(shape, fields),
        {
            "count": integer("count", count, 1),
            "seed": integer("seed", seed, 0),
            "weights": weights,
            "flips": [integer(f"flips[{i}]", a, -32, -1) for i, a in enumerate(integers("flips", flips, "(-1, -2)"))],
        },
    )


@spelled
def grid_crops(
    arrays: Arrays | Mapping[str, Arrays],
    shape: PerField[Sequence[int]],
    *,
    stride: Sequence[int] | None = None,
    tail: str = "drop",
    by_shard: bool = False,
) -> Crops:
    """Crops on a regular grid: those of `shape` that start at multiples of `stride`, in C order.

    `stride` defaults to `shape`, which tiles the array. Where the array does not
    end with a crop, `tail` leaves the rest out ("drop"), moves the last crop back
    inside ("shift"), or lets it reach beyond the end ("pad": the loader's `pad` must
    then not be "error"). For `arrays` and `shape` see `random_crops`. `by_shard` lists the
    crops shard by shard of the first field, for a loader with `window`.
    """
    tail = choice("tail", tail, TAILS)
    fields = _fields(arrays)
    steps = None if stride is None else _extents("stride", stride)
    more = {"stride": steps, "tail": tail, "by_shard": flag("by_shard", by_shard)}
    return Crops("grid", fields, _shapes(shape, fields), more)


@spelled
def crop_list(
    samples: Iterable[Sample] | Path | Any,
    arrays: Arrays | Mapping[str, Arrays] | None = None,
    shape: PerField[Sequence[int]] | None = None,
    *,
    outside: bool = False,
    extra: bool = False,
) -> Crops:
    """Crops that are named one by one: a list of samples, or a table with a row for each.

    Samples must have the same fields and, field by field, the same extents. A batch names
    them by their place in the list: `Sample.id` is not used.

    A table is the path of a file of JSON lines (.jsonl, .ndjson) or of comma-separated values
    (.csv), or anything with named columns: a DataFrame of pandas or polars, a table of pyarrow,
    a mapping from name to column. `arrays` and `shape` are those of `random_crops`. Columns:

    array
        The array of the first field, by its number or as it was given. Not needed for one.
    start, or start0, start1, ...
        Where a crop begins, on each axis.
    flip
        Axes along which it is reversed, counted from the end: -1 is the last. Optional.
    weight
        For `weighted`. Optional.

    `extra` passes over other columns, which are an error without it. `outside` allows crops
    that reach beyond their array; the loader's `pad` must then not be "error".

    >>> crops = crop_list([Sample("a.zarr", [(0, 4), (0, 4)]), Sample("b.zarr", [(2, 6), (2, 6)])])
    >>> crops.shape, crops.arrays
    ({'data': (4, 4)}, {'data': ['a.zarr', 'b.zarr']})
    >>> len(table_rows({"start": [[0, 4], [8, 8]], "array": ["a.zarr", "b.zarr"]}, extra=False))
    2
    """
    if arrays is None and shape is None:
        return _listed(cast("Iterable[Sample]", samples))
    if arrays is None or shape is None:
        raise ConfigError("give arrays and shape for a table, neither of them for samples")
    fields = _fields(arrays)
    more: dict[str, Any] = {"outside": flag("outside", outside), "extra": flag("extra", extra)}
    if isinstance(samples, (str, os.PathLike)):
        path = uri_of(cast("Path", samples), "samples")
        formats = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
        suffix = os.path.splitext(path)[1].lower()
        if suffix not in formats:
            raise ConfigError(f"samples is {path!r}: a table's name ends in .csv, .jsonl or .ndjson")
        more |= {"path": path, "format": formats[suffix]}
    else:
        rows = table_rows(samples, extra=extra)
        if not rows:
            raise ConfigError("samples is a table without a row")
        more |= {"text": "\n".join(json.dumps(row, allow_nan=False) for row in rows), "format": "jsonl"}
    return Crops("table", fields, _shapes(shape, fields), more)


@spelled
def mix(parts: Iterable[Crops | tuple[Crops, float]], count: int | None = None, *, seed: int = 0) -> Crops:
    """Several sources in fixed proportions, exact in every epoch.

    `parts` are sources or pairs of a source and its weight; without weights each has as much
    of an epoch as it has samples. `count` is the samples of an epoch, by default those of all
    parts together. A part that is larger than its share goes on with other samples in the
    next epoch; over many epochs each comes equally often. All parts have the same fields and
    extents. `Loader.origin` tells which part a sample is of.

    >>> a, b = random_crops("a.zarr", (4, 4), 100), random_crops("b.zarr", (4, 4), 300)
    >>> mix([(a, 0.5), (b, 0.5)], count=200)
    <headrace.mix data='a.zarr' and 1 more shape (4, 4) count 200>
    """
    list_of_parts = [p if isinstance(p, tuple) else (p, None) for p in parts]
    if not list_of_parts:
        raise ConfigError("parts is empty")
    first = list_of_parts[0][0]
    if len({weight is None for _, weight in list_of_parts}) > 1:
        raise ConfigError("either every part has a weight or none has")
    described: list[dict[str, Any]] = []
    arrays: dict[str, list[str]] = {}
    for i, (part, weight) in enumerate(list_of_parts):
        if not isinstance(part, Crops):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"parts[{i}] is {shown(part)}: random_crops, grid_crops and crop_list make sources")
        if part.fields != first.fields:
            raise ConfigError(f"parts[{i}] has the fields {list(part.fields)}, the first {list(first.fields)}")
        described.append({"source": part.describe(), "weight": 0.0 if weight is None else _weight(f"parts[{i}]", weight)})
        for name, uris in part.arrays.items():
            arrays.setdefault(name, []).extend(uris)
    more = {"parts": described, "count": 0 if count is None else integer("count", count, 1), "seed": integer("seed", seed, 0)}
    return Crops("mix", arrays, first.shape, more)


@spelled
def weighted(crops: Crops, weights: Iterable[float] | None = None, count: int | None = None, *, seed: int = 0) -> Crops:
    """The samples of a source, each as often as its weight says.

    In every epoch a sample comes as often as its share of `count`, rounded up or down, and on
    average exactly so. `weights` has one for each sample; None takes the column "weight" of a
    table (`crop_list`). `count` is by default the number of samples.

    >>> weighted(random_crops("a.zarr", (4, 4), 2), [1, 3], count=400)
    <headrace.weighted data='a.zarr' shape (4, 4) count 400>
    """
    if not isinstance(crops, Crops):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"crops is {shown(crops)}: random_crops, grid_crops and crop_list make sources")
    more = {
        "parts": [{"source": crops.describe(), "weight": 0.0}],
        "factors": None if weights is None else [_weight(f"weights[{i}]", w) for i, w in enumerate(weights)],
        "count": 0 if count is None else integer("count", count, 1),
        "seed": integer("seed", seed, 0),
    }
    return Crops("weighted", crops.arrays, crops.shape, more)


def _weight(name: str, value: Any) -> float:
    try:
        weight = float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} is {shown(value)}, must be a number") from None
    if not 0 <= weight < float("inf"):
        raise ConfigError(f"{name} has the weight {weight}, must be a number of at least 0")
    return weight


def _listed(samples: Iterable[Sample]) -> Crops:
    fields: dict[str, list[str]] = {}
    numbers: dict[tuple[str, str], int] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    rows: list[dict[str, Any]] = []
    if is_table(samples):
        raise ConfigError("samples is a table: give arrays and shape too")
    if isinstance(samples, (Sample, str)) or not hasattr(samples, "__iter__"):
        raise TypeError(f"samples is {shown(samples)}, must be a list of headrace.Sample")
    for i, sample in enumerate(samples):
        if not isinstance(sample, Sample):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"samples[{i}] is {sample!r}, not a headrace.Sample")
        if i == 0:
            fields = {name: [] for name in sample.fields}
        if set(sample.fields) != set(fields):
            raise ConfigError(f"samples[{i}] has the fields {list(sample.fields)}, the first {list(fields)}")
        crops: dict[str, Any] = {}
        for name, uri, box in sample.crops:
            shape = tuple(stop - start for start, stop in box)
            if shapes.setdefault(name, shape) != shape:
                raise ConfigError(f"samples[{i}] has the extents {shape} for {name!r}, the first {shapes[name]}")
            if (name, uri) not in numbers:
                numbers[name, uri] = len(fields[name])
                fields[name].append(uri)
            crops[name] = {"array": numbers[name, uri], "box": box}
        rows.append({"flip": sample.flip_mask, "crops": [crops[n] for n in fields]})
    if not rows:
        raise ConfigError("samples is empty")
    return Crops("list", fields, cast("dict[str, Extents]", shapes), {"samples": rows})


def _fields(arrays: Arrays | Mapping[str, Arrays]) -> dict[str, list[str]]:
    by_field = arrays if isinstance(arrays, Mapping) else {DEFAULT_FIELD: arrays}
    if not by_field:
        raise ConfigError("arrays is empty")
    fields: dict[str, list[str]] = {}
    for name, value in by_field.items():
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"arrays: {name!r} is no name of a field")
        paths = _paths(f"arrays[{name!r}]", value)
        if not paths:
            raise ConfigError(f"arrays[{name!r}] is empty")
        fields[name] = [uri_of(p, f"arrays[{name!r}][{i}]") for i, p in enumerate(paths)]
    return fields


def _paths(name: str, value: Any) -> list[Any]:
    if isinstance(value, (str, os.PathLike)):
        return [value]
    try:
        return list(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}, must be a path, a list of paths or a glob pattern") from None


def _shapes(shape: PerField[Sequence[int]], fields: dict[str, list[str]]) -> PerField[Extents]:
    if not isinstance(shape, Mapping):
        return _extents("shape", shape)
    if set(shape) != set(fields):
        raise ConfigError(f"shape has the fields {sorted(shape)}, arrays {sorted(fields)}")
    return {name: _extents(f"shape[{name!r}]", shape[name]) for name in fields}


def _extents(name: str, value: Any) -> tuple[int, ...]:
    return tuple(integer(f"{name}[{i}]", n, 1) for i, n in enumerate(integers(name, value, "(64, 128, 128)")))
