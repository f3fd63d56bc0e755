"""Random pipelines over random arrays: every batch against numpy, whatever the settings.

Arrays of different format, codec, shape and type lie in one batch; crops reach
outside, are flipped, permuted, scaled and converted. Readers, slots, look-ahead
and caches are drawn at random: they must not change a byte.
"""

from dataclasses import dataclass

import numpy as np
import pytest

import documents
import oracles
from conftest import ROUNDS, SEED
from test_conversion import NUMPY, OUTPUTS, SOURCES, convert, equal_up_to_nan

RUNS = 50 * ROUNDS


@dataclass
class Field:
    """What one field of the pipeline does to a crop."""

    arrays: list
    shape: list[int]
    dtype: str
    axes: list[int]
    pad: str
    pad_value: float
    scale: float | None
    offset: float | None


def draw_arrays(rank: int, count: int, folder, rng: np.random.Generator) -> list:
    """(path, values) of arrays of one rank, of any other kind."""
    found = []
    while len(found) < count:
        i = int(rng.integers(100_000))
        make = [documents.v2, documents.v3][int(rng.integers(2))]
        document = make(i, np.random.default_rng([SEED, i]))
        if len(document.shape) != rank or 0 in document.shape or document.dtype not in SOURCES:
            continue
        path = folder / document.name
        oracles.write(document, path, rng)
        found.append((path, next(iter(oracles.readings(document, path).values()))))
    return found


def draw_field(arrays: list, rank: int, rng: np.random.Generator) -> Field:
    pad = ["error", "fill", "edge", "reflect"][int(rng.integers(4))]
    room = [min(a.shape[axis] for _, a in arrays) for axis in range(rank)]
    shape = [int(rng.integers(1, n + 1 if pad == "error" else n + 4)) for n in room]
    scaled = rng.random() < 0.4
    return Field(
        arrays=arrays,
        shape=shape,
        dtype=OUTPUTS[int(rng.integers(len(OUTPUTS)))],
        axes=[int(a) for a in rng.permutation(rank)],
        pad=pad,
        pad_value=float(rng.integers(0, 100)),
        scale=float(rng.normal()) if scaled else None,
        offset=float(rng.normal()) if scaled else None,
    )


def draw_box(field: Field, extents: tuple[int, ...], rng: np.random.Generator) -> list[tuple[int, int]]:
    box = []
    for n, extent in zip(field.shape, extents, strict=True):
        slack = 0 if field.pad == "error" else 3
        start = int(rng.integers(-slack, extent - n + 1 + slack)) if extent - n + slack >= -slack else -slack
        box.append((start, start + n))
    return box


def indices(span: tuple[int, int], extent: int, pad: str) -> np.ndarray:
    """Where each element of an axis of the crop comes from; numpy's rules of padding."""
    at = np.arange(*span)
    if pad == "reflect" and extent > 1:
        at = np.abs(at) % (2 * (extent - 1))
        return np.where(at < extent, at, 2 * (extent - 1) - at)
    return at.clip(0, extent - 1)


def reference(field: Field, values: np.ndarray, box: list, flip: list[int]) -> np.ndarray:
    """The crop by numpy: gather, scale, convert, pad, flip, permute."""
    at = [indices(span, n, field.pad) for span, n in zip(box, values.shape, strict=True)]
    part = values[np.ix_(*at)]
    if field.scale is not None:
        with np.errstate(all="ignore"):
            part = part.astype(np.float64) * field.scale
            part = part + field.offset
    flat = convert(part.reshape(-1), field.dtype).reshape(part.shape)
    if field.pad == "fill":
        for axis, (span, n) in enumerate(zip(box, values.shape, strict=True)):
            outside = [slice(None)] * len(box)
            outside[axis] = (np.arange(*span) < 0) | (np.arange(*span) >= n)
            flat[tuple(outside)] = convert(np.array([field.pad_value]), field.dtype)[0]
    return np.flip(flat, flip).transpose(field.axes)


def draw_settings(rng: np.random.Generator, batch: int) -> dict:
    """Settings that may change speed and nothing else."""
    return {
        "reuse": ["none", "batch", "window", "cache"][int(rng.integers(4))],
        "lookahead": batch * int(rng.integers(1, 6)),
        "slots": int(rng.integers(2, 6)),
        "readers": int(rng.integers(1, 5)),
        "workers": int(rng.integers(1, 5)),
        "decoded_bytes": int(rng.choice([1 << 16, 1 << 20, 1 << 24])),
    }


@pytest.mark.parametrize("run", range(RUNS))
def test_batches(run: int, tmp_path, package, counts) -> None:
    rng = np.random.default_rng([SEED, 7, run])
    rank = int(rng.integers(1, 5))
    pairs = int(rng.integers(1, 5))
    fields = {name: draw_field(draw_arrays(rank, pairs, tmp_path / name, rng), rank, rng) for name in ("image", "labels")}
    batch, count = int(rng.integers(1, 6)), int(rng.integers(1, 24))
    settings = draw_settings(rng, batch)
    per_field = {key: {n: getattr(f, key) for n, f in fields.items()} for key in ("shape", "dtype", "axes", "pad", "pad_value")}
    per_field |= {key: {n: getattr(f, key) for n, f in fields.items()} for key in ("scale", "offset")}
    config = package.Config(batch_size=batch, **per_field, **settings)

    samples, wanted = [], []
    for _ in range(count):
        k = int(rng.integers(pairs))
        flip = [a for a in range(rank) if rng.random() < 0.3]
        boxes = {n: draw_box(f, f.arrays[k][1].shape, rng) for n, f in fields.items()}
        samples.append(package.Sample({n: f.arrays[k][0] for n, f in fields.items()}, boxes, flip=flip))
        wanted.append({n: reference(f, f.arrays[k][1], boxes[n], flip) for n, f in fields.items()})

    done = 0
    with package.Pipeline(config, device="cpu", fields=list(fields)) as pipeline:
        pipeline.push(samples)
        for got in pipeline.batches():
            for j in range(len(got.ids)):
                for name, field in fields.items():
                    tensor = got[name].numpy()[j].view(NUMPY[field.dtype])
                    equal_up_to_nan(tensor, wanted[done + j][name], f"sample {done + j}, {name}, {field.dtype}, {settings}")
            done += len(got.ids)
    assert done == count
    counts["boxes"] += 2 * count
