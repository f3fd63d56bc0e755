"""A plain writer of chunks and shards, for what the libraries cannot write.

It follows the specification step by step and takes every freedom that it gives:
gaps and any order inside a shard, shared ranges, garbage beyond the edge.
"""

import itertools
import math
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import crc32c
import numpy as np

import oracles

Encode = Callable[[bytes], bytes]
EMPTY = 2**64 - 1


def grid(shape: list[int], chunk: list[int]) -> Iterator[tuple[int, ...]]:
    """Grid coordinates of the chunks that hold a part of the array, in C order."""
    return itertools.product(*(range(math.ceil(n / c)) for n, c in zip(shape, chunk, strict=True)))


def block(data: np.ndarray, chunk: list[int], at: tuple[int, ...], garbage: np.ndarray | None = None) -> np.ndarray:
    """The chunk at a grid coordinate, full size; beyond the edge lies garbage."""
    full = np.zeros(chunk, data.dtype) if garbage is None else garbage.astype(data.dtype).copy()
    part = data[tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, chunk, strict=True))]
    full[tuple(slice(0, n) for n in part.shape)] = part
    return full


def v3_metadata(data: np.ndarray, chunk: list[int], codecs: list, **more: object) -> dict:
    name = {"bool": "bool"}.get(data.dtype.name, data.dtype.name)
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(data.shape),
        "data_type": name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": False if name == "bool" else 0,
        "codecs": codecs,
    } | more


def v2_metadata(data: np.ndarray, chunk: list[int], **more: object) -> dict:
    return {
        "zarr_format": 2,
        "shape": list(data.shape),
        "chunks": chunk,
        "dtype": data.dtype.str,
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": None,
    } | more


def put(path: Path, key: str, body: bytes) -> None:
    (path / key).parent.mkdir(parents=True, exist_ok=True)
    (path / key).write_bytes(body)


def v3_key(at: tuple[int, ...]) -> str:
    return "/".join(["c", *map(str, at)])


def v2_key(at: tuple[int, ...], separator: str = ".") -> str:
    return separator.join(map(str, at)) or "0"


def write_v3(path: Path, metadata: dict, data: np.ndarray, encode: Encode, garbage: np.ndarray | None = None) -> None:
    """Writes every chunk as encode(its bytes)."""
    oracles.lay(path, metadata)
    chunk = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    for at in grid(list(data.shape), chunk):
        put(path, v3_key(at), encode(block(data, chunk, at, garbage).tobytes()))


def write_v2(path: Path, metadata: dict, data: np.ndarray, encode: Encode) -> None:
    """Writes every chunk as encode(its bytes in the order of the metadata)."""
    oracles.lay(path, metadata)
    chunk = metadata["chunks"]
    for at in grid(list(data.shape), chunk):
        raw = block(data, chunk, at).astype(np.dtype(metadata["dtype"])).tobytes(order=metadata["order"])
        put(path, v2_key(at, metadata.get("dimension_separator", ".")), encode(raw))


def shard(
    parts: list[bytes | None],
    *,
    start: bool = False,
    big: bool = False,
    checksum: bool = True,
    order: list[int] | None = None,
    gap: int = 0,
    share: bool = False,
) -> bytes:
    """A shard of encoded inner chunks in C order; None is a chunk that is not stored.

    ``order`` is the order in which they lie in the file, ``gap`` bytes of garbage
    go before each, ``share`` stores equal chunks once.
    """
    size = 16 * len(parts) + 4 * checksum
    at = size if start else 0
    entries = [(EMPTY, EMPTY)] * len(parts)
    stored: dict[bytes, tuple[int, int]] = {}
    body = b""
    for i in order or range(len(parts)):
        part = parts[i]
        if part is None:
            continue
        if share and part in stored:
            entries[i] = stored[part]
            continue
        body += b"\xa5" * gap
        entries[i] = stored[part] = (at + len(body), len(part))
        body += part
    return glue(body, entries, start=start, big=big, checksum=checksum)


def glue(
    body: bytes, entries: list[tuple[int, int]], *, start: bool = False, big: bool = False, checksum: bool = True
) -> bytes:
    """Puts an index of (offset, nbytes) to the body of a shard."""
    index = b"".join(struct.pack(">QQ" if big else "<QQ", *e) for e in entries)
    if checksum:
        index += struct.pack("<I", crc32c.crc32c(index))
    return index + body if start else body + index


def sharding(inner: list[int], codecs: list, *, start: bool = False, big: bool = False, checksum: bool = True) -> dict:
    """The codec that matches the same arguments of shard."""
    index_codecs: list = [{"name": "bytes", "configuration": {"endian": "big" if big else "little"}}]
    if checksum:
        index_codecs.append({"name": "crc32c"})
    configuration = {
        "chunk_shape": inner,
        "codecs": codecs,
        "index_codecs": index_codecs,
        "index_location": "start" if start else "end",
    }
    return {"name": "sharding_indexed", "configuration": configuration}


LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
