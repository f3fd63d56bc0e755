"""Chunks by LZ4 (as numcodecs wraps it), zlib and gzip, shuffled ones, and plain ones."""

from __future__ import annotations

import ctypes
import gzip
import zlib
from collections.abc import Callable, Iterator
from functools import partial

import numcodecs.lz4
import numpy as np

import fields
import reference
from record import UNCHECKED, Method, Record
from write_zstd import Maker, plain

NAMES = list(fields.KINDS)
SIZES = [
    *(0, 1, 2, 4, 5, 11, 12, 13, 14, 15, 16, 17, 19, 63, 64, 65, 255, 256, 270, 271, 700, 1025, 4096, 10_000),
    *(20_000, 65_535, 65_536, 65_537, 100_000, 131_072, 262_144, 300_001),
]
_high = reference.declare("LZ4_compress_HC", reference.INT, reference.BYTES, reference.POINTER, *[reference.INT] * 3)


def lz4(data: bytes, acceleration: int) -> bytes:
    return bytes(numcodecs.lz4.compress(data, acceleration)) if data else bytes(4) + b"\0"


def lz4_high(data: bytes, level: int) -> bytes:
    room = ctypes.create_string_buffer(len(data) + len(data) // 200 + 64)
    n = _high(data, room, len(data), len(room), level)
    return len(data).to_bytes(4, "little") + room.raw[:n]


def fast(size: int, kind: str, acceleration: int) -> Record:
    data = plain(kind, size)
    return Record.of("lz4", Method.LZ4, lz4(data, acceleration), data)


def high(size: int, kind: str, level: int) -> Record:
    data = plain(kind, size)
    return Record.of("lz4 hc", Method.LZ4, lz4_high(data, level), data)


def lz4s(sizes: list[int]) -> Iterator[Maker]:
    for s, size in enumerate(sizes):
        for k, kind in enumerate(NAMES):
            for a, acceleration in enumerate([1, 2, 3, 8, 20, 100, 1000, 65_537]):
                if size < 20_000 or (a + k + s) % (4 if size < 100_000 else 11) == 0:
                    yield partial(fast, size, kind, acceleration)
            yield partial(high, size, kind, 3 + (s + k) % 10)


STRATEGIES = {
    "": zlib.Z_DEFAULT_STRATEGY,
    " filtered": zlib.Z_FILTERED,
    " huffman": zlib.Z_HUFFMAN_ONLY,
    " rle": zlib.Z_RLE,
    " fixed": zlib.Z_FIXED,
}


def deflate(data: bytes, level: int, bits: int, memory: int, strategy: str, flush: int) -> bytes:
    writer = zlib.compressobj(level, zlib.DEFLATED, bits, memory, STRATEGIES[strategy])
    if not flush:
        return writer.compress(data) + writer.flush()
    out = b""
    for i, at in enumerate(range(0, len(data), flush)):
        out += writer.compress(data[at : at + flush])
        out += writer.flush([zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_PARTIAL_FLUSH][i % 3])
    return out + writer.flush()


def deflated(size: int, kind: str, method: Method, level: int, turn: int) -> Record:
    data, strategy = plain(kind, size), list(STRATEGIES)[turn % 5 if turn % 2 else 0]
    bits = 9 + turn % 7
    flush = [0, 0, 0, 1 + size // 5, 900][turn % 5]
    out = deflate(data, level, bits + (16 if method == Method.GZIP else 0), 1 + turn % 9, strategy, flush)
    return Record.of(method.name.lower() + strategy, method, out, data)


def deflates(method: Method, sizes: list[int]) -> Iterator[Maker]:
    turn = 0
    for size in sizes:
        for kind in NAMES:
            for level in range(10):
                turn += 1
                if (size < 20_000 and (level + turn // 10) % 2 == 0) or turn % 11 == 0:
                    yield partial(deflated, size, kind, method, level, turn)


def members(seed: int) -> Record:
    """Members one after another, with every field that a header may have, and what may follow them."""
    r = np.random.default_rng(seed)
    out, whole = b"", b""
    for _ in range(int(r.integers(1, 5))):
        data = plain(NAMES[int(r.integers(0, 13))], int(r.integers(0, 3000)))
        flags = int(r.integers(0, 32))
        head = b"\x1f\x8b\x08" + bytes([flags]) + r.bytes(4) + bytes([0, 255])
        if flags & 4:
            extra = r.bytes(int(r.integers(0, 50)))
            head += len(extra).to_bytes(2, "little") + extra
        head += b"name\0" if flags & 8 else b""
        head += b"a comment\0" if flags & 16 else b""
        head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little") if flags & 2 else b""
        body = deflate(data, int(r.integers(0, 10)), -15, 8, "", 0)
        out += head + body + zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")
        whole += data
    out += [b"", b"", bytes(100), b"\x1f"][seed % 4]
    return Record.of("gzip, members", Method.GZIP, out, whole)


def wrong(i: int, flags: int) -> Record:
    """The checksum of a stream is wrong; unchecked, nobody looks at it."""
    data = plain(NAMES[i % 13], 10 + 31 * i)
    method = Method.ZLIB if i % 2 else Method.GZIP
    good = zlib.compress(data) if i % 2 else gzip.compress(data, mtime=0)
    at = len(good) - (1 if i % 2 else 5)
    label = f"{method.name.lower()}, wrong checksum"
    bad = Record.of(label + ", unchecked", method, good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :], data, flags=flags)
    return bad if flags else bad.refused(label)


def typed(i: int) -> Record:
    """Shuffled before it was encoded."""
    typesize = [2, 3, 4, 8, 16, 5][i % 6]
    data = plain(NAMES[i % 13], [1, 16, 250, 1000, 4096, 9000][i % 6] * typesize)
    apart = reference.shuffle(data, typesize)
    method, out = [
        (Method.LZ4, lambda: lz4(apart, 1)),
        (Method.ZLIB, lambda: zlib.compress(apart, i % 10)),
        (Method.GZIP, lambda: gzip.compress(apart, i % 10, mtime=0)),
    ][i // 6 % 3]
    return Record.of(f"{method.name.lower()}, shuffled", method, out(), data, typesize=typesize)


def unencoded(i: int) -> Record:
    data = plain(NAMES[i % 13], SIZES[i % 27])
    if i % 3 == 0:
        return Record.of("copy", Method.COPY, data, data)
    typesize = 1 + i % 18
    return Record.of("unshuffle", Method.UNSHUFFLE, reference.shuffle(data, typesize), data, typesize=typesize)


def others() -> Iterator[Maker]:
    for i in range(400):
        yield partial(members, i)
        yield partial(typed, i)
    for i in range(100):
        yield partial(wrong, i, 0)
        yield partial(wrong, i, UNCHECKED)
        yield partial(unencoded, 2 * i)
        yield partial(unencoded, 2 * i + 1)


def jobs(most: int) -> Iterator[tuple[str, Callable[[], Iterator[Maker]]]]:
    sizes = [size for size in SIZES if size <= most]
    for part in range(4):
        yield f"lz4-{part}", partial(lz4s, sizes[part::4])
        yield f"zlib-{part}", partial(deflates, Method.ZLIB, sizes[part::4])
        yield f"gzip-{part}", partial(deflates, Method.GZIP, sizes[part::4])
    yield "bytes-others", others
