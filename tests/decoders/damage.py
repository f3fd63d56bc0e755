"""Damaged chunks: bits, bytes, cuts, splices and, where the format is known, the fields that say how long things are."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import record
from record import DECODED, UNCHECKED, Method, Record

# How often chunks of a method are damaged. zstd has the most to break.
WEIGHTS = {
    Method.ZSTD: 50,
    Method.BLOSC: 13,
    Method.BLOSC_ZSTD: 8,
    Method.BLOSC_ZLIB: 4,
    Method.LZ4: 10,
    Method.ZLIB: 8,
    Method.GZIP: 7,
}
# Bytes decoded: most that is damaged is short, so that there can be much of it; one in a hundred is long.
SHORT, LONG, RARE = 16 << 10, 300_000, 0.01

BLOSCS = (Method.BLOSC, Method.BLOSC_ZSTD, Method.BLOSC_ZLIB)
Data = bytearray


def somewhere(r: random.Random, n: int) -> int:
    """Mostly near the begin, where the headers are."""
    return r.randrange(min(n, r.choice((8, 24, 100, 400, 1 << 30))))


def bits(r: random.Random, data: Data) -> None:
    for _ in range(r.randint(1, 4)):
        data[somewhere(r, len(data))] ^= 1 << r.randrange(8)


def set_bytes(r: random.Random, data: Data) -> None:
    for _ in range(r.randint(1, 3)):
        data[somewhere(r, len(data))] = r.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, r.randrange(256)))


def cut(r: random.Random, data: Data) -> None:
    del data[r.choice((r.randrange(len(data)), max(len(data) - r.randint(1, 9), 0))) :]


def put_in(r: random.Random, data: Data) -> None:
    at = somewhere(r, len(data))
    data[at:at] = r.randbytes(r.randint(1, 8))


def take_out(r: random.Random, data: Data) -> None:
    at = somewhere(r, len(data))
    del data[at : at + r.randint(1, 8)]


def repeat(r: random.Random, data: Data) -> None:
    """A part of it again, elsewhere: over what is there or between."""
    a, n, to = r.randrange(len(data)), r.randint(1, 200), r.randrange(len(data))
    part = data[a : a + n]
    data[to : to + (len(part) if r.random() < 0.5 else 0)] = part


def number(r: random.Random, data: Data, at: int, size: int) -> None:
    """Another value for a little-endian number: close to it, or an extreme one."""
    if at < 0 or at + size > len(data):
        return
    value = int.from_bytes(data[at : at + size], "little")
    most = (1 << 8 * size) - 1
    value = r.choice((value + r.randint(-9, 9), value ^ 1 << r.randrange(8 * size), 0, most, most >> 1, value * 2, value // 2))
    data[at : at + size] = (value & most).to_bytes(size, "little")


def zstd_fields(data: bytes) -> list[tuple[int, int]]:
    """Where a frame has its header, the headers of its blocks, and what heads their sections."""
    if len(data) < 9 or data[:4] != b"\x28\xb5\x2f\xfd":
        return [(0, 4), (4, 4)]
    descriptor = data[4]
    single = descriptor >> 5 & 1
    head = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + ((single, 2, 4, 8)[descriptor >> 6])
    found, at, last = [(4, 1), (5, 1), (5, 2), (6, 4)], head, False
    while not last and at + 3 <= len(data) and len(found) < 40:
        header = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        found += [(at, 3), (at, 3)]
        if kind == 2:
            # The header of literals, the description of the tree, and, at a guess, that of sequences.
            found += [(at + 3, 1), (at + 3, 3), (at + 6, 1), (at + 8, 2)]
            literals = data[at + 3] if at + 3 < len(data) else 0
            if literals & 3 < 2:
                n = (literals >> 3, literals >> 3, int.from_bytes(data[at + 3 : at + 5], "little") >> 4, 0)[literals >> 2 & 3]
                found.append((at + 4 + (n if literals & 3 == 0 else 1), 2))
        at += 3 + (1 if kind == 1 else size)
    return [*found, (len(data) - 4, 4)]


def blosc_fields(data: bytes) -> list[tuple[int, int]]:
    found = [(0, 1), (1, 1), (2, 1), (3, 1), (4, 4), (8, 4), (12, 4)]
    for i in range(4):
        found.append((16 + 4 * i, 4))
        start = int.from_bytes(data[16 + 4 * i : 20 + 4 * i], "little")
        if start + 4 <= len(data):
            found += [(start, 4), (start, 4), (start + 4, 4)]
    return found


def length_fields(method: Method, data: bytes) -> list[tuple[int, int]]:
    """Places and sizes of numbers."""
    if method == Method.ZSTD:
        return zstd_fields(data)
    if method in BLOSCS:
        return blosc_fields(data)
    if method == Method.LZ4:
        return [(0, 4), (4, 1), (5, 1), (len(data) - 2, 2)]
    # Deflate: the first block's header, its lengths if it is stored, the trailer.
    head = 10 if method == Method.GZIP else 2
    return [(0, 2), (2, 1), (3, 1), (head, 1), (head + 1, 2), (head + 3, 2), (len(data) - 4, 4), (len(data) - 8, 4)]


WAYS: list[Callable[[random.Random, Data], None]] = [bits, bits, bits, set_bytes, set_bytes, cut, put_in, take_out, repeat]


def damaged(r: random.Random, whole: Record, other: Record) -> Record:
    """A chunk with damage, and what the reference makes of it. other is spliced in at times."""
    data, size, way = Data(whole.encoded), whole.decoded, r.random()
    if way < 0.25:
        fields = length_fields(whole.method, whole.encoded)
        for _ in range(r.randint(1, 2)):
            number(r, data, *r.choice(fields))
    elif way < 0.33:
        at = r.randrange(len(data) + 1)
        data[at:] = other.encoded[r.choice((at, r.randrange(len(other.encoded) + 1))) :]
        size = r.choice((size, other.decoded))
    else:
        for _ in range(r.choice((1, 1, 1, 2, 3))):
            if data:
                r.choice(WAYS)(r, data)
    if r.random() < 0.04:
        size = max(0, size + r.choice((-1, 1, -8, 8, size)))
    label = f"damaged {whole.method.name.lower().replace('_', '-')}"
    # A sum behind it would tell of any damage, so there is none; zlib has no way to leave its own unchecked.
    flags = whole.flags & UNCHECKED if whole.method == Method.ZSTD else 0
    return replace(whole, label=label, encoded=bytes(data), decoded=size, flags=flags, fault=0).judged()


def seeds(files: Iterable[Path], r: random.Random, most: int) -> list[Record]:
    """What is to be damaged: so many short ones of each method, and a tenth as many long ones."""
    found: dict[tuple[Method, bool], list[Record]] = {}
    for path in files:
        for one in record.read(path):
            if one.expect == DECODED and one.method in WEIGHTS and one.decoded <= LONG and one.encoded:
                found.setdefault((one.method, one.decoded > SHORT), []).append(one)
    chosen = []
    for (_, long), some in sorted(found.items()):
        chosen += r.sample(some, min(len(some), -(-most // 10) if long else most))
    return chosen


def some(job: tuple[int, int, int, Path, Path]) -> Path:
    """Writes a file of so many damaged chunks."""
    seed, number, count, source, folder = job
    r = random.Random(f"{seed} {number}")
    short: dict[Method, list[Record]] = {}
    long: dict[Method, list[Record]] = {}
    for one in record.read(source):
        (long if one.decoded > SHORT else short).setdefault(one.method, []).append(one)
    methods = list(short)

    def chunks() -> Iterator[Record]:
        for method in r.choices(methods, [WEIGHTS[m] for m in methods], k=count):
            among = long if method in long and r.random() < RARE else short
            yield damaged(r, r.choice(among[method]), r.choice(among[method]))

    path = folder / f"damaged-{number}"
    record.write(path, chunks())
    return path
