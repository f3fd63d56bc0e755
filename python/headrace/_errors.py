"""The exceptions of headrace: one for each kind of failure that the engine tells apart."""

from __future__ import annotations

import re
from collections.abc import Iterable


class HeadraceError(Exception):
    """Base of everything that headrace raises, save for wrong argument types.

    `kind` is the engine's name of the kind of failure, for example "corrupt".
    The message tells what failed, where (array, chunk, file, byte range) and what
    to do about it.
    """

    kind = "error"


class Corrupt(HeadraceError):
    """The stored bytes contradict the format or their checksum."""

    kind = "corrupt"


class Unsupported(HeadraceError):
    """The data or the request is legal, but this version of headrace does not do it."""

    kind = "unsupported"


class NotFound(HeadraceError, FileNotFoundError):
    """There is no array, group or file of this name. Also a FileNotFoundError."""

    kind = "not_found"


class Shape(HeadraceError, ValueError):
    """Rank, shape, box or dtype does not fit the array or the field. Also a ValueError."""

    kind = "shape"


class IO(HeadraceError, OSError):
    """The storage failed; the same read may work later. Also an OSError."""

    kind = "io"


class Device(HeadraceError):
    """The GPU or its driver failed."""

    kind = "device"


class Closed(HeadraceError):
    """The object was used after it was closed or released."""

    kind = "closed"


class Budget(HeadraceError):
    """The work does not fit a limit of the config; the message has the numbers."""

    kind = "budget"


class ConfigError(HeadraceError, ValueError):
    """A setting has an impossible value; the message names it. Also a ValueError."""

    kind = "config"


class Bug(HeadraceError):
    """The engine broke one of its own rules. Nothing more works in this process."""

    kind = "bug"


class PoolStarved(HeadraceError, TimeoutError):
    """No batch came within the timeout. Nothing is lost: ask again. Also a TimeoutError."""

    kind = "starved"


class Forked(HeadraceError):
    """The engine was loaded before this process was forked; it does not work in the child.

    Use headrace in the child only if the parent did not, or start the child with
    the "spawn" or "forkserver" method.
    """

    kind = "forked"


class EngineLost(HeadraceError, ConnectionError):
    """The engine that HEADRACE_ENGINE names is not there, or went away. Also a ConnectionError.

    Batches that are held stay valid. Start the engine again and make a new loader:
    `load_state_dict` takes it to where the old one was.
    """

    kind = "engine_lost"


class ViewChanged(HeadraceError):
    """The ranks of the job are others, or went back: nothing is lost, and `Loader.enter` goes on.

    view, world, turn
        Number of the newest view, of its ranks, and its turn: see View.
    halted
        A rank was lost: `Loader.redo` must say from which step all go on, before
        `Loader.enter` returns.
    """

    kind = "view"
    view: int = -1
    world: int = 0
    halted: bool = False
    turn: int = -1


class Void(HeadraceError):
    """Batches that were committed do not count: another rank has their positions.

    spans
        Their positions, as (epoch, start, stop). Empty where the loader was closed without a wait.
    unknown
        Those of which nobody here can say whether they count: what was stored under its
        epoch and id may come twice.
    """

    kind = "void"
    spans: tuple[tuple[int, int, int], ...] = ()
    unknown: tuple[tuple[int, int, int], ...] = ()


class JobWaiting(HeadraceError, TimeoutError):
    """Nothing came from the job within the timeout; the message has the reason, if it gives one. Nothing is lost: ask again."""

    kind = "waiting"


class Cancelled(HeadraceError):
    """The call was cancelled from another thread."""

    kind = "cancelled"


_BY_KIND: dict[str, type[HeadraceError]] = {
    cls.kind: cls
    for cls in (
        Corrupt,
        Unsupported,
        NotFound,
        Shape,
        IO,
        Device,
        Closed,
        Budget,
        ConfigError,
        Bug,
        ViewChanged,
        Void,
        Cancelled,
    )
}


# The engine speaks of its own fields; these are their names in Python.
_COMPOUND = {
    "BatchSize": "batch_size",
    "CompressedBytes": "compressed_bytes",
    "DType": "dtype",
    "DecodedBytes": "decoded_bytes",
    "DeviceBytes": "device_bytes",
    "HostBytes": "host_bytes",
    "MappedBytes": "mapped_bytes",
    "NoCheck": 'check="off"',
    "OnError": "on_error",
    "PadValue": "pad_value",
}
_FIELDS = _COMPOUND | {
    "Arrays": "arrays",
    "Axes": "axes",
    "Block": "block",
    "ByShard": "by_shard",
    "Count": "count",
    "Decoder": "decoder",
    "Device": "device",
    "Extra": "extra",
    "Global": "global_batch_size",
    "Locality": "locality",
    "Lookahead": "lookahead",
    "Offset": "offset",
    "Outside": "outside",
    "Pad": "pad",
    "Reader": "reader",
    "Replicas": "replicas",
    "Readers": "readers",
    "Reuse": "reuse",
    "SMs": "sms",
    "Scale": "scale",
    "Shape": "shape",
    "Slots": "slots",
    "Stride": "stride",
    "Tail": "tail",
    "Window": "window",
    "Workers": "workers",
}


def _names(fields: Iterable[str]) -> re.Pattern[str]:
    """Matches the names as words, but not within a path, a file's name or quotes."""
    return re.compile(rf"""(?<![\w/\\"'.-])(?:(?:Fields\[\d+\]|Pipeline)\.)?({"|".join(fields)})(?![\w/\\"'-]|\.\w)""")


_FIELD, _COMPOUND_FIELD = _names(_FIELDS), _names(_COMPOUND)


def error_of(kind: str, message: str) -> HeadraceError:
    """The exception for a kind as the engine names it."""
    # Elsewhere a single word may be part of the data's own story.
    pattern = _FIELD if kind in ("config", "budget") else _COMPOUND_FIELD
    message = pattern.sub(lambda m: _FIELDS[m[1]], message)
    return _BY_KIND.get(kind, Bug)(message)
