"""Chunks by the encoders of Go, through the program in klauspost/."""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import fields
from record import Method, Record
from write_zstd import plain

ROOT = Path(__file__).resolve().parents[2]
SIZES = [0, 1, 5, 30, 200, 300, 700, 1024, 1500, 3000, 4097, 7000, 9000]
# Few that are long, of what compresses well, so that the file can travel.
LONG = [("microscopy", 20_000), ("mixed", 20_000), ("labels32", 66_000), ("text", 140_000), ("labels64", 262_144)]


def pieces() -> list[bytes]:
    short = [
        plain(kind, size)
        for s, size in enumerate(SIZES)
        for k, kind in enumerate(fields.KINDS)
        if size < 2000 or (s + k) % 8 == 0
    ]
    return short + [plain(kind, size) for kind, size in LONG]


def made(go: str) -> Iterator[Record]:
    data = pieces()
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "plain", Path(folder) / "out"
        source.write_bytes(b"".join(struct.pack("<I", len(d)) + d for d in data))
        subprocess.run([go, "run", "./tests/decoders/klauspost", str(source), str(out)], cwd=ROOT, check=True)
        encoded, at = out.read_bytes(), 0
    while at < len(encoded):
        piece, method, n = struct.unpack_from("<IBB", encoded, at)
        at += 6
        label = encoded[at : at + n].decode()
        size = struct.unpack_from("<I", encoded, at + n)[0]
        at += n + 4
        yield Record.of(label, Method(method), encoded[at : at + size], data[piece])
        at += size
