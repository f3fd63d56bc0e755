"""Write what zstd.cc decodes: frames of libzstd, and the bytes that they decode to.

    zstd.py sets DIR       mask50.bin, lm.bin, lm-shuffled.bin, em.bin: 1024 chunks of 256 KiB at level 3
    zstd.py cases FILE     a few thousand chunks of all sizes, kinds and levels

A set is u32 n, u32 bytes of each frame, the frames, n * 256 KiB. Cases are u32 n, then for each u32 bytes of
the frame, u32 bytes decoded, the frame, the bytes. Needs numpy and zstandard.
"""

import struct
import sys
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import zstandard

EDGE = 512
CHUNK = (32, 64, 64)


def light(z0: int) -> np.ndarray:
    """The light of CHUNK[0] planes of a volume: a background and 40 soft blobs, the same for all planes."""
    r = np.random.default_rng(42)
    z, y, x = np.arange(z0, z0 + CHUNK[0]), np.arange(EDGE), np.arange(EDGE)
    out = np.full((CHUNK[0], EDGE, EDGE), 100, np.float32)
    for _ in range(40):
        centre, width, height = r.uniform(0, EDGE, 3), r.uniform(6, 30), r.uniform(50, 600)
        planes = [
            np.exp(-((axis - c) ** 2) / (2 * width**2)).astype(np.float32) for axis, c in zip((z, y, x), centre, strict=True)
        ]
        if planes[0].max() > 1e-6:
            out += (height * planes[0])[:, None, None] * (planes[1][:, None] * planes[2][None, :])[None]
    return out


def microscopy(z0: int) -> np.ndarray:
    value = light(z0)
    value += np.random.default_rng(1000 + z0).standard_normal(value.shape, dtype=np.float32) * np.sqrt(value) * np.float32(0.6)
    return np.clip(value, 0, 65535).astype(np.uint16)


def mask50(z0: int) -> np.ndarray:
    r = np.random.default_rng(2000 + z0)
    value = r.integers(0, 65536, (CHUNK[0], EDGE, EDGE), dtype=np.uint16)
    value[r.random(value.shape, dtype=np.float32) >= 0.5] = 0
    return value


def electron(z0: int) -> np.ndarray:
    """Chunks of bytes around 128."""
    noise = np.random.default_rng(3000 + z0).standard_normal((CHUNK[0], EDGE, EDGE * 2), dtype=np.float32)
    return np.clip(128 + 9 * noise, 0, 255).astype(np.uint8).view(np.uint16)


def chunks(slab: np.ndarray) -> list[bytes]:
    return [slab[:, y : y + 64, x : x + 64].tobytes() for y in range(0, EDGE, 64) for x in range(0, EDGE, 64)]


def shuffled(chunk: bytes) -> bytes:
    return np.frombuffer(chunk, np.uint8).reshape(-1, 2).T.tobytes()


SETS = {"mask50": (mask50, bytes), "lm": (microscopy, bytes), "lm-shuffled": (microscopy, shuffled), "em": (electron, bytes)}


def part(job: tuple[str, int]) -> tuple[list[bytes], list[bytes]]:
    field, order = SETS[job[0]]
    plain = [order(c) for c in chunks(field(job[1]))]
    encoder = zstandard.ZstdCompressor(level=3)
    return [encoder.compress(c) for c in plain], plain


def write_sets(folder: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    with Pool() as pool:
        for name in SETS:
            parts = pool.map(part, [(name, z0) for z0 in range(0, EDGE, CHUNK[0])], 1)
            frames = [f for p in parts for f in p[0]]
            plain = [c for p in parts for c in p[1]]
            with open(f"{folder}/{name}.bin", "wb") as out:
                out.write(struct.pack("<I", len(frames)) + b"".join(struct.pack("<I", len(f)) for f in frames))
                out.write(b"".join(frames) + b"".join(plain))


def kinds(n: int, r: np.random.Generator) -> Iterator[bytes]:
    words = [r.bytes(int(k)) for k in r.integers(2, 40, 300)]
    half = r.integers(0, 65536, n // 2 + 1, dtype=np.uint16)
    half[r.random(half.size) >= 0.5] = 0
    t = np.arange(n // 2 + 1)
    smooth = (
        (100 + 400 * np.exp(-((((t / 50 % 60) - 30) / 12) ** 2)) + r.standard_normal(t.size) * 9).astype(np.uint16).tobytes()
    )
    yield r.bytes(n)
    yield b"".join(words[int(i)] for i in r.integers(0, 300, n // 10 + 1))[:n]
    yield half.tobytes()[:n]
    yield smooth[:n]
    yield shuffled(smooth[: n // 2 * 2]) + b"x" * (n % 2)
    yield bytes(n)
    yield np.minimum(r.geometric(0.3, n), 255).astype(np.uint8).tobytes()
    yield np.repeat(r.integers(0, 40, n // 7 + 1), r.integers(1, 15, n // 7 + 1)).astype("<u4").tobytes()[:n].ljust(n, b"\0")
    yield (r.bytes(37) * (n // 37 + 1))[:n]
    yield r.integers(0, 2, n, dtype=np.uint8).tobytes()


def encodings(data: bytes, r: np.random.Generator) -> Iterator[bytes]:
    for level in (-7, 1, 3, 6, 12, 19, 22) if len(data) < 100_000 else (1, 3, 19):
        yield zstandard.ZstdCompressor(level=level).compress(data)
    yield zstandard.ZstdCompressor(level=3, write_checksum=True).compress(data)
    stream, out, at = zstandard.ZstdCompressor(level=int(r.integers(1, 12))).compressobj(), b"", 0
    while at < len(data):  # blocks that end anywhere, and no content size
        n = int(r.choice([1, 100, 3000, 20000, 70000]))
        out += stream.compress(data[at : at + n]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        at += n
    yield out + stream.flush()


def sized(n: int) -> bytes:
    r = np.random.default_rng(n)
    out = b""
    for data in kinds(n, r):
        for frame in encodings(data, r):
            out += struct.pack("<II", len(frame), len(data)) + frame + data
    return out


def write_cases(path: str) -> None:
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
        257,
        700,
        1023,
        1025,
        4096,
        9999,
        20_000,
        65_536,
        131_071,
        131_073,
        262_144,
        300_001,
        1 << 20,
    ]
    with Pool() as pool:
        parts = pool.map(sized, sizes, 1)
    count = sum(10 * (9 if n < 100_000 else 5) for n in sizes)
    Path(path).write_bytes(struct.pack("<I", count) + b"".join(parts))


if __name__ == "__main__":
    {"sets": write_sets, "cases": write_cases}[sys.argv[1]](sys.argv[2])
