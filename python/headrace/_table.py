"""Tables of crops, of whatever kind: what has named columns has rows."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, cast

from ._errors import ConfigError

KNOWN = ("array", "start", "flip", "weight")


def is_table(value: Any) -> bool:
    """Whether something has named columns: a mapping, or a table of pandas, polars or pyarrow."""
    return isinstance(value, Mapping) or (hasattr(value, "__getitem__") and _names(value) is not None)


def _names(table: Any) -> list[str] | None:
    """The names of the columns, None for what is no table."""
    if isinstance(table, Mapping):
        return [str(name) for name in cast("Mapping[Any, Any]", table)]
    for attribute in ("column_names", "columns"):  # pyarrow has data in `columns`
        names = getattr(table, attribute, None)
        if names is not None and not callable(names):
            listed: list[Any] = list(names)
            if all(isinstance(name, str) for name in listed):
                return listed
    return None


def _values(column: Any) -> list[Any]:
    """The values of a column as Python's own."""
    for method in ("to_pylist", "tolist", "to_list"):  # pyarrow; numpy and pandas; polars
        convert = getattr(column, method, None)
        if convert is not None:
            return list(convert())
    return list(column)


def table_rows(table: Any, *, extra: bool) -> list[dict[str, Any]]:
    """The rows of a table of crops, as its JSON lines would have them; see crop_list."""
    names = _names(table)
    if names is None:
        raise TypeError(f"samples is a {type(table).__name__}: a list of headrace.Sample, a path or a table is wanted")
    axes = sorted((n for n in names if n[:5] == "start" and n[5:].isdigit()), key=lambda n: int(n[5:]))
    unknown = [n for n in names if n not in KNOWN and n not in axes]
    if unknown and not extra:
        raise ConfigError(
            f"samples has the columns {unknown}: known are {', '.join(KNOWN)} and start0, ...; extra=True ignores others"
        )
    if ("start" in names) == bool(axes):
        raise ConfigError("samples must have a column start, or a column for each axis: start0, start1, ...")
    if axes != [f"start{i}" for i in range(len(axes))]:
        raise ConfigError(f"samples has the columns {axes}: start0, start1 and so on are wanted, without a gap")
    columns = {n: _values(table[n]) for n in names if n in KNOWN or n in axes}
    lengths = {n: len(v) for n, v in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ConfigError(f"samples has columns of different lengths: {lengths}")
    rows = range(next(iter(lengths.values())))
    return [_row(columns, axes, i) for i in rows]


def _row(columns: dict[str, list[Any]], axes: list[str], i: int) -> dict[str, Any]:
    def whole(name: str, value: Any) -> int:
        try:
            return operator.index(value)
        except TypeError:
            raise ConfigError(f"row {i} of samples: {name} is {value!r}, must be an integer") from None

    def numbers(name: str, value: Any) -> list[int]:
        if isinstance(value, str):
            value = [int(word) if word.lstrip("-").isdigit() else word for word in value.split()]
        if isinstance(value, Iterable):
            return [whole(name, v) for v in cast("Iterable[Any]", value)]
        return [whole(name, value)]

    row: dict[str, Any] = {}
    if "array" in columns:
        array = columns["array"][i]
        row["array"] = array if isinstance(array, str) else whole("array", array)
    row["start"] = [whole(n, columns[n][i]) for n in axes] if axes else numbers("start", columns["start"][i])
    if "flip" in columns and columns["flip"][i] is not None:
        row["flip"] = numbers("flip", columns["flip"][i])
    if "weight" in columns:
        try:
            row["weight"] = float(columns["weight"][i])
        except (TypeError, ValueError):
            raise ConfigError(f"row {i} of samples: weight is {columns['weight'][i]!r}, must be a number") from None
    return row
