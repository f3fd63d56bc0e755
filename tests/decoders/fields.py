"""The kinds of bytes that chunks hold, of any length: fields of science, and what tries a decoder."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Random = np.random.Generator


def microscopy(n: int, r: Random) -> bytes:
    """uint16: a background, soft blobs, shot noise."""
    t = np.arange(n // 2 + 1, dtype=np.float32)
    light = 100 + 400 * np.exp(-((((t / 50) % 60) - 30) ** 2) / 150)
    noise = r.standard_normal(t.size, dtype=np.float32) * np.sqrt(light) * np.float32(0.6)
    return (light + noise).astype("<u2").tobytes()[:n]


def mask50(n: int, r: Random) -> bytes:
    """uint16: every second one zero, the others noise."""
    v = r.integers(0, 1 << 16, n // 2 + 1, dtype=np.uint16)
    v[r.random(v.size, dtype=np.float32) >= 0.5] = 0
    return v.tobytes()[:n]


def electron(n: int, r: Random) -> bytes:
    """uint8 around 128."""
    return np.clip(128 + 9 * r.standard_normal(n, dtype=np.float32), 0, 255).astype(np.uint8).tobytes()


def weather(n: int, r: Random) -> bytes:
    """float32: a smooth wave; half of them with few bits of mantissa, as many archives keep them."""
    t = np.arange(n // 4 + 1, dtype=np.float32)
    v = 280 + 15 * np.sin(t / 700) + np.cumsum(r.standard_normal(t.size, dtype=np.float32)) * np.float32(0.01)
    bits = v.astype("<f4").view("<u4")
    if r.random() < 0.5:
        bits &= np.uint32(0xFFFFF000)
    return bits.tobytes()[:n]


def runs(n: int, r: Random, dtype: str, longest: int) -> bytes:
    size = np.dtype(dtype).itemsize
    count = n // size + 1
    lengths = r.integers(1, longest, count // (longest // 2) + 2)
    values = np.repeat(r.integers(0, 40, lengths.size), lengths).astype(dtype)
    return np.resize(values, count).tobytes()[:n]


def labels32(n: int, r: Random) -> bytes:
    """int32 in runs of up to 14."""
    return runs(n, r, "<i4", 15)


def labels64(n: int, r: Random) -> bytes:
    """int64 in runs of hundreds."""
    return runs(n, r, "<i8", 600)


def constant(n: int, r: Random) -> bytes:
    """Zeros, or another byte."""
    return bytes([int(r.choice([0, 0, 7, 255]))]) * n


def noise(n: int, r: Random) -> bytes:
    return r.bytes(n)


def text(n: int, r: Random) -> bytes:
    """Words of a few letters, often the same."""
    words = [bytes(r.integers(97, 123, int(k), dtype=np.uint8)) + b" " for k in r.integers(2, 10, 200)]
    few = b"".join(words[int(i)] for i in np.minimum(r.geometric(0.05, min(n // 5, 60_000) + 1) - 1, 199))
    return (few * (n // len(few) + 1))[:n]


def geometric(n: int, r: Random) -> bytes:
    """Bytes of which small ones are frequent: trees of all depths."""
    return np.minimum(r.geometric(float(r.choice([0.05, 0.3, 0.7])), n), 255).astype(np.uint8).tobytes()


def period(n: int, r: Random) -> bytes:
    """Matches at a close, odd distance, which sometimes changes."""
    out = b""
    while len(out) < n:
        k = int(r.integers(1, 80))
        out += (r.bytes(k) * (int(r.integers(1, 2000)) // k + 2)) + r.bytes(int(r.integers(0, 9)))
        if len(out) > 1 << 16:
            out *= n // len(out) + 1
    return out[:n]


def two(n: int, r: Random) -> bytes:
    """Two values: one bit each."""
    return r.integers(0, 2, n, dtype=np.uint8).tobytes()


def mixed(n: int, r: Random) -> bytes:
    """Parts of the others, one after another, some of them again."""
    out = b""
    while len(out) < n:
        kind = KINDS[list(KINDS)[int(r.integers(0, len(KINDS) - 1))]][0]
        part = kind(int(r.integers(1, max(n // 3, 2) + 1)), r)
        out += part + (out[: int(r.integers(0, 3000))] if r.random() < 0.5 else b"")
    return out[:n]


# With the size of an element; mixed comes last.
KINDS: dict[str, tuple[Callable[[int, Random], bytes], int]] = {
    "microscopy": (microscopy, 2),
    "mask50": (mask50, 2),
    "electron": (electron, 1),
    "weather": (weather, 4),
    "labels32": (labels32, 4),
    "labels64": (labels64, 8),
    "constant": (constant, 1),
    "noise": (noise, 1),
    "text": (text, 1),
    "geometric": (geometric, 1),
    "period": (period, 1),
    "two": (two, 1),
    "mixed": (mixed, 1),
}


def make(kind: str, n: int, *seed: int | str) -> bytes:
    """n bytes of a kind; the same for the same seed."""
    numbers = [part if isinstance(part, int) else int.from_bytes(part.encode()[:7], "little") for part in seed]
    return KINDS[kind][0](n, np.random.default_rng([*kind.encode(), n, *numbers]))
