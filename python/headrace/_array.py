"""Reading single arrays: `open(uri)[...]`."""

from __future__ import annotations

import operator
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias

from ._batch import Batch
from ._check import is_flag, shown
from ._client import AGAIN, STEP_MS
from ._dtype import Dtype, numpy_dtype
from ._engine import Engine
from ._sample import Path, uri_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Index: TypeAlias = "int | slice | EllipsisType | tuple[int | slice | EllipsisType, ...]"

KEEP_BYTES = 4 << 20
"""From this size on a crop is given without a copy."""


class Array(Engine):
    """An opened array that reads crops as numpy does.

    It takes integers, slices with step 1, negative indices and an ellipsis, and
    always gives a new numpy array. Close it, or leave a `with` block, to free the
    files it keeps open.
    """

    def __init__(self, uri: Path, level: str | int | None = None) -> None:
        text = uri_of(uri)
        super().__init__({"open": "array", "uri": text, "level": "" if level is None else str(level)})
        self.uri = text

    def __enter__(self) -> Array:
        self._open_handle()
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the array."""
        return tuple(self._about["shape"])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._about["shape"])

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def chunks(self) -> tuple[int, ...]:
        """Extents of the chunks that are decoded one by one: those within a shard if there are shards."""
        return tuple(self._about["chunks"])

    @property
    def shards(self) -> tuple[int, ...] | None:
        """Extents of the stored objects if they hold several chunks, else None."""
        shards = self._about.get("shards")
        return None if shards is None else tuple(shards)

    @property
    def attrs(self) -> dict[str, Any]:
        """The user's attributes."""
        return self._about.get("attrs") or {}

    @property
    def dtype(self) -> np.dtype[Any]:
        """numpy's dtype; for bf16 see Tensor.numpy, datetime64 and timedelta64 keep their unit."""
        import numpy as np

        if self._about.get("time"):
            return np.dtype(self._about["time"])
        return numpy_dtype(Dtype.of(self._about["dtype"]))

    def __len__(self) -> int:
        """Extent of the first axis."""
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<headrace.Array {self.uri!r} {self._about['dtype']} {list(self.shape)}, chunks {list(self.chunks)}{state}>"

    def __getitem__(self, index: Index) -> Any:
        """The crop at an index, as a numpy array; a scalar if every axis has an integer.

        Raises IndexError for an integer outside the array, too many axes or a step
        other than 1; Corrupt, NotFound, IO and so on if the data cannot be read.
        """
        spans, dropped = box_at(index, self.shape)
        array: Any = self._read(spans)
        kept = tuple(n for axis, n in enumerate(array.shape) if axis not in dropped)
        array = array.reshape(kept)
        scalar = bool(self.shape) and len(dropped) == len(self.shape)
        return array[()] if scalar or (not self.shape and index == ()) else array

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[tuple[Any, ...], np.dtype[Any]]:
        if copy is False:
            raise ValueError(f"{self!r} lies in storage: it cannot be had without a copy")
        array = self._read([(0, n) for n in self.shape])
        return array if dtype is None else array.astype(dtype, copy=False)

    def _read(self, spans: list[tuple[int, int]]) -> npt.NDArray[Any]:
        import numpy as np

        handle = self._open_handle()
        shape = tuple(stop - start for start, stop in spans)
        if 0 in shape:
            return np.empty(shape, self.dtype)
        lib = self._library
        room = lib.room(1, 1)
        read, _ = lib.open({"open": "read", "array": handle, "box": spans})
        try:
            while lib.next(read, room, STEP_MS) == AGAIN:
                pass
            batch: Any = Batch(lib, room, ("data",)).numpy()
            array = batch.reshape(shape).view(self.dtype)
            # The array keeps the engine's memory, which is taken in large pages.
            return array if array.nbytes >= KEEP_BYTES else array.copy()
        finally:
            lib.close(read, wait=False)


def box_at(index: Index, shape: tuple[int, ...]) -> tuple[list[tuple[int, int]], set[int]]:
    """The box of a numpy-like index, and the axes that integers drop.

    >>> box_at((-1, ..., slice(2, None)), (5, 6, 7))
    ([(4, 5), (0, 6), (2, 7)], {0})
    """
    parts = index if isinstance(index, tuple) else (index,)
    dots = [i for i, p in enumerate(parts) if p is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can have only one ellipsis")
    named = len(parts) - len(dots)
    if named > len(shape):
        raise IndexError(f"too many indices: {named} for {len(shape)} axes")
    where = dots[0] if dots else len(parts)
    fill = (slice(None),) * (len(shape) - named)
    full = parts[:where] + fill + parts[where + 1 :]
    spans: list[tuple[int, int]] = []
    dropped: set[int] = set()
    for axis, (part, extent) in enumerate(zip(full, shape, strict=True)):
        if isinstance(part, slice):
            start, stop, step = part.indices(extent)
            if step != 1:
                raise IndexError(f"axis {axis}: step is {step}, only 1 is possible")
            spans.append((start, max(start, stop)))
            continue
        i = _integer(part, axis)
        if not -extent <= i < extent:
            raise IndexError(f"axis {axis}: index {i} is out of bounds for extent {extent}")
        i %= extent
        spans.append((i, i + 1))
        dropped.add(axis)
    return spans, dropped


def _integer(part: Any, axis: int) -> int:
    if is_flag(part):  # numpy takes a bool as a mask of no axes, operator.index as 0 or 1
        raise IndexError(f"axis {axis}: {part!r} is a mask, not an integer or a slice")
    try:
        return operator.index(part)
    except TypeError:
        pass
    if isinstance(part, list) or getattr(part, "shape", None):
        raise IndexError(
            f"axis {axis}: {shown(part)} is a mask or a list of places: read the box around them, and index the result"
        )
    raise IndexError(f"axis {axis}: {shown(part)} is neither an integer nor a slice")


def open(uri: Path, *, level: str | int | None = None) -> Array:
    """Opens an array to read crops of it: `open("a.zarr/0")[4:8, 0:64, 0:64]`.

    `level` picks a level of OME-Zarr multiscales by index (0 is the finest) or name.
    Raises NotFound if there is none, Unsupported with the reason if headrace does
    not read it, Corrupt if its metadata contradict the format.
    """
    return Array(uri, level)
