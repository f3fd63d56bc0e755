"""Random boxes of an array."""

import numpy as np

from reader import Box


def draw(shape: list[int], chunk: list[int], rng: np.random.Generator, count: int) -> list[Box]:
    """Boxes inside the array: whole axes, single elements, chunk edges and anything between."""
    return [tuple(span(n, c, rng) for n, c in zip(shape, chunk, strict=True)) for _ in range(count)]


def span(extent: int, chunk: int, rng: np.random.Generator) -> tuple[int, int]:
    if extent == 0:
        return 0, 0
    mode = rng.integers(0, 5)
    if mode == 0:
        return 0, extent
    if mode == 1:
        at = int(rng.integers(extent))
        return at, at + 1
    if mode == 2:  # one chunk, to the edge of the array
        at = int(rng.integers((extent + chunk - 1) // chunk)) * chunk
        return at, min(extent, at + chunk)
    start = int(rng.integers(extent))
    return start, int(rng.integers(start, extent)) + 1
