"""Which parts of the formats a chunk uses, by a parser of its own: a campaign that does not reach a mode proves nothing
of it. REQUIRED is what a corpus has to reach.

Of zstd it reads headers of frames, blocks and sections, and decodes the sequences of small blocks to see their
repeat offsets (RFC 8878; sections in brackets).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product

from record import Method, Record

KINDS = ("literal lengths", "offsets", "match lengths")
TABLES = ("predefined", "RLE", "FSE", "repeat")
BLOCKS = ("raw", "RLE", "compressed")
LITERALS = ("raw", "RLE", "Huffman", "treeless")

REQUIRED = {
    *(f"zstd: {kind} block" for kind in BLOCKS),
    *(f"zstd: {kind} literals" for kind in LITERALS),
    *(f"zstd: {kind} literals, {n}" for kind, n in product(LITERALS[2:], ("1 stream", "4 streams"))),
    *(f"zstd: {kind} {mode}" for kind, mode in product(KINDS, TABLES)),
    *(f"zstd: tree {kind}" for kind in ("direct", "by FSE")),
    *(f"zstd: number of sequences in {n} bytes" for n in (1, 2, 3)),
    *(f"zstd: offset {value} {literals}" for value, literals in product((1, 2, 3), ("after literals", "without literals"))),
    *(f"zstd: content size in {n} bytes" for n in (0, 1, 2, 4)),
    *(f"zstd: window of 2^{log}" for log in (*range(10, 20), 27, 31)),
    "zstd: checksum",
    "zstd: skippable frame",
    "zstd: no sequences",
    "zstd: several frames",
    "zstd: single segment",
    "zstd: repeat offset from the block before",
    "zstd: offset beyond 64 KiB",
    "blosc: plain",
    "blosc: split",
    "blosc: not split",
    "blosc: several blocks",
    "blosc: short last block",
    "blosc: bytes apart",
    "blosc: bits apart",
    "blosc: stored stream",
    *(f"blosc: with {name}" for name in ("blosclz", "lz4", "zlib", "zstd")),
    *(f"deflate: begins {name}" for name in ("stored", "fixed", "dynamic")),
    "gzip: extra field",
    "gzip: name",
    "gzip: comment",
    "gzip: header checksum",
}

# Extra bits by code [3.1.1.3.2.1.1], and the predefined distributions [3.1.1.3.2.2].
LITERAL_BITS = [0] * 16 + [1, 1, 1, 1, 2, 2, 3, 3, 4, 6, *range(7, 17)]
MATCH_BITS = [0] * 32 + [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, *range(7, 17)]
PREDEFINED = (
    (6, [4, 3, *[2] * 6, *[2] * 5, *[1] * 3, *[2] * 9, 3, 2, *[1] * 5, *[-1] * 4]),
    (5, [*[1] * 6, *[2] * 3, *[1] * 15, *[-1] * 5]),
    (6, [1, 4, 3, *[2] * 6, *[1] * 37, *[-1] * 7]),
)
Entry = tuple[int, int, int]  # symbol, bits to read, what to add them to


class Backward:
    """A bitstream that is read from its end [4.1]."""

    def __init__(self, data: bytes) -> None:
        self.value = int.from_bytes(data, "little")
        self.at = self.value.bit_length() - 1

    def read(self, n: int) -> int:
        self.at -= n
        return (self.value >> self.at if self.at >= 0 else self.value << -self.at) & ((1 << n) - 1)


def distribution(data: bytes) -> tuple[int, list[int], int]:
    """An FSE table description [4.1.1]: its accuracy, the counts, and how many bytes it takes."""
    value, at = int.from_bytes(data, "little"), 4
    log = (value & 15) + 5
    left, counts = (1 << log) + 1, []
    while left > 1:
        bits = left.bit_length()
        small = (1 << bits) - 1 - left  # so many values take a bit less
        v = value >> at & ((1 << bits) - 1)
        if v & ((1 << (bits - 1)) - 1) < small:
            v &= (1 << (bits - 1)) - 1
            at += bits - 1
        else:
            v -= small if v >= 1 << (bits - 1) else 0
            at += bits
        counts.append(v - 1)
        left -= abs(v - 1)
        while v == 1:
            more = value >> at & 3
            counts += [0] * more
            at += 2
            if more < 3:
                break
    return log, counts, (at + 7) // 8


def table(log: int, counts: list[int]) -> list[Entry]:
    size = 1 << log
    symbols, high = [0] * size, size - 1
    for s, n in enumerate(counts):
        if n == -1:
            symbols[high] = s
            high -= 1
    at = 0
    for s, n in enumerate(counts):
        for _ in range(max(n, 0)):
            symbols[at] = s
            at = (at + (size >> 1) + (size >> 3) + 3) % size
            while at > high:
                at = (at + (size >> 1) + (size >> 3) + 3) % size
    following = [abs(n) for n in counts]
    entries = []
    for s in symbols:
        v = following[s]
        following[s] += 1
        bits = log - v.bit_length() + 1
        entries.append((s, bits, (v << bits) - size))
    return entries


@dataclass
class Frame:
    """What blocks hand on."""

    tables: list[list[Entry]] = field(default_factory=lambda: [[], [], []])
    blocks: int = 0


def literals(data: bytes, seen: set[str]) -> int:
    """How many bytes the literals section takes [3.1.1.3.1]."""
    kind, form = data[0] & 3, data[0] >> 2 & 3
    seen.add(f"zstd: {LITERALS[kind]} literals")
    if kind < 2:
        n = (1, 2, 1, 3)[form]
        size = int.from_bytes(data[:n], "little") >> (3 if n == 1 else 4)
        return n + (size if kind == 0 else 1)
    n, bits = (3, 3, 4, 5)[form], (10, 10, 14, 18)[form]
    seen.add(f"zstd: {LITERALS[kind]} literals, {'4 streams' if form else '1 stream'}")
    if kind == 2:
        seen.add("zstd: tree " + ("direct" if data[n] >= 128 else "by FSE"))
    return n + (int.from_bytes(data[:n], "little") >> (4 + bits) & ((1 << bits) - 1))


def sequences(data: bytes, frame: Frame, seen: set[str]) -> None:
    """The sequences section [3.1.1.3.2]."""
    n = 1 if data[0] < 128 else 2 if data[0] < 255 else 3
    count = (data[0], (data[0] - 128 << 8) + data[min(1, len(data) - 1)], int.from_bytes(data[1:3], "little") + 0x7F00)[n - 1]
    if not count:
        seen.add("zstd: no sequences")
        return
    seen.add(f"zstd: number of sequences in {n} bytes")
    modes, at = data[n], n + 1
    for k, kind in enumerate(KINDS):
        mode = modes >> (6 - 2 * k) & 3
        seen.add(f"zstd: {kind} {TABLES[mode]}")
        if mode == 0:
            frame.tables[k] = table(*PREDEFINED[k])
        elif mode == 1:
            frame.tables[k] = [(data[at], 0, 0)]
            at += 1
        elif mode == 2:
            log, counts, used = distribution(data[at : at + 100])
            frame.tables[k] = table(log, counts)
            at += used
    offsets(Backward(data[at:]), min(count, 300) if len(data) < 6000 else 0, count, frame, seen)


def offsets(stream: Backward, some: int, count: int, frame: Frame, seen: set[str]) -> None:
    """The first sequences of a block: which offsets they have [3.1.1.5]."""
    lengths, distances, matches = frame.tables
    states = [stream.read(len(t).bit_length() - 1) for t in frame.tables]
    for i in range(some):
        length, distance, match = lengths[states[0]][0], distances[states[1]][0], matches[states[2]][0]
        value = (1 << distance) + stream.read(distance)
        stream.read(MATCH_BITS[match])
        stream.read(LITERAL_BITS[length])
        if value <= 3:
            seen.add(f"zstd: offset {value} {'after' if length else 'without'} literals")
            if i == 0 and frame.blocks > 1:
                seen.add("zstd: repeat offset from the block before")
        elif value > 65_536 + 3:
            seen.add("zstd: offset beyond 64 KiB")
        if i + 1 < count:
            for k in (0, 2, 1):
                _, bits, base = frame.tables[k][states[k]]
                states[k] = base + stream.read(bits)
    if some == count and stream.at:
        raise ValueError(f"{stream.at} bits of {count} sequences are left: the parser is wrong")


def zstd_frame(data: bytes, at: int, seen: set[str]) -> int:
    """One frame, from behind its magic on [3.1.1]; where the next one begins."""
    descriptor = data[at]
    single, at = descriptor & 32, at + 1
    if single:
        seen.add("zstd: single segment")
    else:
        seen.add(f"zstd: window of 2^{10 + (data[at] >> 3)}")
        at += 1
    content = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    seen.add(f"zstd: content size in {content} bytes")
    at += (0, 1, 2, 4)[descriptor & 3] + content
    frame, last = Frame(), False
    while not last:
        header = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        seen.add(f"zstd: {BLOCKS[kind]} block")
        frame.blocks += 1
        at += 3
        if kind == 2:
            body = data[at : at + size]
            sequences(body[literals(body, seen) :], frame, seen)
        at += 1 if kind == 1 else size
    if descriptor & 4:
        seen.add("zstd: checksum")
        at += 4
    return at


def zstd(data: bytes, seen: set[str]) -> None:
    at = frames = 0
    while at < len(data):
        if data[at : at + 4] == b"\x28\xb5\x2f\xfd":
            at = zstd_frame(data, at + 4, seen)
            frames += 1
        else:
            seen.add("zstd: skippable frame")
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
    if frames > 1:
        seen.add("zstd: several frames")


def blosc(data: bytes, seen: set[str]) -> None:
    flags, typesize = data[2], data[3]
    nbytes, blocksize = (int.from_bytes(data[at : at + 4], "little") for at in (4, 8))
    if flags & 2 or not nbytes:
        seen.add("blosc: plain")
        return
    seen.add("blosc: with " + ("blosclz", "lz4", "snappy", "zlib", "zstd")[flags >> 5])
    split = not flags & 16 and typesize <= 16 and blocksize // typesize >= 128
    seen.add("blosc: split" if split else "blosc: not split")
    if nbytes > blocksize:
        seen.add("blosc: several blocks")
        if nbytes % blocksize:
            seen.add("blosc: short last block")
    if flags & 1 and typesize > 1:
        seen.add("blosc: bytes apart")
    if flags & 4:
        seen.add("blosc: bits apart")
    start = int.from_bytes(data[16:20], "little")
    if int.from_bytes(data[start : start + 4], "little") == blocksize // (typesize if split else 1):
        seen.add("blosc: stored stream")


def deflate(data: bytes, at: int, seen: set[str]) -> None:
    seen.add("deflate: begins " + ("stored", "fixed", "dynamic", "?")[data[at] >> 1 & 3])


def gzip(data: bytes, seen: set[str]) -> None:
    for bit, name in ((2, "header checksum"), (4, "extra field"), (8, "name"), (16, "comment")):
        if data[3] & bit:
            seen.add(f"gzip: {name}")
    if not data[3]:
        deflate(data, 10, seen)


def of(r: Record) -> set[str]:
    """The modes of a chunk that an encoder wrote."""
    seen: set[str] = set()
    if r.method == Method.ZSTD:
        zstd(r.encoded, seen)
    elif r.method in (Method.BLOSC, Method.BLOSC_ZSTD, Method.BLOSC_ZLIB):
        blosc(r.encoded, seen)
    elif r.method == Method.GZIP:
        gzip(r.encoded, seen)
    elif r.method == Method.ZLIB:
        deflate(r.encoded, 2, seen)
    return seen


def missing(reached: Counter[str]) -> list[str]:
    return sorted(REQUIRED - set(reached))
