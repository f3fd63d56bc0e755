"""Write what zstd.cc decodes: frames of libzstd, and the bytes that they decode to.

    zstd.py sets DIR [NAME ...]  256 MiB of chunks at level 3 each: mask50, lm, lm-shuffled, em, weather,
                                 weather-shuffled, labels, constant, of 256 KiB; mask50-64K, lm-8M and the like
    zstd.py cases FILE     a few thousand chunks of all sizes, kinds and levels

A set is u32 n, u32 bytes of each frame, the frames, the chunks. Cases are u32 n, then for each u32 bytes of
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


def weather(z0: int) -> np.ndarray:
    """Temperatures as float32 with the noise of a measurement, rounded to 1/64."""
    noise = np.random.default_rng(4000 + z0).standard_normal((CHUNK[0], EDGE, EDGE // 2), dtype=np.float32)
    y, x = np.meshgrid(np.arange(EDGE), np.arange(EDGE // 2), indexing="ij")
    value = 285 + 20 * np.cos(y / 163 + z0 / 50) + 5 * np.sin(x / 37) + noise * np.float32(0.2)
    return (np.round(value * 64) / 64).astype(np.float32).view(np.uint16)


def labels(z0: int) -> np.ndarray:
    """Cells, numbered as uint32: the nearest of some points, so runs of equal numbers."""
    r = np.random.default_rng(5000 + z0)
    points = r.uniform(0, EDGE, (60, 2)).astype(np.float32)
    y, x = np.meshgrid(np.arange(EDGE), np.arange(EDGE // 2), indexing="ij")
    plane = ((y[None] - points[:, :1, None]) ** 2 + (x[None] - points[:, 1:, None]) ** 2).argmin(0).astype(np.uint32)
    ids = r.integers(1, 1 << 20, 60, dtype=np.uint32)
    return np.ascontiguousarray(np.broadcast_to(ids[plane], (CHUNK[0], EDGE, EDGE // 2))).view(np.uint16)


def constant(_z0: int) -> np.ndarray:
    return np.full((CHUNK[0], EDGE, EDGE), 100, np.uint16)


SIDES = {"64K": (32, 32), "256K": (64, 64), "1M": (128, 128), "8M": (256, 512)}  # of a chunk of CHUNK[0] planes


def chunks(slab: np.ndarray, size: str) -> list[bytes]:
    h, w = SIDES[size]
    return [slab[:, y : y + h, x : x + w].tobytes() for y in range(0, EDGE, h) for x in range(0, EDGE, w)]


def shuffled(chunk: bytes, width: int = 2) -> bytes:
    return np.frombuffer(chunk, np.uint8).reshape(-1, width).T.tobytes()


FIELDS = {"mask50": mask50, "lm": microscopy, "em": electron, "weather": weather, "labels": labels, "constant": constant}
WIDTHS = {"weather": 4, "labels": 4}
SETS = ("mask50", "lm", "lm-shuffled", "em")


def part(job: tuple[str, int]) -> tuple[list[bytes], list[bytes]]:
    field, *how = job[0].split("-")
    size = next((word for word in how if word in SIDES), "256K")
    plain = chunks(FIELDS[field](job[1]), size)
    if "shuffled" in how:
        plain = [shuffled(c, WIDTHS.get(field, 2)) for c in plain]
    encoder = zstandard.ZstdCompressor(level=3)
    return [encoder.compress(c) for c in plain], plain


def write_sets(folder: str, *names: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    with Pool() as pool:
        for name in names or SETS:
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
    {"sets": write_sets, "cases": write_cases}[sys.argv[1]](*sys.argv[2:])
