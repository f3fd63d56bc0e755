"""Writes the data sets of compare.py: arrays of 512^3 uint16 that no reader under test has encoded.

The geometry is that of damacy's default benchmark: chunks of 32x64x64 in shards
of 256x256x512, zstd 3 by libzstd, and the same chunks as single files of v2
blosc-lz4 with shuffle by c-blosc.
"""

import itertools
import json
import multiprocessing
import shutil
import struct
from pathlib import Path

import crc32c
import numcodecs.blosc
import numpy as np
import zstandard

EDGE = 512
CHUNK = (32, 64, 64)
SHARD = (256, 256, 512)
SEED = 42
KINDS = {"mask50": "mask50", "lm": "lm", "blosc": "lm"}


def prepare(root: Path, kind: str, count: int) -> list[Path]:
    """The arrays of one data set; they are made if they are not there."""
    paths = [root / f"{kind}-{EDGE}" / f"{i:03d}.zarr" for i in range(count)]
    missing = [(path, kind, SEED + i) for i, path in enumerate(paths) if not (path / "done").exists()]
    if missing:
        with multiprocessing.get_context("spawn").Pool(min(2, len(missing))) as pool:
            pool.starmap(write, missing)
    return paths


def write(path: Path, kind: str, seed: int) -> None:
    """Writes one array; the file `done` comes last."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    rows = SHARD[0]
    for z in range(0, EDGE, rows):
        slab = field(KINDS[kind], seed, z, rows)
        if kind == "blosc":
            write_chunks(path, slab, z // CHUNK[0])
        else:
            write_shards(path, slab, z // rows)
    (path / (".zarray" if kind == "blosc" else "zarr.json")).write_text(json.dumps(metadata(kind)))
    (path / "done").touch()


def field(kind: str, seed: int, z: int, rows: int) -> np.ndarray:
    """Rows z to z+rows of a volume."""
    rng = np.random.default_rng([seed, z])
    shape = (rows, EDGE, EDGE)
    if kind == "mask50":
        return rng.integers(0, 65536, shape, np.uint16) * (rng.integers(0, 2, shape, np.uint16))
    # Light microscopy: a background of 100, soft blobs, shot noise.
    light = np.full(shape, 100, np.float32)
    blobs = np.random.default_rng(seed)
    axes = [np.arange(z, z + rows, dtype=np.float32), *[np.arange(EDGE, dtype=np.float32)] * 2]
    for _ in range(40):
        centre, width, height = blobs.uniform(0, EDGE, 3), blobs.uniform(6, 30), blobs.uniform(50, 600)
        bells = [np.exp(-((a - c) ** 2) / (2 * width**2)) for a, c in zip(axes, centre, strict=True)]
        near = tuple(slice(*np.flatnonzero(b > 1e-6)[[0, -1]]) if (b > 1e-6).any() else slice(0, 0) for b in bells)
        bz, by, bx = (b[s] for b, s in zip(bells, near, strict=True))
        light[near] += np.float32(height) * bz[:, None, None] * (by[:, None] * bx[None, :])
    for plane in light:  # plane by plane: the noise needs no second volume
        plane += rng.standard_normal(plane.shape, np.float32) * np.sqrt(plane) * np.float32(0.6)
    return np.clip(light, 0, 65535).astype(np.uint16)


def blocks(a: np.ndarray, block: tuple[int, ...]):
    """Grid coordinates and blocks of an array, in C order."""
    for at in itertools.product(*(range(n // b) for n, b in zip(a.shape, block, strict=True))):
        yield at, a[tuple(slice(i * b, (i + 1) * b) for i, b in zip(at, block, strict=True))]


def write_shards(path: Path, slab: np.ndarray, row: int) -> None:
    compressor = zstandard.ZstdCompressor(level=3)
    for at, shard in blocks(slab, (slab.shape[0], *SHARD[1:])):
        entries, parts, offset = [], [], 0
        for _, chunk in blocks(shard, CHUNK):
            parts.append(compressor.compress(np.ascontiguousarray(chunk)))
            entries.append(struct.pack("<QQ", offset, len(parts[-1])))
            offset += len(parts[-1])
        index = b"".join(entries)
        put(path / "c" / str(row) / str(at[1]) / str(at[2]), [*parts, index, struct.pack("<I", crc32c.crc32c(index))])


def write_chunks(path: Path, slab: np.ndarray, row: int) -> None:
    for at, chunk in blocks(slab, CHUNK):
        frame = numcodecs.blosc.compress(np.ascontiguousarray(chunk), b"lz4", 5, numcodecs.blosc.SHUFFLE)
        put(path / str(row + at[0]) / str(at[1]) / str(at[2]), [frame])


def put(path: Path, parts: list[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as f:
        f.writelines(parts)


def metadata(kind: str) -> dict:
    shape = [EDGE] * 3
    if kind == "blosc":
        blosc = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
        common = {"compressor": blosc, "filters": None, "fill_value": 0, "order": "C", "dimension_separator": "/"}
        return {"zarr_format": 2, "shape": shape, "chunks": CHUNK, "dtype": "<u2"} | common
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    sharding = {
        "chunk_shape": CHUNK,
        "codecs": [little, {"name": "zstd", "configuration": {"level": 3, "checksum": False}}],
        "index_codecs": [little, {"name": "crc32c"}],
        "index_location": "end",
    }
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": SHARD}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
        "attributes": {},
    }
