"""Boxes and samples."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ._errors import ConfigError

Span: TypeAlias = "tuple[int, int] | slice"
"""One axis of a box: (start, stop) or slice(start, stop)."""

Box: TypeAlias = "Sequence[Span] | slice"
"""A span for each axis of the array; `np.s_[0:4, 10:20]` makes one."""

Path: TypeAlias = "str | os.PathLike[str]"

DEFAULT_FIELD = "data"
"""Name of the field of whatever was given without a name."""


MAX_URI = 4096
"""Bytes of a URI: Linux takes no longer path."""


def uri_of(path: Path, name: str = "uri") -> str:
    """The text of a path or URI."""
    text = os.fspath(path)
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"{name} must be text, not {text!r}")
    if not text:
        raise ConfigError(f"{name} is empty")
    if "\0" in text:
        raise ConfigError(f"{name} {text!r} holds a NUL character, which no path can")
    if (n := len(text.encode(errors="surrogatepass"))) > MAX_URI:
        raise ConfigError(f"{name} has {n} bytes, at most {MAX_URI}: {text[:40]!r}...")
    return text


def _span(span: Span, axis: int) -> tuple[int, int]:
    if isinstance(span, slice):
        if span.step not in (None, 1):
            raise ValueError(f"box axis {axis}: step is {span.step}, only 1 is possible")
        if span.stop is None:
            raise ValueError(f"box axis {axis}: {span} has no stop")
        start, stop = span.start or 0, span.stop
    elif isinstance(span, (tuple, list)):  # pyright: ignore[reportUnnecessaryIsInstance]
        if len(span) != 2:
            raise ValueError(f"box axis {axis}: {span!r} is not (start, stop)")
        start, stop = span
    else:
        raise TypeError(f"box axis {axis}: {span!r} is neither (start, stop) nor a slice")
    start, stop = operator.index(start), operator.index(stop)
    if stop < start:
        raise ValueError(f"box axis {axis}: stop {stop} lies before start {start}")
    if start < -(2**63) or stop >= 2**63:  # ctypes would cut them to 64 bits
        raise ValueError(f"box axis {axis}: {start}:{stop} does not fit 64 bits")
    return start, stop


def box_of(box: Box) -> tuple[tuple[int, int], ...]:
    """A box in its one normal form.

    >>> box_of([slice(0, 4), (10, 20)])
    ((0, 4), (10, 20))
    """
    if isinstance(box, slice):  # np.s_[0:4]
        box = (box,)
    return tuple(_span(span, axis) for axis, span in enumerate(box))


@dataclass(frozen=True, init=False)
class Sample:
    """One crop of one array, or one crop for each of several fields.

    `uri` names the array, `box` its part: a (start, stop) pair or a slice per axis,
    in absolute coordinates. With several fields `uri` is a mapping from field to
    array; `box` is then one box for all of them or a mapping as well. `id` comes
    back in `Batch.ids`; None numbers the samples as they are pushed. `flip` lists
    the axes of the array along which the crop is reversed.

    Equal forms are equal and hash equal:

    >>> Sample("a.zarr", [(0, 4), (2, 6)]) == Sample("a.zarr", (slice(0, 4), slice(2, 6)))
    True

    Raises TypeError for a bare integer in place of a span, ValueError for a step
    other than 1, a missing stop, a stop before its start, or a number beyond 64 bits.
    """

    crops: tuple[tuple[str, str, tuple[tuple[int, int], ...]], ...]
    """(field, uri, box) for each field."""
    id: int | None
    flip: tuple[int, ...]
    fields: tuple[str, ...] = field(compare=False)
    """The names of the fields, "data" if none was given."""

    def __init__(
        self,
        uri: Path | Mapping[str, Path],
        box: Box | Mapping[str, Box],
        *,
        id: int | None = None,
        flip: Iterable[int] = (),
    ) -> None:
        uris = uri if isinstance(uri, Mapping) else {DEFAULT_FIELD: uri}
        boxes = box if isinstance(box, Mapping) else dict.fromkeys(uris, box)
        if set(boxes) != set(uris):
            raise ValueError(f"box has the fields {sorted(boxes)}, uri has {sorted(uris)}")
        crops = tuple((name, uri_of(u), box_of(boxes[name])) for name, u in uris.items())
        axes = tuple(sorted({operator.index(a) for a in flip}))
        if any(a < 0 or a > 31 for a in axes):
            raise ValueError(f"flip {axes}: axes are counted from 0 to 31")
        object.__setattr__(self, "crops", crops)
        number = None if id is None else operator.index(id)
        if number is not None and not -(2**63) <= number < 2**63:
            raise ValueError(f"id {number} does not fit 64 bits")
        object.__setattr__(self, "id", number)
        object.__setattr__(self, "flip", axes)
        object.__setattr__(self, "fields", tuple(uris))

    @property
    def flip_mask(self) -> int:
        """`flip` with bit i set for axis i."""
        return sum(1 << a for a in self.flip) if self.flip else 0

    @property
    def uri(self) -> str:
        """The array of the first field."""
        return self.crops[0][1]

    @property
    def box(self) -> tuple[tuple[int, int], ...]:
        """The box of the first field."""
        return self.crops[0][2]
