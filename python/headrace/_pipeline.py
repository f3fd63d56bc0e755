"""The low-level form: samples are pushed, batches are popped."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from ._batch import Batch
from ._check import integer, shown, spelled_class
from ._client import AGAIN, END, OK, STEP_MS
from ._config import DEFAULT_SLOTS, Config, describe
from ._engine import Engine, Starvation, device_name, environment, patience, starved
from ._errors import ConfigError, PoolStarved
from ._feed import Arrays, Feed
from ._sample import DEFAULT_FIELD, Path, Sample, uri_of


@spelled_class
class Pipeline(Engine):
    """An engine that turns pushed samples into batches.

    >>> import headrace as hr
    >>> config = hr.Config(shape=(4, 4), batch_size=2, dtype="f32")
    >>> with hr.Pipeline(config) as p:
    ...     p.push(hr.Sample("demo.zarr", [(i, i + 4), (0, 4)]) for i in range(5))
    ...     for batch in p.batches():
    ...         print(batch.ids, batch.numpy().shape)
    (0, 1) (2, 4, 4)
    (2, 3) (2, 4, 4)
    (4,) (1, 4, 4)

    `device` is "cpu", "cuda:N", N or a GPU's UUID; None is the GPU of the local rank if there is
    one, else "cpu". `stats()` tells which it is, and why.
    `fields` names the tensors of a batch in their order; by default they are the
    fields that the config names, or one called "data". `arrays` names arrays that
    samples will come from, for all fields or field by field. Samples may name
    others, which are opened when they come. One with much larger chunks makes the
    engine start anew with cold caches: name here what you know.

    What batches look like is in `config`: help(headrace.Config) has every setting.

    Raises ConfigError for settings that cannot work, before any I/O. What is wrong
    with a sample or its data comes out of `pop`.
    """

    def __init__(
        self,
        config: Config,
        *,
        device: str | int | None = None,
        fields: Iterable[str] | None = None,
        arrays: Iterable[Path] | Mapping[str, Iterable[Path]] = (),
    ) -> None:
        if not isinstance(config, Config):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"config is {shown(config)}, must be a headrace.Config")
        names = _names(fields) if fields is not None else config.field_names() or (DEFAULT_FIELD,)
        if not names:
            raise ConfigError("fields is empty")
        pairs = [(name, uri_of(a, "arrays")) for name, paths in _by_field(arrays, names) for a in paths]
        known = Arrays(names, {}, frozenset()).with_pairs(pairs)
        what = describe(config, names) | {
            "open": "pipeline",
            "device": device_name(device),
            "arrays": known.describe(),
            "env": environment(),
        }
        super().__init__(what)
        self.config = config
        self.fields = names
        self._feed = Feed(self._library, config, names, known)

    def __enter__(self) -> Pipeline:
        self._open_handle()
        return self

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self._feed.count} samples pushed"
        return f"<headrace.Pipeline {', '.join(self.fields)} batch_size {self.config.batch_size} on {self.device}: {state}>"

    @property
    def device(self) -> str:
        """Where batches are made: "cpu" or "cuda:N"."""
        return str(self._about["device"])

    @property
    def pending(self) -> bool:
        """Whether samples that were pushed wait for room in the engine."""
        return self._feed.pending

    def push(self, samples: Iterable[Sample] | Sample) -> None:
        """Adds samples. They are taken from the iterable as batches are popped, so it may be endless.

        Several pushes follow one another.
        """
        handle = self._open_handle()
        if isinstance(samples, str) or not isinstance(samples, (Sample, Iterable)):  # pyright: ignore
            raise TypeError(f"samples is {shown(samples)}, must be a headrace.Sample or an iterable of them")
        self._feed.add(iter((samples,) if isinstance(samples, Sample) else samples))
        self._feed.run(handle, self._ask)

    def finish(self) -> None:
        """Says that what was pushed is all for now: the last batch may be short, then `pop` raises EOFError once."""
        handle = self._open_handle()
        self._feed.add(None)
        self._feed.run(handle, self._ask)

    def discard(self) -> None:
        """Drops everything that was pushed and not popped. Caches stay."""
        self._open_handle()
        self._feed.clear()
        self._ask("discard")

    def pop(self, timeout: float | None = 30.0) -> Batch:
        """The next batch, in the order of the samples.

        Raises PoolStarved after `timeout` seconds without one (None waits for ever),
        Closed if the pipeline is closed meanwhile, EOFError at a `finish`, and the
        error of a bad sample in place of its batch; the pipeline goes on after that.
        """
        return self._pop(timeout, None)

    def _pop(self, timeout: float | None, starvation: Starvation | None) -> Batch:
        room = self._library.room(len(self.fields), self.config.batch_size)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            handle = self._open_handle()
            self._feed.run(handle, self._ask)
            left = STEP_MS if deadline is None else max(0, min(STEP_MS, round((deadline - time.monotonic()) * 1e3)))
            status = self._library.next(handle, room, left)
            if status == OK:
                return Batch(self._library, room, self.fields)
            if status == END:
                raise EOFError("everything that was pushed before finish() has been popped")
            if deadline is not None and time.monotonic() >= deadline:
                held, slots = self.stats()["batches_held"], self.config.slots or DEFAULT_SLOTS
                if held >= slots:
                    raise PoolStarved(f"no batch within {timeout} s: {starved(held, slots)}")
                raise PoolStarved(
                    f"no batch within {timeout} s: {self._feed.count} samples were pushed, "
                    f"{held} batches of {slots} slots are held"
                )
            if starvation is not None and status == AGAIN:
                starvation.check(self.stats()["batches_held"])

    def stats(self) -> dict[str, Any]:
        """What the engine has done so far: counters, and `stages` in the order of the data.

        On a GPU `chunks_on_host` counts the chunks that the host decoded for it, and
        `chunks_refused` those that the GPU's decoders refused: odd ones, or broken.
        """
        return self._ask("stats")

    def batches(self, n: int | None = None, *, timeout: float | None = 30.0) -> Iterator[Batch]:
        """The next n batches; None: all of what was pushed, the last one short if need be.

        Raises PoolStarved if for `timeout` seconds (None is for ever) every slot has
        been a batch that is still held. Slow storage and samples are waited for.
        """
        most, slots = patience(timeout), self.config.slots or DEFAULT_SLOTS
        if n is not None:
            for _ in range(integer("n", n, 0)):
                yield self._pop(None, Starvation(slots, most))
            return
        self.finish()
        while True:
            try:
                batch = self._pop(None, Starvation(slots, most))
            except EOFError:
                return
            yield batch


def _names(fields: Any) -> tuple[str, ...]:
    if isinstance(fields, (str, bytes)) or not isinstance(fields, Iterable):
        raise ConfigError(f"fields is {shown(fields)}, must be a list of names")
    names = tuple(cast("Iterable[Any]", fields))
    for name in names:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"fields: {name!r} is no name of a field")
    return names


def _by_field(arrays: Iterable[Path] | Mapping[str, Iterable[Path]], names: tuple[str, ...]) -> list[tuple[str, list[Path]]]:
    if isinstance(arrays, (str, os.PathLike)):
        raise ConfigError(f"arrays is {arrays!r}, must be a list of arrays")
    if not isinstance(arrays, Mapping):
        if not isinstance(arrays, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"arrays is {shown(arrays)}, must be a list of arrays")
        paths = list(arrays)
        return [(name, paths) for name in names]
    by_field = cast("Mapping[str, Iterable[Path]]", arrays)
    unknown = set(by_field) - set(names)
    if unknown:
        raise ConfigError(f"arrays names the field {sorted(unknown)[0]!r}; the fields are {list(names)}")
    return [(name, list(paths)) for name, paths in by_field.items()]
