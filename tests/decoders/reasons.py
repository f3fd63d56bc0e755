"""Where the kernels and a library differ about a damaged chunk, and why that is right.

The kernels may call corrupt what the library decodes: each reason is a rule of the format that the library does not
hold; package codec, which has the last word on a chunk, holds it too. And there is one thing that the kernels decode
as package codec does, and the library does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import reference
from record import Method, Record

Look = Callable[[bytes, int], "str | None"]  # at a stream, and how many bytes it is to give
BLOSCLZ_STREAMS, LZ4_STREAMS = 0, 1  # as the flags of a frame of blosc say
BLOSCS = (Method.BLOSC, Method.BLOSC_ZSTD, Method.BLOSC_ZLIB)


def explain(r: Record) -> str | None:
    """Why the kernels may refuse what the library decodes; None if there is no reason."""
    if r.method == Method.ZSTD:
        return zstd(r.encoded, r.decoded)
    if r.method == Method.LZ4:
        return lz4(r.encoded[4:], r.decoded)
    if r.method in BLOSCS and not any(r.encoded[4:8]):
        return "blosc: no bytes decoded, but plain ones in the frame"
    if r.method in BLOSCS:
        look = {Method.BLOSC: lz4, Method.BLOSC_ZSTD: zstd}.get(r.method, nothing)
        return early(r.encoded) or blosc(r.encoded, nothing if is_blosclz(r) else look)
    return None


def lenient(r: Record) -> str | None:
    """Why the kernels may decode what the library refuses."""
    if r.method == Method.LZ4:
        return late(r.encoded[4:], r.decoded)
    if r.method == Method.BLOSC:
        return blosc(r.encoded, blosclz_late if is_blosclz(r) else late)
    return None


def nothing(_stream: bytes, _size: int) -> None:
    """There is nothing to say of a stream."""


def is_blosclz(r: Record) -> bool:
    """What is inside a frame of Method.BLOSC: the upper three bits of its flags are 0 for blosclz, 1 for LZ4."""
    return r.method == Method.BLOSC and r.encoded[2] >> 5 == 0


def newer(data: bytes, size: int) -> str | None:
    """libzstd itself has become stricter."""
    return "zstd: another version of libzstd refuses it" if reference.newer_zstd(data, size) is None else None


def zstd(data: bytes, size: int) -> str | None:
    if not data:
        return "zstd: no bytes, not even an empty frame"
    return long_block(data) or newer(data, size)


def long_block(data: bytes) -> str | None:
    """Walks over frames and blocks (RFC 8878, 3.1.1)."""
    at = 0
    while at + 9 <= len(data):
        if data[at : at + 4] != b"\x28\xb5\x2f\xfd":
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            continue
        descriptor = data[at + 4]
        single = descriptor >> 5 & 1
        size = (single, 2, 4, 8)[descriptor >> 6]
        window = (8 + (data[at + 5] & 7)) << (7 + (data[at + 5] >> 3))
        at += 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + size
        content = int.from_bytes(data[at - size : at], "little") + (256 if size == 2 else 0)
        most = min(content if single else window, 128 << 10)
        last = False
        while not last and at + 3 <= len(data):
            header = int.from_bytes(data[at : at + 3], "little")
            last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            if size > most:
                return "zstd: a raw or RLE block longer than Block_Maximum_Size (3.1.1.2.4)"
            at += 3 + (1 if kind == 1 else size)
        at += 4 if descriptor & 4 else 0
    return None


def sequences(block: bytes) -> Iterator[tuple[int, int | None, int, int]]:
    """Of each sequence of a block of LZ4: how many literals, the distance and length of the match, and the lower half of the
    token. There is no distance where the block ends behind the literals."""
    at = 0

    def length(nibble: int) -> int:
        nonlocal at
        n = nibble
        while nibble == 15 and at < len(block):
            at += 1
            n += block[at - 1]
            if block[at - 1] != 255:
                break
        return n

    while at < len(block):
        token = block[at]
        at += 1
        literals = length(token >> 4)
        at += literals
        if at >= len(block):
            yield literals, None, 0, token & 15
            return
        distance = int.from_bytes(block[at : at + 2], "little")
        at += 2
        yield literals, distance, length(token & 15) + 4, token & 15


def lz4(block: bytes, _: int) -> str | None:
    for _, distance, _, nibble in sequences(block):
        if distance is None and nibble:
            return "lz4: the last token, behind whose literals the block ends, tells of a match"
        if distance == 0:
            return "lz4: a match at distance 0"
    return None


def late(block: bytes, size: int) -> str | None:
    """The format forbids encoders to begin a match less than 12 bytes before the end of a block, or to let one reach into
    its last five, and lets decoders refuse what breaks that: liblz4 does; package codec and the kernels need none of it."""
    at, begin, end = 0, None, 0
    for literals, distance, length, _ in sequences(block):
        at += literals
        if distance is not None:
            begin, at = at, at + length
            end = at
    if begin is None:
        return None
    if end > size - 5:
        return "lz4: a match in the last five bytes of a block"
    return "lz4: a match that begins in the last eleven bytes of a block" if begin > size - 12 else None


def blosclz_late(stream: bytes, _: int) -> str | None:
    """c-blosc wants to find literals behind every match; package codec and the kernels do not."""
    at, match = 0, False
    while at < len(stream):
        control = stream[at] & 31 if at == 0 else stream[at]
        at += 1
        match = control >= 32
        if not match:
            at += control + 1
            continue
        while control >> 5 == 7 and at < len(stream):
            at += 1
            if stream[at - 1] != 255:
                break
        far = control & 31 == 31 and stream[at : at + 1] == b"\xff"
        at += 3 if far else 1
    return "blosclz: a stream that ends with a match" if match else None


def matched(stream: bytes, _: int) -> str | None:
    """c-blosc leaves the last instruction of blosclz undone if it is a match, and refuses the stream. Its encoder ends with
    literals; nothing says that others must."""
    at, match = 0, False
    while at < len(stream):
        control = stream[at] & (31 if at == 0 else 255)
        at += 1
        match = control >= 32
        if not match:
            at += control + 1
            continue
        if control >> 5 == 7:
            while at < len(stream) and stream[at] == 255:
                at += 1
            at += 1
        at += 3 if control & 31 == 31 and stream[at : at + 1] == b"\xff" else 1
    return "blosclz: the stream ends with a match" if match and at == len(stream) else None


def early(data: bytes) -> str | None:
    """Where the blocks of a frame begin."""
    nbytes, blocksize = (int.from_bytes(data[at : at + 4], "little") for at in (4, 8))
    blocks = -(-nbytes // max(blocksize, 1))
    starts = [int.from_bytes(data[16 + 4 * i : 20 + 4 * i], "little") for i in range(min(blocks, len(data) // 4))]
    if any(start < 16 + 4 * blocks for start in starts):
        return "blosc: a block begins in the header or in the table of blocks"
    return None


def blosc(data: bytes, look: Look) -> str | None:
    """What there is to say of a stream of a frame."""
    nbytes, blocksize = (int.from_bytes(data[at : at + 4], "little") for at in (4, 8))
    split = not data[2] & 16 and data[3] <= 16 and blocksize // max(data[3], 1) >= 128
    for i in range(-(-nbytes // max(blocksize, 1))):
        at = int.from_bytes(data[16 + 4 * i : 20 + 4 * i], "little")
        length = min(blocksize, nbytes - i * blocksize)
        streams = data[3] if split and length == blocksize else 1
        for _ in range(streams):
            size = int.from_bytes(data[at : at + 4], "little")
            stream = data[at + 4 : at + 4 + size]
            why = look(stream, length // streams) if size != length // streams else None
            if why:
                return f"blosc, {why}"
            at += 4 + size
    return None
