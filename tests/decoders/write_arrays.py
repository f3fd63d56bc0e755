"""Chunks of arrays that zarr-python, tensorstore and zarrs wrote, taken out of their files."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import tensorstore
import zarr

from record import SUMMED, Method, Record
from write_zstd import plain

warnings.filterwarnings("ignore")

SHAPE, CHUNK, INNER = (20, 21, 33), (8, 12, 33), (4, 6, 11)
KINDS = {
    "microscopy": "<u2",
    "mask50": "<u2",
    "electron": "|u1",
    "weather": "<f4",
    "labels32": "<i4",
    "labels64": "<i8",
    "constant": "|u1",
}
BLOSC = {"zstd": Method.BLOSC_ZSTD, "zlib": Method.BLOSC_ZLIB}


def blosc(cname: str, level: int, shuffle: int, typesize: int) -> dict:
    name = ["noshuffle", "shuffle", "bitshuffle"][shuffle]
    how = {"cname": cname, "clevel": level, "shuffle": name, "typesize": typesize, "blocksize": 0}
    return {"name": "blosc", "configuration": how}


def codecs(typesize: int) -> Iterator[tuple[Method, dict]]:
    for level, checksum in product((1, 3, 12), (False, True)):
        yield Method.ZSTD, {"name": "zstd", "configuration": {"level": level, "checksum": checksum}}
    yield Method.GZIP, {"name": "gzip", "configuration": {"level": 6}}
    for cname, shuffle in product(("lz4", "lz4hc", "blosclz", "zstd", "zlib"), range(3)):
        yield BLOSC.get(cname, Method.BLOSC), blosc(cname, 5, shuffle, typesize)


def v2_codecs() -> Iterator[tuple[Method, dict]]:
    yield Method.LZ4, {"id": "lz4", "acceleration": 1}
    yield Method.ZLIB, {"id": "zlib", "level": 1}
    yield Method.ZSTD, {"id": "zstd", "level": 0}
    yield Method.GZIP, {"id": "gzip", "level": 1}
    for cname, shuffle in product(("lz4", "zstd"), (-1, 0, 1, 2)):
        how = {"id": "blosc", "cname": cname, "clevel": 5, "shuffle": shuffle, "blocksize": 0}
        yield BLOSC.get(cname, Method.BLOSC), how


def array(kind: str) -> np.ndarray:
    dtype = np.dtype(KINDS[kind])
    n = int(np.prod(SHAPE))
    return np.frombuffer(plain(kind, n * dtype.itemsize), dtype).reshape(SHAPE)


def common(data: np.ndarray, chunk: tuple[int, ...]) -> dict:
    return {"shape": list(data.shape), "zarr_format": 3, "node_type": "array", "fill_value": 0}


def v3(data: np.ndarray, codec: dict, sharded: bool) -> dict:
    name = data.dtype.name
    chain = [{"name": "bytes", "configuration": {"endian": "little"}}, codec]
    if sharded:
        index = [chain[0], {"name": "crc32c"}]
        inner = {"chunk_shape": list(INNER), "codecs": [*chain, {"name": "crc32c"}], "index_codecs": index}
        chain = [{"name": "sharding_indexed", "configuration": {**inner, "index_location": "end"}}]
    grid = {"name": "regular", "configuration": {"chunk_shape": list(CHUNK)}}
    key = {"name": "default", "configuration": {"separator": "/"}}
    return {**common(data, CHUNK), "data_type": name, "chunk_grid": grid, "chunk_key_encoding": key, "codecs": chain}


def v2(data: np.ndarray, codec: dict) -> dict:
    rest = {"fill_value": 0, "order": "C", "filters": None, "dimension_separator": "/", "compressor": codec}
    return {"zarr_format": 2, "shape": list(data.shape), "chunks": list(CHUNK), "dtype": data.dtype.str, **rest}


def write_zarr(path: Path, data: np.ndarray, version: int) -> None:
    zarr.open_array(str(path), mode="r+", zarr_format=version)[...] = data


def write_zarrs(path: Path, data: np.ndarray, version: int) -> None:
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        write_zarr(path, data, version)


def write_tensorstore(path: Path, data: np.ndarray, version: int) -> None:
    driver = "zarr3" if version == 3 else "zarr"
    where = {"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/"}}
    tensorstore.open(where).result().write(data).result()


WRITERS = {"zarr-python": write_zarr, "tensorstore": write_tensorstore, "zarrs": write_zarrs}


def box(data: np.ndarray, at: tuple[int, ...], shape: tuple[int, ...]) -> bytes:
    """A chunk at an index, filled up with zeros where the array ends."""
    out = np.zeros(shape, data.dtype)
    part = data[tuple(slice(i * n, (i + 1) * n) for i, n in zip(at, shape, strict=True))]
    out[tuple(slice(n) for n in part.shape)] = part
    return out.tobytes()


def inner_chunks(shard: bytes) -> Iterator[tuple[tuple[int, ...], bytes]]:
    """Those of a shard that are there, without the CRC-32C behind each, by their index in it."""
    counts = tuple(n // k for n, k in zip(CHUNK, INNER, strict=True))
    index = np.frombuffer(shard[-4 - 16 * int(np.prod(counts)) : -4], "<u8").reshape(*counts, 2)
    for at in np.ndindex(*counts):
        offset, size = (int(v) for v in index[at])
        if offset != 2**64 - 1:
            yield at, shard[offset : offset + size - 4]


def taken(path: Path, data: np.ndarray, label: str, method: Method, sharded: bool) -> Iterator[Record]:
    for file in sorted(p for p in path.rglob("*") if p.is_file() and p.name[0].isdigit()):
        at = tuple(int(part) for part in file.relative_to(path).parts if part.isdigit())
        if not sharded:
            yield Record.of(label, method, file.read_bytes(), box(data, at, CHUNK))
            continue
        outer = np.frombuffer(box(data, at, CHUNK), data.dtype).reshape(CHUNK)
        for inside, encoded in inner_chunks(file.read_bytes()):
            yield replace(Record.of(label, method, encoded, box(outer, inside, INNER)), flags=SUMMED)


def documents(data: np.ndarray) -> Iterator[tuple[int, Method, dict, bool]]:
    for turn, (method, codec) in enumerate(codecs(data.dtype.itemsize)):
        yield 3, method, v3(data, codec, turn % 2 == 1), turn % 2 == 1
    for method, codec in v2_codecs():
        yield 2, method, v2(data, codec), False


def made(stride: int = 4) -> Iterator[Record]:
    """Every writer writes every kind, with one of so many codecs."""
    turn = 0
    for kind in KINDS:
        data = array(kind)
        for version, method, document, sharded in documents(data):
            for writer, write in WRITERS.items():
                turn += 1
                if turn % stride or (version == 2 and writer == "tensorstore" and method in (Method.LZ4, Method.GZIP)):
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder)
                    (path / ("zarr.json" if version == 3 else ".zarray")).write_text(json.dumps(document))
                    write(path, data, version)
                    # Some of its chunks, the last one, which the array fills in part, too.
                    yield from list(taken(path, data, f"{method.name.lower()} by {writer}", method, sharded))[::-3]
