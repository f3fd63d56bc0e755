"""Write what inflate.cc decodes: streams of zlib.

    inflate.py sets DIR LEVEL...   of the plain bytes of each set of zstd.py in DIR: mask50-zlib1.bin and so on
    inflate.py cases FILE [most]   a few thousand chunks of all sizes, kinds and settings: zlib, gzip, and blosc
                                   if numcodecs is there; none of more bytes than most

A set is u32 n, u32 bytes of each stream, the streams: the plain bytes stay in zstd.py's. Cases are u32 n, then for each
u32 bytes of the chunk, u32 bytes decoded, u32 method and 256 * typesize, the chunk, the bytes.
Needs numpy and zstd.py beside it.
"""

import gzip
import struct
import sys
import zlib
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import zstd as sets

try:
    from numcodecs import Blosc
except ImportError:
    Blosc = None

CHUNK_BYTES = 256 << 10
ZLIB, GZIP, BLOSC_ZLIB = 7, 8, 9  # as in cuda/kernels/abi.h


def encoded(job: tuple[str, int, int, int]) -> list[bytes]:
    path, level, at, count = job
    with open(path, "rb") as f:
        f.seek(at)
        return [zlib.compress(f.read(CHUNK_BYTES), level) for _ in range(count)]


def write_sets(folder: str, levels: list[int]) -> None:
    some = 16
    with Pool() as pool:
        for name in sets.SETS:
            path = Path(folder) / f"{name}.bin"
            n = struct.unpack("<I", path.open("rb").read(4))[0]
            plain = path.stat().st_size - n * CHUNK_BYTES
            for level in levels:
                jobs = [(str(path), level, plain + i * CHUNK_BYTES, min(some, n - i)) for i in range(0, n, some)]
                streams = [s for part in pool.map(encoded, jobs, 1) for s in part]
                with open(Path(folder) / f"{name}-zlib{level}.bin", "wb") as out:
                    out.write(struct.pack("<I", n) + b"".join(struct.pack("<I", len(s)) for s in streams) + b"".join(streams))


def deflated(
    data: bytes, level: int, wbits: int, memory: int, strategy: int, flush: int | None = None, piece: int = 0
) -> bytes:
    c = zlib.compressobj(level, zlib.DEFLATED, wbits, memory, strategy)
    if flush is None:
        return c.compress(data) + c.flush()
    return b"".join(c.compress(data[i : i + piece]) + c.flush(flush) for i in range(0, len(data), piece)) + c.flush()


def shuffled(data: bytes, typesize: int) -> bytes:
    return np.frombuffer(data, np.uint8).reshape(-1, typesize).T.tobytes()


def encodings(data: bytes, r: np.random.Generator) -> Iterator[tuple[int, int, bytes]]:
    level = int(r.integers(1, 10))
    yield (
        ZLIB,
        0,
        deflated(data, int(r.integers(0, 10)), int(r.integers(9, 16)), int(r.integers(1, 10)), zlib.Z_DEFAULT_STRATEGY),
    )
    strategy = int(r.choice([zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED, zlib.Z_FILTERED]))
    yield ZLIB, 0, deflated(data, level, 15, 8, strategy)
    flush = int(r.choice([1, zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_BLOCK]))
    yield GZIP, 0, deflated(data, level, 31, 8, zlib.Z_DEFAULT_STRATEGY, flush, max(1, len(data) // int(r.integers(2, 20))))
    half = len(data) // 3
    yield GZIP, 0, gzip.compress(data[:half], level) + gzip.compress(data[half:], 1) + bytes(int(r.integers(0, 3)))
    if len(data) % 4 == 0:
        typesize = int(r.choice([2, 4]))
        yield ZLIB, typesize, zlib.compress(shuffled(data, typesize), level)
    if Blosc and data:
        encoder = Blosc("zlib", level, int(r.integers(0, 3)), int(r.choice([0, 0, 1024, 8192])))
        typesize = int(r.choice([t for t in (1, 2, 4, 8) if len(data) % t == 0]))
        yield BLOSC_ZLIB, 0, bytes(encoder.encode(np.frombuffer(data, f"u{typesize}")))


def sized(n: int) -> tuple[int, bytes]:
    r = np.random.default_rng(n)
    out, count = b"", 0
    for data in sets.kinds(n, r):
        for method, typesize, chunk in encodings(data, r):
            out += struct.pack("<III", len(chunk), len(data), method | typesize << 8) + chunk + data
            count += 1
    return count, out


def write_cases(path: str, most: int) -> None:
    sizes = [
        1,
        2,
        3,
        5,
        8,
        20,
        63,
        65,
        255,
        258,
        700,
        1024,
        4096,
        4111,
        9999,
        20_000,
        65_536,
        131_073,
        262_144,
        300_001,
        1 << 20,
    ]
    sizes = [n for n in sizes if n <= most]
    with Pool() as pool:
        parts = pool.map(sized, sizes, 1)
    Path(path).write_bytes(struct.pack("<I", sum(n for n, _ in parts)) + b"".join(part for _, part in parts))


if __name__ == "__main__":
    if sys.argv[1] == "sets":
        write_sets(sys.argv[2], [int(level) for level in sys.argv[3:]])
    else:
        write_cases(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1 << 30)
