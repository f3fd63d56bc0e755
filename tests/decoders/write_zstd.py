"""Frames by libzstd: all levels, options and shapes."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import numpy as np
import zstandard as z

import fields
import reference
from record import HOST, UNCHECKED, Method, Record

LEVELS = [-7, -5, -3, -1, *range(1, 23)]
SMALL = [0, 1, 2, 3, 5, 7, 8, 20, 63, 64, 65, 127, 128, 255, 256, 257, 700, 1023, 1024, 1025, 2000, 4096]
MEDIUM = [9999, 16384, 20_000, 32_767, 65_535, 65_537, 100_000, 131_071, 131_072, 131_073, 200_000, 262_144]
BIG = [300_001, 524_288, 1 << 20, (1 << 20) + 1, (4 << 20) - 5]
# The few that are large are of what compresses well, so that files stay small.
HUGE = [
    ("constant", 64 << 20, 1),
    ("labels64", 64 << 20, 3),
    ("period", 64 << 20, 1),
    ("labels32", 16 << 20, 9),
    ("text", 24 << 20, 5),
    ("microscopy", 8 << 20, 3),
    ("mask50", 3 << 20, -1),
]

Maker = Callable[[], Record]
plain = lru_cache(maxsize=64)(fields.make)


def frame(data: bytes, level: int, **options: bool) -> bytes:
    return z.ZstdCompressor(level=level, **options).compress(data)


def chosen(data: bytes, level: int, **parameters: int) -> bytes:
    """A frame by an encoder whose single parameters are set."""
    how = z.ZstdCompressionParameters.from_level(level, source_size=len(data), **parameters)
    return z.ZstdCompressor(compression_params=how).compress(data)


def ordinary(size: int, kind: str, level: int, turn: int) -> Record:
    checksum, content = turn % 3 == 0, turn % 5 != 0
    label = "zstd" + (", checksum" if checksum else "") + ("" if content else ", no content size")
    data = plain(kind, size)
    return Record.of(label, Method.ZSTD, frame(data, level, write_checksum=checksum, write_content_size=content), data)


def levels(size: int, stride: int, kinds: list[str]) -> Iterator[Maker]:
    """Each kind at every stride-th level, so that in turn each size meets each level."""
    for k, kind in enumerate(kinds):
        for i, level in enumerate(LEVELS):
            if (i + k + size) % stride == 0:
                yield partial(ordinary, size, kind, level, i + 3 * k)


def flushed(size: int, kind: str, seed: int) -> Record:
    """Blocks that end where the writer flushes: without content size; tables are used again."""
    data, r = plain(kind, size), np.random.default_rng(seed)
    writer = z.ZstdCompressor(level=int(r.choice([1, 3, 5, 9, 15])), write_checksum=bool(seed % 2)).compressobj()
    out, at = b"", 0
    while at < size:
        n = int(r.choice([1, 100, 3000, 20_000, 70_000]))
        out += writer.compress(data[at : at + n]) + writer.flush(z.COMPRESSOBJ_FLUSH_BLOCK)
        at += n
    return Record.of("zstd, flushed", Method.ZSTD, out + writer.flush(), data)


def skippable(n: int) -> bytes:
    return struct.pack("<II", 0x184D2A50 + n % 16, n) + bytes(n)


def several(seed: int) -> Record:
    """Frames one after another, empty ones and skippable ones among them."""
    r = np.random.default_rng(seed)
    parts = [plain(list(fields.KINDS)[int(r.integers(0, 13))], int(r.integers(0, 3000))) for _ in range(int(r.integers(1, 6)))]
    out = skippable(seed % 7) if seed % 3 == 0 else b""
    for data in parts:
        out += frame(data, int(r.integers(1, 10)), write_checksum=bool(r.integers(0, 2)))
        out += b"" if r.random() < 0.5 else skippable(int(r.integers(0, 300)))
    return Record.of("zstd, several frames", Method.ZSTD, out, b"".join(parts))


def windowed(size: int, kind: str, log: int) -> Record:
    """A window that is not the content: blocks no longer than it."""
    data, how = plain(kind, size), {"window_log": log, "write_content_size": log % 2}
    return Record.of("zstd, window of its own", Method.ZSTD, chosen(data, 3, **how), data)


def streamed(size: int, log: int) -> Record:
    """A window as large as libzstd knows, in a frame that does not tell its size."""
    how = z.ZstdCompressionParameters(window_log=log, write_content_size=False)
    writer = z.ZstdCompressor(compression_params=how).compressobj()
    data = plain("mixed", size)
    return Record.of("zstd, large window", Method.ZSTD, writer.compress(data) + writer.flush(), data)


def distant(seed: int) -> Record:
    """Matches from afar, by long distance matching."""
    far = fields.make("noise", 200_000, seed) + plain("text", 400_000 * (1 + seed % 4))
    data = far + fields.make("noise", 1000, seed) + far[:250_000]
    return Record.of("zstd, long distance", Method.ZSTD, chosen(data, 1 + seed % 12, enable_ldm=True, window_log=23), data)


def triples(count: int) -> Record:
    """Built by hand: more sequences than any encoder writes, of three bytes and no bits each (tables by RLE), which
    take the second repeat offset, and so turn by turn 4 and 1."""
    first, literals = fields.make("noise", 100, count), fields.make("noise", 20, count)
    header = struct.pack("<IBB", 0xFD2FB528, 0, 9 << 3)  # a window of 2^19, no content size
    head = (255, *(count - 0x7F00).to_bytes(2, "little")) if count >= 0x7F00 else ((count >> 8) + 128, count & 255)
    body = bytes([len(literals) << 3]) + literals + bytes([*head, 0b01010100, 0, 0, 0, 1])
    out = header + (len(first) << 3).to_bytes(3, "little") + first + (len(body) << 3 | 5).to_bytes(3, "little") + body
    whole, offsets = bytearray(first), (4, 1)
    for i in range(count):
        for _ in range(3):
            whole.append(whole[-offsets[i % 2]])
    return Record.of("zstd, short matches", Method.ZSTD, out, bytes(whole) + literals)


def separated(seed: int) -> Record:
    """Blocks whose literals are all the same: one byte between matches."""
    r = np.random.default_rng(seed)
    first = r.bytes(4000)
    rest = b"".join(first[at : at + 13] + b"x" for at in r.integers(0, 3980, 300 + seed))
    writer = z.ZstdCompressor(level=1 + seed % 19).compressobj()
    out = writer.compress(first) + writer.flush(z.COMPRESSOBJ_FLUSH_BLOCK) + writer.compress(rest) + writer.flush()
    return Record.of("zstd, one literal", Method.ZSTD, out, first + rest)


def strategic(size: int, kind: str, strategy: int, match: int) -> Record:
    data = plain(kind, size)
    return Record.of("zstd, strategies", Method.ZSTD, chosen(data, 5, strategy=strategy, min_match=match), data)


_context = reference.declare("ZSTD_createCCtx", reference.POINTER)
_free = reference.declare("ZSTD_freeCCtx", reference.SIZE, reference.POINTER)
_set = reference.declare("ZSTD_CCtx_setParameter", reference.SIZE, reference.POINTER, reference.INT, reference.INT)
_compress = reference.declare(
    "ZSTD_compress2", reference.SIZE, reference.POINTER, reference.POINTER, reference.SIZE, reference.BYTES, reference.SIZE
)
LEVEL, TARGET_BLOCK, LITERALS, MOST_BLOCK = 100, 130, 1002, 1015  # ZSTD_cParameter


def raw(label: str, size: int, kind: str, parameters: dict[int, int]) -> Record:
    """By parameters that Python's bindings do not have."""
    data, context = plain(kind, size), _context()
    try:
        for parameter, value in parameters.items():
            if reference.zstd_failed(_set(context, parameter, value)):
                raise ValueError(f"libzstd refuses parameter {parameter} = {value}")
        room = ctypes.create_string_buffer(2 * size + 1000)
        n = _compress(context, room, len(room), data, size)
        if reference.zstd_failed(n):
            raise ValueError(f"{label}: libzstd refuses")
        return Record.of(label, Method.ZSTD, room.raw[:n], data)
    finally:
        _free(context)


def shapes() -> Iterator[Maker]:
    names = list(fields.KINDS)
    for i in range(900):
        yield partial(flushed, [100, 700, 3000, 20_000, 70_000, 140_000][i % 6], names[i // 6 % 13], i)
    for seed in range(400):
        yield partial(several, seed)
    for i in range(420):
        yield partial(windowed, [300, 5000, 20_000, 150_000][i % 4], names[i % 13], 10 + i % 9)
    for i in range(26):
        yield partial(streamed, [1, 500, 70_000][i % 3], 20 + i % 12)
    for seed in range(12):
        yield partial(distant, seed)
    for seed in range(60):
        yield partial(separated, seed)
    for count in (200, 5000, 32_511, 32_512, 32_600, 40_000, 43_683):
        yield partial(triples, count)
    for i in range(400):
        yield partial(strategic, [700, 4096, 30_000, 131_072][i % 4], names[i // 4 % 13], 1 + i % 9, 3 + i % 5)
    for i in range(300):
        how = {LEVEL: [1, 3, 9, 16][i % 4], TARGET_BLOCK: [1340, 2000, 5000, 30_000][i // 4 % 4]}
        yield partial(raw, "zstd, target block size", [3000, 20_000, 131_072][i % 3], names[i % 13], how)
    for i in range(160):
        how = {LEVEL: [1, 3, 19][i % 3], LITERALS: 1 + i % 2, MOST_BLOCK: [1024, 4096, 1 << 17][i // 2 % 3]}
        yield partial(raw, "zstd, literals as told", [600, 9000, 90_000][i % 3], names[i % 13], how)


def shuffled(size: int, kind: str, typesize: int, level: int) -> Record:
    data = plain(kind, size)
    return Record.of("zstd, shuffled", Method.ZSTD, frame(reference.shuffle(data, typesize), level), data, typesize=typesize)


def refused() -> Iterator[Maker]:
    """What is for the host, and checksums that are wrong."""
    samples = [plain("text", 300 + i) for i in range(200)]
    words = z.train_dictionary(4096, samples)

    def with_dictionary(i: int) -> Record:
        data = samples[i]
        out = z.ZstdCompressor(level=1 + i % 19, dict_data=words).compress(data)
        return Record("zstd, dictionary", Method.ZSTD, out, len(data), expect=HOST)

    def wrong_sum(i: int, flags: int) -> Record:
        data = plain(list(fields.KINDS)[i % 13], 50 + 37 * i)
        good = frame(data, 3, write_checksum=True)
        bad = Record.of("zstd, wrong checksum, unchecked", Method.ZSTD, good[:-1] + bytes([good[-1] ^ 1]), data, flags=flags)
        return bad if flags else bad.refused("zstd, wrong checksum")

    def too_large(log: int) -> Record:
        head = struct.pack("<IBB", 0xFD2FB528, 0, (log - 10) << 3)
        return Record("zstd, window beyond limits", Method.ZSTD, head + b"\x01\0\0", 0, expect=HOST)

    for i in range(80):
        yield partial(with_dictionary, i)
        yield partial(wrong_sum, i, 0)
        yield partial(wrong_sum, i, UNCHECKED)
    for log in range(32, 42):
        yield partial(too_large, log)


def typed() -> Iterator[Maker]:
    for i in range(420):
        typesize = [2, 3, 4, 8, 16, 7][i % 6]
        size = [1, 16, 250, 1000, 4096, 20_000, 70_000, 150_000][i % 8] * typesize
        yield partial(shuffled, min(size, 200_000), list(fields.KINDS)[i % 13], typesize, [1, 3, 12][i % 3])


def jobs(most: int) -> Iterator[tuple[str, Callable[[], Iterator[Maker]]]]:
    """Parts that can be made beside each other, of chunks of at most so many bytes."""
    every = list(fields.KINDS)
    for size in SMALL:
        yield f"zstd-{size}", partial(levels, size, 2, every)
    for size in [size for size in MEDIUM if size <= most]:
        for part in range(4):
            yield f"zstd-{size}-{part}", partial(levels, size, 6, every[part::4])
    for size in [size for size in BIG if size <= most]:
        for part in range(5):
            yield f"zstd-{size}-{part}", partial(levels, size, 13 if size < 1 << 20 else 26, every[part::5])
    for kind, size, level in [huge for huge in HUGE if huge[1] <= most]:
        yield f"zstd-huge-{kind}", partial(iter, [partial(ordinary, size, kind, level, 1)])
    yield "zstd-typed", typed
    yield "zstd-refused", refused
    for part in range(8):
        yield f"zstd-shapes-{part}", partial(every_eighth, part)


def every_eighth(part: int) -> Iterator[Maker]:
    for i, maker in enumerate(shapes()):
        if i % 8 == part:
            yield maker
