"""The reasons are exactly the rules that the libraries hold, found out by asking them."""

from __future__ import annotations

import itertools
import random

import reasons
from record import Method, Record


def lz4_sequence(literals: bytes, distance: int = 0, match: int = 0) -> bytes:
    """A sequence of an LZ4 block; without a match it is the last one."""
    nibbles, more = [], []
    for n in (len(literals), match - 4 if distance else 0):
        nibbles.append(min(n, 15))
        long = b""
        if n >= 15:
            long = b"\xff" * ((n - 15) // 255) + bytes([(n - 15) % 255])
        more.append(long)
    head = bytes([nibbles[0] << 4 | nibbles[1]]) + more[0] + literals
    return head + distance.to_bytes(2, "little") + more[1] if distance else head


def lz4_record(block: bytes, size: int) -> Record:
    return Record("lz4", Method.LZ4, size.to_bytes(4, "little") + block, size)


def test_end_of_lz4_blocks() -> None:
    letters = bytes(range(65, 91)) * 12
    reached = set()
    for before, match, behind in itertools.product((1, 4, 20, 300), (4, 5, 7, 8, 11, 12, 19, 300), range(-1, 16)):
        block, size = lz4_sequence(letters[:before], 1, match), before + match
        if behind >= 0:  # else the match is the end
            block, size = block + lz4_sequence(letters[:behind]), size + behind
        one = lz4_record(block, size)
        why = reasons.lenient(one)
        reached.add(why)
        assert (one.reference() is None) == (why is not None), (before, match, behind, why)
        assert reasons.explain(one) is None
    assert len(reached) == 3
    for n in range(8):  # short blocks without a match
        one = lz4_record(lz4_sequence(letters[:n]), n)
        assert one.reference() == letters[:n] and reasons.lenient(one) is None


def blosclz_stream(r: random.Random) -> tuple[bytes, int]:
    """Instructions, and how many bytes they decode to; no match reaches before the begin."""
    stream, size = b"", 0
    for turn in range(r.randrange(1, 6)):
        if turn == 0 or r.random() < 0.5:
            n = r.randrange(1, 9)
            stream, size = stream + bytes([n - 1]) + bytes(r.choices(b"abc", k=n)), size + n
            continue
        n = r.choice((3, 5, 8, 9, 20, 263, 264, 265, 520))
        head = min(n - 2, 7)
        stream += bytes([head << 5])
        if head == 7:
            stream += b"\xff" * ((n - 9) // 255) + bytes([(n - 9) % 255])
        stream, size = stream + bytes([r.randrange(size) & 255]), size + n
    return stream, size


def blosclz_record(stream: bytes, size: int) -> Record:
    sizes = (size, size, 24 + len(stream), 20, len(stream))
    frame = bytes([2, 1, 16, 1]) + b"".join(n.to_bytes(4, "little") for n in sizes) + stream
    return Record("blosclz", Method.BLOSC, frame, size)


def test_end_of_blosclz_streams() -> None:
    r = random.Random(1)
    refused = 0
    for _ in range(3000):
        stream, size = blosclz_stream(r)
        if len(stream) == size:
            continue  # blosc takes it for plain bytes
        one = blosclz_record(stream, size)
        why = reasons.lenient(one)
        refused += why is not None
        assert (one.reference() is None) == (why is not None), (stream.hex(), size, why)
        assert why is None or why.startswith("blosc, blosclz: ")
        assert reasons.explain(one) is None
    assert refused > 500
