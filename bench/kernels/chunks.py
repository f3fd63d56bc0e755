"""Write what chunks.cc decodes: chunks that c-blosc, libzstd and numcodecs encoded, and the bytes that they decode to.

    chunks.py cases FILE      a few thousand chunks of all methods, sizes, element sizes and shuffles
    chunks.py sets FILE       chunks of 256 KiB of common settings, for timing

A file is u32 n, then n plain chunks: u32 bytes, the bytes; then u32 n, then n encoded ones: 24 bytes of name, u8
method and u8 typesize as in cuda/kernels/kernels.go, u16 flags, u32 which plain chunk, u32 bytes, the bytes, and
four more, the CRC-32C of the bytes, if the flags have 2. Needs numpy and numcodecs.
"""

import os
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import google_crc32c
import numcodecs
import numpy as np
from numcodecs import blosc

LZ4, BLOSC, UNSHUFFLE, COPY, ZSTD, BLOSC_ZSTD, ZLIB, GZIP, BLOSC_ZLIB = range(1, 10)
SUMMED = 2
METHOD = {"lz4": BLOSC, "lz4hc": BLOSC, "blosclz": BLOSC, "zstd": BLOSC_ZSTD, "zlib": BLOSC_ZLIB}


class File:
    def __init__(self) -> None:
        self.plain: dict[bytes, int] = {}
        self.encoded: list[bytes] = []

    def add(self, name: str, method: int, typesize: int, plain: bytes, encoded: bytes, summed: bool = False) -> None:
        index = self.plain.setdefault(plain, len(self.plain))
        head = struct.pack("<24sBBHII", name.encode(), method, typesize, SUMMED * summed, index, len(encoded))
        self.encoded.append(head + encoded + (struct.pack("<I", google_crc32c.value(encoded)) if summed else b""))

    def write(self, path: str) -> None:
        with Path(path).open("wb") as f:
            f.write(struct.pack("<I", len(self.plain)))
            for p in self.plain:
                f.write(struct.pack("<I", len(p)) + p)
            f.write(struct.pack("<I", len(self.encoded)) + b"".join(self.encoded))
        print(f"{path}: {len(self.encoded)} chunks, {len(self.plain)} plain, {Path(path).stat().st_size} bytes")


def frame(data: bytes, cname: str, level: int, shuffle: int, typesize: int, blocksize: int = 0, split: bool = False) -> bytes:
    """A frame of c-blosc. It splits the blocks of zstd, as old versions did, if it is told so and the format has it: it
    would split others too, and then not read what it wrote."""
    os.environ["BLOSC_SPLITMODE"] = "ALWAYS" if split else "FORWARD_COMPAT"
    out = blosc.compress(data, cname.encode(), level, shuffle, blocksize, typesize)
    block = struct.unpack_from("<I", out, 8)[0]
    if split and (out[3] > 16 or block // out[3] < 128):
        return frame(data, cname, level, shuffle, typesize, blocksize)
    assert blosc.decompress(out) == data
    return out


def microscopy(n: int, seed: int) -> bytes:
    """u16 of a soft blob on a background with shot noise, as zstd.py has it."""
    r = np.random.default_rng(seed)
    z, y, x = np.meshgrid(np.arange(32), np.arange(64), np.arange(64), indexing="ij")
    light = np.full(z.shape, 100, np.float32)
    for _ in range(3):
        c, width, height = r.uniform(-10, 74, 3), r.uniform(6, 30), r.uniform(50, 600)
        light += height * np.exp(-((z - c[0]) ** 2 + (y - c[1]) ** 2 + (x - c[2]) ** 2) / (2 * width**2))
    noise = r.standard_normal(light.shape, dtype=np.float32) * np.sqrt(light) * 0.6
    return np.clip(light + noise, 0, 65535).astype(np.uint16).tobytes()[:n]


def weather(n: int, seed: int) -> bytes:
    """f32 of a smooth field with noise."""
    r = np.random.default_rng(seed)
    t = np.arange(n // 4, dtype=np.float32)
    field = 280 + 15 * np.sin(t / 700 + seed) + 3 * np.cos(t / 31) + 0.05 * r.standard_normal(len(t), dtype=np.float32)
    return field.astype(np.float32).tobytes()


def small(n: int) -> Iterator[tuple[str, bytes]]:
    r = np.random.default_rng(n)
    yield "noise", r.integers(0, 256, n, np.uint8).tobytes()
    yield "zeros", bytes(n)
    yield "ramp", np.arange(n // 4 + 1, dtype=np.uint32).tobytes()[:n]
    yield "smooth", (100 + np.arange(n) // 40 % 60 + r.integers(0, 9, n)).astype(np.uint16).tobytes()[:n]
    words = r.integers(0, 256, 300, np.uint8)
    parts = [words[a : a + k] for a, k in zip(r.integers(0, 260, n), r.integers(1, 40, n), strict=True)]
    yield "words", np.concatenate(parts)[:n].tobytes() if n else b""


def shuffled(data: bytes, typesize: int) -> bytes:
    """numcodecs' shuffle of whole elements; what is left stays as it is."""
    whole = len(data) // typesize * typesize
    return (bytes(numcodecs.Shuffle(typesize).encode(data[:whole])) if whole else b"") + data[whole:]


def cases(path: str) -> None:
    out, turn = File(), 0
    encoders: dict[int, Callable[[bytes], bytes]] = {
        LZ4: numcodecs.LZ4().encode,
        ZSTD: numcodecs.Zstd(3).encode,
        ZLIB: numcodecs.Zlib().encode,
        GZIP: numcodecs.GZip().encode,
    }
    for n in [1, 13, 127, 128, 500, 1001, 4003, 9000, 40_000]:
        for kind, data in small(n):
            for method, encode in encoders.items():
                for typesize in (1, 2, 3, 4, 8, 255):
                    turn += 1
                    if n < 9000 or turn % 4 == 0:
                        plain = data if typesize == 1 else shuffled(data, typesize)
                        out.add(f"{kind} {n}", method, typesize, data, bytes(encode(plain)), turn % 3 == 0)
            for cname, method in METHOD.items():
                for typesize in (1, 2, 3, 4, 7, 8, 16, 17):
                    for shuffle in (0, 1, 2):
                        turn += 1
                        if turn % (5 if n <= 128 else 2 if n < 4000 else 4 if n < 9000 else 9):
                            continue
                        blocksize = (0, 0, 512, 128 * typesize, 4096)[turn % 5]
                        e = frame(data, cname, 1 + turn % 9, shuffle, typesize, blocksize, turn % 2 == 0)
                        out.add(f"{cname} {kind} {n}", method, 0, data, e, turn % 3 == 0)
            out.add(f"{kind} {n}", COPY, 0, data, data, True)
            out.add(f"{kind} {n}", UNSHUFFLE, 4, data, shuffled(data, 4), True)
    out.write(path)


def sets(path: str) -> None:
    out, size = File(), 256 << 10
    for seed in range(3):
        u16 = microscopy(size, seed)
        for cname, level in (("zstd", 3), ("blosclz", 5), ("lz4", 5)):
            for shuffle, name in ((1, "sh"), (2, "bit")):
                out.add(f"u16 blosc {cname} {name}", METHOD[cname], 0, u16, frame(u16, cname, level, shuffle, 2), True)
        out.add("u16 blosc blosclz", BLOSC, 0, u16, frame(u16, "blosclz", 9, 0, 2), True)
        out.add("u16 blosc zstd split", BLOSC_ZSTD, 0, u16, frame(u16, "zstd", 3, 1, 2, 65536, split=True), True)
        out.add("u16 zstd shuffle", ZSTD, 2, u16, bytes(numcodecs.Zstd(3).encode(shuffled(u16, 2))), True)
        out.add("u16 lz4 shuffle", LZ4, 2, u16, bytes(numcodecs.LZ4().encode(shuffled(u16, 2))), True)
        if seed == 0:
            f32 = weather(size, seed)
            out.add("f32 blosc zstd sh", BLOSC_ZSTD, 0, f32, frame(f32, "zstd", 3, 1, 4), True)
            out.add("f32 blosc zstd bit", BLOSC_ZSTD, 0, f32, frame(f32, "zstd", 3, 2, 4), True)
            out.add("f32 blosc blosclz sh", BLOSC, 0, f32, frame(f32, "blosclz", 5, 1, 4), True)
            noise = np.random.default_rng(1).integers(0, 65536, size // 2, np.uint16).tobytes()
            out.add("u16 blosc zstd memcpyed", BLOSC_ZSTD, 0, noise, frame(noise, "zstd", 3, 1, 2), True)
            out.add("u16 unshuffle", UNSHUFFLE, 2, noise, shuffled(noise, 2), True)
            out.add("f32 unshuffle", UNSHUFFLE, 4, noise, shuffled(noise, 4), True)
    out.write(path)


if __name__ == "__main__":
    {"cases": cases, "sets": sets}[sys.argv[1]](sys.argv[2])
