"""The settings of an engine."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar, cast

from ._check import choice, flag, integers, is_flag, shown, spelled_class, text
from ._dtype import Dtype
from ._errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

DtypeLike: TypeAlias = "Dtype | str | int | type[Any] | np.dtype[Any]"
"""A name, a Dtype, or a type of numpy; one of torch will do too. See Dtype."""
PerField: TypeAlias = "T | Mapping[str, T]"
"""One value for every field, or one for each field by name."""

Extents: TypeAlias = "Sequence[int]"
Factors: TypeAlias = "float | Sequence[float]"

DEFAULT_SLOTS = 3
"""The engine's default of `slots`."""

PADS = ("error", "fill", "edge", "reflect")
POLICIES = ("raise", "skip", "fill")
MOST = 2**63 - 1
"""The largest count without a limit of its own."""

_LIMITS: Mapping[str, int] = {"batch_size": 2**31 - 1, "lookahead": 2**31 - 1, "slots": 1024, "readers": 1024, "workers": 1024}
"""The engine's limits of counts."""

_COUNTS = (
    "lookahead",
    "slots",
    "readers",
    "workers",
    "host_bytes",
    "decoded_bytes",
    "device_bytes",
    "mapped_bytes",
    "compressed_bytes",
    "sms",
)
"""Settings that are counts or None; the engine reads None as 0."""

REUSES = ("none", "batch", "window", "cache")


@spelled_class
@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What the batches of a pipeline look like, and what making them may cost.

    `Config(shape=(128, 128, 128), batch_size=16, dtype="bf16")` is enough. Variants
    come from `dataclasses.replace`. An impossible value raises ConfigError, which
    is a ValueError, at once and names the field.

    The first seven may be mappings, with a value for each field by name:

    shape
        Extents of a crop in elements, along the axes of its array. Needed.
    dtype
        Element type of the tensors, see Dtype; also for how values are converted.
        None, the default, keeps the type of the arrays: no conversion unasked.
    axes
        Order of the axes in the tensor: axis i, after the batch axis, is axis
        axes[i] of the array. None keeps the order.
    pad
        For the part of a box outside its array: "error" (default: a box that
        leaves its array is mostly a mistake), "fill" with pad_value, "edge"
        repeats the last element, "reflect" mirrors without repeating it.
    pad_value
        What "fill" writes, in output units: it is not scaled. Default 0.
    scale, offset
        Every value v becomes v * scale + offset, before the conversion to dtype. A
        list has one entry for each array of the field. None means as stored. With
        arrays of integers they need a dtype, which could not hold fractions.

    These hold for all fields:

    batch_size
        Samples in a batch. Needed.
    on_error
        For a sample that cannot be read: "raise" (default: bad data should be seen)
        raises in place of its batch, and the next batch comes as if nothing was;
        "skip" leaves the sample out, so that the batch is shorter, or empty with
        weight 0; "fill" gives it the arrays' fill value, scaled like data. What was
        skipped or filled is in `Batch.errors`.
    lookahead
        Samples planned ahead, at least batch_size. Within them a chunk is decoded
        once for all its uses. Default 4 * batch_size: reads overlap decoding.
    slots
        Batches that can exist at once: in the making, ready, or held by you.
        Default 3, one for each of these.
    readers
        Goroutines that read. Default 4, which keeps a local disk busy; more for
        storage with a high latency.
    workers
        Goroutines that decode and assemble. Default: the cores of this rank.
    host_bytes
        Cap on host memory in bytes. Default: what the other settings need. One that
        is too little raises Budget with the numbers.
    decoded_bytes
        Cap in bytes on decoded chunks that are kept for later uses. Default: what
        host_bytes leaves, or 256 MiB, room for the chunks that neighbours share.
    reuse
        How long a decoded chunk is kept: "none" decodes for every use, "batch" once
        a batch, "window" (default: costs no decode twice that can be foreseen) for
        its uses within lookahead, "cache" also longer, while there is room.
    reader
        How files are read: "ring", "direct" past the page cache, "uring" by io_uring
        where the build and the machine have it, on a GPU "mapped" from the page cache,
        or "" (default) for the best way there is.
    verify
        Whether checksums that the formats carry are checked. Default True: what is
        damaged must not be trained on.

    These are for batches that are made on a GPU:

    device_bytes
        Cap in bytes on the GPU's memory, all of it taken at the start. Default: a
        quarter of what is free, at most 8 GiB. decoded_bytes is a part of it there.
    mapped_bytes
        Cap in bytes on files of the page cache that are mapped for the GPU to copy
        from. Default for a loader: a quarter of the rank's share of the host's memory,
        at most 16 GiB.
    compressed_bytes
        Cap in bytes on chunks that are kept as they are stored in the GPU's memory.
    decoder
        What decodes zstd there: "" (default) is headrace's own, "nvcomp" or "nvcomp=PATH"
        NVIDIA's library, to compare with.
    sms
        Most multiprocessors that decoding may take. Default: all.
    """

    shape: PerField[Extents]
    """Extents of a crop along the axes of its array."""
    batch_size: int
    """Samples in a batch."""
    dtype: PerField[DtypeLike | None] = None
    """Element type of the tensors; None keeps the type of the arrays."""
    axes: PerField[Extents | None] = None
    """Order of the axes in the tensor: axis i, after the batch axis, is axis axes[i] of the array."""
    pad: PerField[str] = "error"
    """For the part of a box outside its array: "error", "fill", "edge" or "reflect"."""
    pad_value: PerField[float] = 0.0
    """What "fill" writes, in output units."""
    scale: PerField[Factors | None] = None
    """Every value v becomes v * scale + offset, before the conversion to dtype.
    A list has one entry for each array of the field."""
    offset: PerField[Factors | None] = None
    """See scale."""
    on_error: str = "raise"
    """For a bad sample: "raise" an exception in place of its batch, "skip" the sample,
    or "fill" it with the arrays' fill value."""
    lookahead: int | None = None
    """Samples planned ahead, within which a chunk is decoded once. Default 4 x batch_size."""
    slots: int | None = None
    """Batches that can exist at once: in the making, ready or held. Default 3."""
    readers: int | None = None
    """Goroutines that read. Default 4."""
    workers: int | None = None
    """Goroutines that decode. Default: the cores of this rank."""
    host_bytes: int | None = None
    """Cap on host memory. Default: what the other settings need."""
    decoded_bytes: int | None = None
    """Cap on decoded chunks kept for later uses. Default 256 MiB."""
    reuse: str = "window"
    """How long a decoded chunk is kept: "none", "batch", "window" or "cache"."""
    reader: str = ""
    """How files are read; "" is the best way there is."""
    verify: bool = True
    """Check the checksums that the formats carry."""
    device_bytes: int | None = None
    """Cap on the GPU's memory. Default: a quarter of what is free, at most 8 GiB."""
    mapped_bytes: int | None = None
    """Cap on page cache that is mapped for a GPU."""
    compressed_bytes: int | None = None
    """Cap on chunks kept in the GPU's memory as they are stored."""
    decoder: str = ""
    """What decodes on a GPU; "" is headrace's own."""
    sms: int | None = None
    """Most multiprocessors of a GPU that decoding may take."""

    def __post_init__(self) -> None:
        put = _setter(self)
        put("shape", _per_field("shape", self.shape, _shape))
        put("batch_size", count("batch_size", self.batch_size, _LIMITS["batch_size"]))
        put("dtype", _per_field("dtype", self.dtype, _dtype))
        put("axes", _per_field("axes", self.axes, _axes))
        put("pad", _per_field("pad", self.pad, _choice(PADS)))
        put("pad_value", _per_field("pad_value", self.pad_value, _number))
        put("scale", _per_field("scale", self.scale, _factors))
        put("offset", _per_field("offset", self.offset, _factors))
        put("on_error", choice("on_error", self.on_error, POLICIES))
        put("reuse", choice("reuse", self.reuse, REUSES))
        put("reader", text("reader", self.reader))
        put("verify", flag("verify", self.verify))
        put("decoder", text("decoder", self.decoder))
        for name in _COUNTS:
            value = getattr(self, name)
            put(name, None if value is None else count(name, value, _LIMITS.get(name, MOST)))
        if self.lookahead is not None and self.lookahead < self.batch_size:
            raise ConfigError(f"lookahead is {self.lookahead}, must be at least batch_size {self.batch_size}")

    def field_names(self) -> tuple[str, ...] | None:
        """The fields that a setting names, in the order of shape's mapping; None if none does."""
        names: dict[str, None] = {}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Mapping):
                names |= dict.fromkeys(cast("Mapping[str, Any]", value))
        return tuple(names) or None


class Options(TypedDict, total=False):
    """The settings of Config that Loader takes too; see there."""

    axes: PerField[Extents | None]
    pad: PerField[str]
    pad_value: PerField[float]
    scale: PerField[Factors | None]
    offset: PerField[Factors | None]
    on_error: str
    lookahead: int | None
    slots: int | None
    readers: int | None
    workers: int | None
    host_bytes: int | None
    decoded_bytes: int | None
    reuse: str
    reader: str
    verify: bool
    device_bytes: int | None
    mapped_bytes: int | None
    compressed_bytes: int | None
    decoder: str
    sms: int | None


def describe(config: Config, names: Sequence[str]) -> dict[str, Any]:
    """The config as the engine reads it, for fields of these names."""
    unknown = set(config.field_names() or ()) - set(names)
    if unknown:
        raise ConfigError(f"the config names the field {sorted(unknown)[0]!r}; the fields are {list(names)}")
    return {
        "fields": [_describe_field(config, name) for name in names],
        "batch_size": config.batch_size,
        "on_error": config.on_error,
        "reuse": config.reuse,
        "reader": config.reader,
        "decoder": config.decoder,
        "verify": config.verify,
    } | {name: getattr(config, name) or 0 for name in _COUNTS}


def _describe_field(config: Config, name: str) -> dict[str, Any]:
    dtype = of_field(config.dtype, name, None)
    return {
        "name": name,
        "shape": of_field(config.shape, name, ()),
        "dtype": "" if dtype is None else Dtype.of(dtype).short,
        "axes": of_field(config.axes, name, None),
        "pad": of_field(config.pad, name, "error"),
        "pad_value": repr(of_field(config.pad_value, name, 0.0)),  # JSON has no nan
        "scale": of_field(config.scale, name, None),
        "offset": of_field(config.offset, name, None),
    }


def of_field(value: PerField[T], name: str, missing: T) -> T:
    if isinstance(value, Mapping):
        return cast("Mapping[str, T]", value).get(name, missing)
    return value


def _setter(config: Config) -> Callable[[str, Any], None]:
    return lambda name, value: object.__setattr__(config, name, value)


def _per_field(name: str, value: Any, check: Callable[[str, Any], Any]) -> Any:
    if not isinstance(value, Mapping):
        return check(name, value)
    by_field = cast("Mapping[Any, Any]", value)
    for key in by_field:
        if not isinstance(key, str) or not key:
            raise ConfigError(f"{name}: {key!r} is no name of a field")
    return {key: check(f"{name}[{key!r}]", v) for key, v in by_field.items()}


def count(name: str, value: Any, most: int = MOST) -> int:
    try:
        n = operator.index(value)
    except TypeError:
        raise ConfigError(f"{name} is {shown(value)}, must be an integer") from None
    if is_flag(value):
        raise ConfigError(f"{name} is {value!r}, must be an integer")
    if n < 1 or n > most:
        raise ConfigError(f"{name} is {value!r}, must be in [1, {most}]")
    return n


def _shape(name: str, value: Any) -> tuple[int, ...]:
    extents = integers(name, value, "(64, 128, 128)")
    if len(extents) > 32:
        raise ConfigError(f"{name} has {len(extents)} axes, at most 32")
    return tuple(count(f"{name}[{i}]", n) for i, n in enumerate(extents))


def _axes(name: str, value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    try:
        axes = tuple(operator.index(a) for a in integers(name, value, "(2, 0, 1)"))
    except TypeError:
        raise ConfigError(f"{name} is {shown(value)}, must list axes such as (2, 0, 1)") from None
    if sorted(axes) != list(range(len(axes))):
        raise ConfigError(f"{name} {axes} is not a permutation of {len(axes)} axes")
    return axes


def _dtype(name: str, value: Any) -> Dtype | None:
    if value is None:
        return None
    try:
        return Dtype.of(value)
    except (ValueError, TypeError) as e:
        raise ConfigError(f"{name}: {e}") from None


def _number(name: str, value: Any) -> float:
    try:
        if not isinstance(value, (str, bytes)):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ConfigError(f"{name} is {shown(value)}, must be a number")


def _factors(name: str, value: Any) -> float | tuple[float, ...] | None:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return tuple(_finite(f"{name}[{i}]", v) for i, v in enumerate(cast("Sequence[Any]", value)))
    return _finite(name, value)


def _finite(name: str, value: Any) -> float:
    x = _number(name, value)
    if not math.isfinite(x):
        raise ConfigError(f"{name} is {x}, must be finite")
    return x


def _choice(choices: Sequence[str]) -> Callable[[str, Any], str]:
    return lambda name, value: choice(name, value, choices)


if TYPE_CHECKING:
    # Options repeats the fields of Config: this line fails to check when they part.
    def _options_fit(o: Options) -> Config:  # pyright: ignore[reportUnusedFunction]
        return Config(shape=(1,), batch_size=1, **o)
