"""Codec streams in every form that writers produce: the encoders are c-blosc, libzstd, zlib and liblz4."""

import gzip
import struct
import zlib

import numcodecs
import numcodecs.blosc
import numpy as np
import pytest
import zstandard

import handmade as h
import oracles

KINDS = ["noise", "steps", "zeros", "ramp"]


def payload(kind: str, n: int, rng: np.random.Generator) -> bytes:
    if kind == "noise":
        return rng.bytes(n)
    if kind == "zeros":
        return bytes(n)
    if kind == "ramp":
        return (np.arange((n + 1) // 2, dtype="<u2") // 5).tobytes()[:n]
    return rng.integers(0, 3, n, dtype=np.uint8).tobytes()


BLOSC = [
    (cname, shuffle, typesize)
    for cname in ("lz4", "lz4hc", "zstd", "blosclz", "zlib")
    for shuffle in (0, 1, 2)
    for typesize in (1, 2, 3, 4, 8, 16, 17, 300)
]
LENGTHS = [1, 15, 127, 128, 1000, 1001, 2002, 4003, 65536, 100_003]


@pytest.mark.parametrize(("cname", "shuffle", "typesize"), BLOSC)
def test_blosc(cname: str, shuffle: int, typesize: int, tmp_path, rng, same) -> None:
    """One array, each chunk with another level, block size and content: every header is read anew.

    Noise gives memcpyed frames, short lengths too; block sizes give raw blocks,
    short last blocks and many blocks a chunk; odd lengths leave bytes past whole
    elements.
    """
    n = LENGTHS[(BLOSC.index((cname, shuffle, typesize)) * 7) % len(LENGTHS)]
    chunks, settings = [], [(5, 0), (9, 256), (1, 4096), (0, 0), (3, 1000), (7, 0), (5, 33_000)]
    for k, (clevel, blocksize) in enumerate(settings):
        body = payload(KINDS[k % 4], n, rng)
        chunks.append((body, numcodecs.blosc.compress(body, cname.encode(), clevel, shuffle, blocksize, typesize)))
    data = np.frombuffer(b"".join(c[0] for c in chunks), np.uint8)
    compressor = {"id": "blosc", "cname": cname, "clevel": 5, "shuffle": shuffle, "blocksize": 0}
    oracles.lay(tmp_path, h.v2_metadata(data, [n], compressor=compressor))
    for k, (_, frame) in enumerate(chunks):
        h.put(tmp_path, str(k), frame)
    assert np.array_equal(oracles.read_zarr(tmp_path), data)
    same(tmp_path, data, [None, ((n // 2, 3 * n),)])


def test_blosc_trailing_bytes(tmp_path, rng, same) -> None:
    """z5 pads frames with 16 zero bytes: the header's cbytes counts, not the length of the object."""
    data = rng.integers(0, 50, 4000).astype("<u2")
    frame = numcodecs.blosc.compress(data.tobytes(), b"zstd", 5, 1, 0, 2)
    compressor = {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1}
    h.write_v2(tmp_path, h.v2_metadata(data, [4000], compressor=compressor), data, lambda _: frame + bytes(16))
    same(tmp_path, data)


def test_blosc_unknown_keys_of_the_compressor(tmp_path, rng, same) -> None:
    """The stream holds all that decoding needs; other keys and a wrong cname do not matter."""
    data = rng.integers(0, 50, 4000).astype("<u2")
    frame = numcodecs.blosc.compress(data.tobytes(), b"zstd", 5, 2, 0, 2)
    compressor = {"id": "blosc", "cname": "lz4", "shuffle": -1, "nthreads": 3, "typesize": 7}
    h.write_v2(tmp_path, h.v2_metadata(data, [4000], compressor=compressor), data, lambda _: frame)
    same(tmp_path, data)


def streamed(raw: bytes, **options) -> bytes:
    """A frame without content size, as tensorstore and other streaming writers make it."""
    stream = zstandard.ZstdCompressor(write_content_size=False, **options).compressobj()
    return stream.compress(raw) + stream.flush()


def plain_zstd(raw: bytes, level: int = 3, checksum: bool = False) -> bytes:
    return zstandard.ZstdCompressor(level=level, write_checksum=checksum).compress(raw)


def skippable(body: bytes, nibble: int = 0) -> bytes:
    return struct.pack("<II", 0x184D2A50 + nibble, len(body)) + body


def long_window(raw: bytes) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return stream.compress(raw) + stream.flush()


def flushed(raw: bytes) -> bytes:
    """Many small blocks: a flush after every 100 bytes."""
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    parts = [
        stream.compress(raw[i : i + 100]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for i in range(0, len(raw), 100)
    ]
    return b"".join(parts) + stream.flush()


ZSTD = {
    "without content size": streamed,
    "streamed with checksum": lambda raw: streamed(raw, write_checksum=True),
    "checksum": lambda raw: plain_zstd(raw, checksum=True),
    "two frames": lambda raw: plain_zstd(raw[:999]) + streamed(raw[999:]),
    "three frames, one empty": lambda raw: plain_zstd(raw[:10]) + plain_zstd(b"") + plain_zstd(raw[10:]),
    "skippable frame first": lambda raw: skippable(b"abc") + plain_zstd(raw),
    "skippable frame last": lambda raw: plain_zstd(raw) + skippable(b"", 15),
    "window of 128 MiB": long_window,
    "small blocks": flushed,
} | {f"level {n}": (lambda raw, n=n: plain_zstd(raw, n)) for n in (-50, -1, 1, 9, 16, 22)}


@pytest.mark.parametrize("form", ZSTD)
@pytest.mark.parametrize("kind", KINDS)
def test_zstd(form: str, kind: str, tmp_path, rng, same) -> None:
    n = 300_001
    data = np.frombuffer(payload(kind, n, rng), np.uint8)
    codecs = [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 3, "checksum": False}}]
    h.write_v3(tmp_path, h.v3_metadata(data, [n], codecs), data, ZSTD[form])
    same(tmp_path, data)


def stored_blocks(raw: bytes) -> bytes:
    stream = zlib.compressobj(0)
    return stream.compress(raw) + stream.flush()


GZIP = {
    "one member": lambda raw: gzip.compress(raw, 6),
    "members": lambda raw: gzip.compress(raw[:1000], 1) + gzip.compress(raw[1000:], 9),
    "empty member": lambda raw: gzip.compress(b"") + gzip.compress(raw),
    "zero padding": lambda raw: gzip.compress(raw) + bytes(512),
    "a name in the header": lambda raw: named_gzip(raw),
    "zlib under the name gzip": lambda raw: zlib.compress(raw, 6),
    "stored": lambda raw: gzip.compress(raw, 0),
}


def named_gzip(raw: bytes) -> bytes:
    plain = gzip.compress(raw)
    return plain[:3] + b"\x08" + plain[4:10] + b"chunk.bin\x00" + plain[10:]


@pytest.mark.parametrize("form", GZIP)
def test_gzip(form: str, tmp_path, rng, same) -> None:
    data = np.frombuffer(payload("steps", 50_000, rng), np.uint8)
    codecs = [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 5}}]
    h.write_v3(tmp_path, h.v3_metadata(data, [50_000], codecs), data, GZIP[form])
    same(tmp_path, data)


@pytest.mark.parametrize("form", ["zlib", "stored", "gzip under the name zlib"])
def test_zlib(form: str, tmp_path, rng, same) -> None:
    encode = {"zlib": zlib.compress, "stored": stored_blocks, "gzip under the name zlib": gzip.compress}[form]
    data = np.frombuffer(payload("steps", 50_000, rng), np.uint8)
    h.write_v2(tmp_path, h.v2_metadata(data, [50_000], compressor={"id": "zlib", "level": 1}), data, encode)
    same(tmp_path, data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 12, 13, 255, 70_000])
def test_lz4(kind: str, n: int, tmp_path, rng, same) -> None:
    data = np.frombuffer(payload(kind, n, rng), np.uint8)
    compressor = {"id": "lz4", "acceleration": 1}
    h.write_v2(tmp_path, h.v2_metadata(data, [n], compressor=compressor), data, lambda raw: bytes(numcodecs.LZ4().encode(raw)))
    same(tmp_path, data)


FILTERS = {
    "delta i2 of i8": ({"id": "delta", "dtype": "<i8", "astype": "<i2"}, "<i8", numcodecs.Delta("<i8", "<i2")),
    "delta wraps": ({"id": "delta", "dtype": "|u1", "astype": "|u1"}, "|u1", numcodecs.Delta("|u1")),
    "delta big": ({"id": "delta", "dtype": ">i4", "astype": ">i4"}, ">i4", numcodecs.Delta(">i4")),
    "delta float": ({"id": "delta", "dtype": "<f4", "astype": "<f4"}, "<f4", numcodecs.Delta("<f4")),
    "scaled u1 of f8": (
        {"id": "fixedscaleoffset", "offset": 100, "scale": 10, "dtype": "<f8", "astype": "|u1"},
        "<f8",
        numcodecs.FixedScaleOffset(100, 10, "<f8", "|u1"),
    ),
    "scaled i2 of f4": (
        {"id": "fixedscaleoffset", "offset": 1, "scale": 0.1, "dtype": "<f4", "astype": "<i2"},
        "<f4",
        numcodecs.FixedScaleOffset(1, 0.1, "<f4", "<i2"),
    ),
    "quantize f8": (
        {"id": "quantize", "digits": 3, "dtype": "<f8", "astype": "<f4"},
        "<f8",
        numcodecs.Quantize(3, "<f8", "<f4"),
    ),
    "bitround f8": ({"id": "bitround", "keepbits": 10}, "<f8", numcodecs.BitRound(10)),
    "bitround f2": ({"id": "bitround", "keepbits": 3}, "<f2", numcodecs.BitRound(3)),
    "packbits": ({"id": "packbits"}, "|b1", numcodecs.PackBits()),
    "astype f4 of f8": ({"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<f8"}, "<f8", numcodecs.AsType("<f4", "<f8")),
    "astype i8 of u2": ({"id": "astype", "encode_dtype": "<i8", "decode_dtype": "<u2"}, "<u2", numcodecs.AsType("<i8", "<u2")),
    "shuffle 3 of u1": ({"id": "shuffle", "elementsize": 3}, "|u1", numcodecs.Shuffle(3)),
    "shuffle 8": ({"id": "shuffle", "elementsize": 8}, "<f8", numcodecs.Shuffle(8)),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("n", [1, 7, 8, 1001])
def test_filter(name: str, n: int, tmp_path, same) -> None:
    """Filters of v2 against numcodecs, value by value, with an own type on the way."""
    document, dtype, codec = FILTERS[name]
    if name == "shuffle 3 of u1":
        n *= 3  # numcodecs takes whole elements only
    numbers = np.arange(n) * 37 % 251
    data = (numbers % 3 == 0) if dtype == "|b1" else (numbers / (4 if "f" in dtype else 1)).astype(dtype)
    if name == "scaled u1 of f8":
        data = data / 10 + 100
    oracles.lay(tmp_path, h.v2_metadata(data, [n], filters=[document]))
    h.put(tmp_path, "0", np.asarray(codec.encode(data)).tobytes())
    want = np.asarray(codec.decode(codec.encode(data))).view(dtype).reshape(n)
    same(tmp_path, want.astype(want.dtype.newbyteorder("<")))


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_scaling_is_pinned(dtype: str, tmp_path, rng, same) -> None:
    """fixedscaleoffset decodes all 65536 codes as numpy does: divide, add, then cast."""
    codes = np.arange(65536, dtype="<u2")
    codec = numcodecs.FixedScaleOffset(offset=-273.15, scale=37.3, dtype=dtype, astype="<u2")
    document = {"id": "fixedscaleoffset", "offset": -273.15, "scale": 37.3, "dtype": dtype, "astype": "<u2"}
    want = np.asarray(codec.decode(codes)).view(dtype)
    oracles.lay(tmp_path, h.v2_metadata(want, [65536], filters=[document]))
    h.put(tmp_path, "0", codes.tobytes())
    same(tmp_path, want)
