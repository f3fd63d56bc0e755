"""What was pushed into a pipeline and did not fit into the engine yet."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ._client import AGAIN, Client
from ._config import Config, of_field
from ._errors import HeadraceError, Shape
from ._sample import Sample

Ask = Callable[..., object]


class Arrays:
    """The arrays that the engine knows, by number, and those of each field. Never changed."""

    def __init__(self, fields: Sequence[str], numbers: dict[str, int], pairs: frozenset[tuple[str, str]]) -> None:
        self.fields = fields
        self.numbers = numbers
        self.pairs = pairs

    def with_pairs(self, pairs: Iterable[tuple[str, str]]) -> Arrays:
        """With more pairs of field and URI; the same object if there is nothing new."""
        new = list(dict.fromkeys(pair for pair in pairs if pair not in self.pairs))
        if not new:
            return self
        numbers = dict(self.numbers)
        for _, uri in new:
            numbers.setdefault(uri, len(numbers))
        return Arrays(self.fields, numbers, self.pairs | frozenset(new))

    def describe(self) -> dict[str, Any]:
        """As the engine reads it."""
        feeds = [sorted(self.numbers[uri] for field, uri in self.pairs if field == name) for name in self.fields]
        return {"uris": list(self.numbers), "feeds": feeds}


class Feed:
    """Takes samples from iterators, one at a time, and gives them to the engine a batch at a time.

    `handle` and `ask` are the pipeline's: its handle, and its requests.
    """

    def __init__(self, library: Client, config: Config, fields: Sequence[str], arrays: Arrays) -> None:
        self._library = library
        self._fields = tuple(fields)
        self._shapes = {name: list(of_field(config.shape, name, ())) for name in fields}
        self._size = config.batch_size
        self._lock = threading.RLock()  # a generator may push to its own pipeline
        self._sources: deque[Iterator[Sample] | None] = deque()  # None stands for finish
        self._batch: list[Sample] = []
        self._first = 0  # id of the batch's first sample, where it has none
        self._arrays = arrays

    @property
    def pending(self) -> bool:
        """Whether there is anything that the engine does not have."""
        return bool(self._sources or self._batch)

    @property
    def count(self) -> int:
        """Samples taken from the iterators so far."""
        return self._first + len(self._batch)

    def add(self, source: Iterator[Sample] | None) -> None:
        """Adds samples, or the finish, after what is there."""
        with self._lock:
            self._sources.append(source)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._sources.clear()
            self._batch.clear()

    def run(self, handle: int, ask: Ask) -> None:
        """Gives the engine batches until it has no room, or nothing is left."""
        with self._lock:
            while self._step(handle, ask):
                pass

    def _step(self, handle: int, ask: Ask) -> bool:
        """One sample, batch or finish; False if there is nothing to do now."""
        if len(self._batch) == self._size:
            return self._give(handle, ask)
        if not self._sources:
            return False
        source = self._sources[0]
        if source is not None:
            self._pull(source)
        elif self._batch:
            return self._give(handle, ask)
        else:
            ask("finish")
            self._sources.popleft()
        return True

    def _pull(self, source: Iterator[Sample]) -> None:
        """Takes a sample from an iterator, which is dropped at its end and when it fails."""
        try:
            sample = next(source)
        except StopIteration:
            self._drop(source)
            return
        except Exception:
            self._drop(source)
            raise
        self._check(sample)
        self._batch.append(sample)

    def _drop(self, source: Iterator[Sample]) -> None:
        # It need not be the first any more: it may have pushed or discarded itself.
        for i, other in enumerate(self._sources):
            if other is source:
                del self._sources[i]
                return

    def _check(self, sample: Sample) -> None:
        if not isinstance(sample, Sample):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a headrace.Sample is pushed, not {sample!r}")
        if sample.fields != self._fields and set(sample.fields) != set(self._fields):
            raise Shape(f"sample {self.count} has the fields {list(sample.fields)}, the pipeline {list(self._fields)}")
        for name, _, box in sample.crops:
            if [stop - start for start, stop in box] != self._shapes[name]:
                raise Shape(
                    f"sample {self.count}, field {name!r}: the box {box} has the extents "
                    f"{[stop - start for start, stop in box]}, the config's shape is {self._shapes[name]}"
                )

    def _give(self, handle: int, ask: Ask) -> bool:
        """Pushes the batch; False if there is no room. A batch that is refused is gone."""
        try:
            self._open_arrays(ask)
            words = self._words()
            status = self._library.push(handle, words, len(self._batch))
        except HeadraceError:
            self._done()
            raise
        if status == AGAIN:
            return False
        self._done()
        return True

    def _done(self) -> None:
        self._first += len(self._batch)
        self._batch.clear()

    def _open_arrays(self, ask: Ask) -> None:
        """Makes the engine open the arrays that it does not know."""
        more = self._arrays.with_pairs((name, uri) for sample in self._batch for name, uri, _ in sample.crops)
        if more is not self._arrays:
            ask("grow", more.describe())
            self._arrays = more

    def _words(self) -> list[int]:
        """The batch as numbers; see hr_push in cabi/abi.go."""
        words: list[int] = []
        numbers = self._arrays.numbers
        for number, sample in enumerate(self._batch, self._first):
            words.append(number if sample.id is None else sample.id)
            crops = sample.crops
            if sample.fields != self._fields:
                crops = sorted(crops, key=lambda crop: self._fields.index(crop[0]))
            flip = sample.flip_mask
            for _, uri, box in crops:
                words += (numbers[uri], flip, len(box))
                for span in box:
                    words += span
        return words
