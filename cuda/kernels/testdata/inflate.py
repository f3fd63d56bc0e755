"""Write inflate.jsonl: what zlib and blosc make of a few plain bytes, at settings that Go's encoders do not have.

    inflate.py > inflate.jsonl

A line is plain bytes by name, or a chunk: by which method, of which plain bytes. Needs numpy and numcodecs.
"""

import base64
import gzip
import io
import json
import zlib
from collections.abc import Iterator

import numpy as np
from numcodecs import Blosc, GZip, Zlib

R = np.random.default_rng(7)


def plains() -> dict[str, bytes]:
    t = np.arange(1200)
    words = [R.bytes(int(k)) for k in R.integers(2, 30, 60)]
    far = R.bytes(300)
    return {
        "noise": R.bytes(300),
        "smooth": (100 + 40 * np.sin(t / 90) + 3 * R.standard_normal(t.size)).astype("<u2").tobytes(),
        "words": b"".join(words[int(i)] for i in R.integers(0, 60, 160)),
        "zeros": bytes(9000),
        "two": R.integers(0, 2, 2000, dtype=np.uint8).tobytes(),
        "skewed": np.minimum(R.geometric(0.5, 2500), 60).astype(np.uint8).tobytes(),
        "far": far + bytes(32468) + far + b"x" + far,
        "one": b"a",
        "nothing": b"",
    }


def deflated(data: bytes, level: int, wbits: int, memory: int, strategy: int, flush: int | None) -> bytes:
    c = zlib.compressobj(level, zlib.DEFLATED, wbits, memory, strategy)
    if flush is None:
        return c.compress(data) + c.flush()
    out = b"".join(c.compress(data[i : i + 333]) + c.flush(flush) for i in range(0, len(data), 333))
    return out + c.flush()


def named(data: bytes) -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile("a name", "wb", 9, out, mtime=1) as f:
        f.write(data)
    return out.getvalue()


def chunks(data: bytes) -> Iterator[tuple[str, str, bytes]]:
    strategies = {"huffman": zlib.Z_HUFFMAN_ONLY, "rle": zlib.Z_RLE, "fixed": zlib.Z_FIXED, "filtered": zlib.Z_FILTERED}
    for name, strategy in strategies.items():
        yield "zlib", name, deflated(data, 6, 15, 8, strategy, None)
    for level in (1, 4, 9):
        yield "zlib", f"level {level}, little memory", deflated(data, level, 15, 1, zlib.Z_DEFAULT_STRATEGY, None)
        yield "zlib", f"level {level}, window 512", deflated(data, level, 9, 9, zlib.Z_DEFAULT_STRATEGY, None)
    for name, flush in {"partial": 1, "sync": zlib.Z_SYNC_FLUSH, "full": zlib.Z_FULL_FLUSH, "block": zlib.Z_BLOCK}.items():
        yield "gzip", f"flushed, {name}", deflated(data, 6, 31, 8, zlib.Z_DEFAULT_STRATEGY, flush)
    yield "gzip", "named", named(data)
    yield "gzip", "numcodecs", bytes(GZip(5).encode(data))
    yield "zlib", "numcodecs", bytes(Zlib(1).encode(data))
    if data:
        for shuffle in range(3):
            for typesize, blocksize in ((1, 0), (2, 0), (2, 512), (4, 2048)):
                encoder = Blosc("zlib", 5, shuffle, blocksize, typesize)
                elements = np.frombuffer(data[: len(data) // typesize * typesize], f"u{typesize}")
                if elements.size == 0 or len(data) % typesize:
                    continue
                yield "blosc", f"shuffle {shuffle}, typesize {typesize}, blocks of {blocksize}", bytes(encoder.encode(elements))


for name, data in plains().items():
    print(json.dumps({"plain": name, "bytes": base64.b64encode(data).decode()}))
    for method, how, encoded in chunks(data):
        print(
            json.dumps({"name": f"{method} {how}", "of": name, "method": method, "bytes": base64.b64encode(encoded).decode()})
        )
