"""The file format of the campaign: encoded chunks, and what a reference makes of each. corpus.h reads it.

A file is "HRCORP1\\0", the number of labels (u32), for each its length (u16) and text, then records up to
the end: HEAD, and the encoded bytes. Decoded bytes are not kept, but their XXH64.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

import reference

MAGIC = b"HRCORP1\0"
HEAD = struct.Struct("<QIIHHBBBB")  # hash, encoded, decoded, label, flags, method, typesize, expect, fault


# Methods, flags: cuda/kernels/kernels.go.
class Method(IntEnum):
    LZ4 = 1
    BLOSC = 2
    UNSHUFFLE = 3
    COPY = 4
    ZSTD = 5
    BLOSC_ZSTD = 6
    ZLIB = 7
    GZIP = 8
    BLOSC_ZLIB = 9


UNCHECKED, SUMMED = 1, 2

# What must come of a chunk: corpus.h has the words.
DECODED, REFUSED, EITHER, HOST = range(4)


@dataclass(frozen=True)
class Record:
    """A chunk. label groups it in reports: method and writer, as a rule. fault: the sum behind it is wrong."""

    label: str
    method: Method
    encoded: bytes
    decoded: int
    hash: int = 0
    expect: int = DECODED
    typesize: int = 0
    flags: int = 0
    fault: int = 0

    @classmethod
    def of(cls, label: str, method: Method, encoded: bytes, plain: bytes, **more: int) -> Record:
        """A chunk that decodes to plain."""
        return cls(label, method, bytes(encoded), len(plain), reference.xxh64(plain), **more)

    def reference(self) -> bytes | None:
        """What the library of its format decodes it to; None if that refuses it."""
        size = self.decoded
        if self.fault:
            return None
        match self.method:
            case Method.LZ4:
                plain = reference.lz4(self.encoded, size)
            case Method.ZSTD:
                plain = reference.zstd(self.encoded, size, checked=not self.flags & UNCHECKED)
            case Method.ZLIB:
                plain = reference.zlib_stream(self.encoded, size)
            case Method.GZIP:
                plain = reference.gzip_members(self.encoded, size)
            case Method.UNSHUFFLE | Method.COPY:
                plain = self.encoded if len(self.encoded) == size else None
            case _:
                return reference.blosc(self.encoded, size)
        return plain if plain is None or self.method == Method.COPY else reference.unshuffle(plain, self.typesize)

    def judged(self) -> Record:
        """The chunk with what the reference makes of it."""
        plain = self.reference()
        if plain is None:
            return replace(self, hash=0, expect=REFUSED)
        return replace(self, hash=reference.xxh64(plain), expect=EITHER)

    def refused(self, label: str, **more: object) -> Record:
        """The chunk, changed in a way that makes it an error."""
        return replace(self, label=label, hash=0, expect=REFUSED, **more)  # type: ignore[arg-type]


def write(path: Path, records: Iterable[Record]) -> int:
    """Writes a file and says how many records it has."""
    labels: dict[str, int] = {}
    parts: list[bytes] = []
    n = 0
    for r in records:
        label = labels.setdefault(r.label, len(labels))
        parts += (
            HEAD.pack(r.hash, len(r.encoded), r.decoded, label, r.flags, r.method, r.typesize, r.expect, r.fault),
            r.encoded,
        )
        n += 1
    names = b"".join(struct.pack("<H", len(name.encode())) + name.encode() for name in labels)
    with open(path, "wb") as out:
        out.write(MAGIC + struct.pack("<I", len(labels)) + names)
        out.writelines(parts)
    return n


def read(path: Path) -> list[Record]:
    data = path.read_bytes()
    if data[:8] != MAGIC:
        raise ValueError(f"{path} is no corpus")
    labels, at = [], 12
    for _ in range(struct.unpack_from("<I", data, 8)[0]):
        n = struct.unpack_from("<H", data, at)[0]
        labels.append(data[at + 2 : at + 2 + n].decode())
        at += 2 + n
    records = []
    while at < len(data):
        digest, encoded, decoded, label, flags, method, typesize, expect, fault = HEAD.unpack_from(data, at)
        at += HEAD.size
        body = data[at : at + encoded]
        records.append(Record(labels[label], Method(method), body, decoded, digest, expect, typesize, flags, fault))
        at += encoded
    return records
