"""Writes the golden vectors of package codec: *.jsonl in this folder.

Made with numcodecs 0.16.6 (c-blosc 1.21.7.dev, lz4 1.10.0), zstandard
0.25.0 (libzstd 1.5.7), tensorstore 0.1.86 (blosc with snappy), numpy 2.4.6 and
Python 3.11.7 with zlib 1.2.13:

    python3 -m venv venv
    venv/bin/pip install numcodecs==0.16.6 zstandard==0.25.0 tensorstore==0.1.86 numpy==2.4.6
    venv/bin/python gen.py

One case a line: name, codec, config, encoded (base64) and what it decodes to:
either data, the name of a data set that data_test.go makes again in Go ("kind
bytes element"), or want (base64). Cases with "error" must be refused with an
error that holds the text.
"""

import base64
import gzip
import json
import os
import struct
import warnings
import zlib

import numcodecs
import numpy as np
import zstandard
from numcodecs import blosc

HERE = os.path.dirname(os.path.abspath(__file__))


# The data sets. data_test.go has the same formulas.


def data(spec):
    kind, n, size = spec.split()
    n, size = int(n), int(size)
    return {"ramp": ramp, "steps": steps, "noise": noise, "mixed": mixed}[kind](n, size)


def steps(n, size):
    """Byte i is i//50."""
    return (np.arange(n) // 50).astype(np.uint8).tobytes()


def ramp(n, size):
    """Little-endian elements of `size` bytes: element i is 7*i."""
    i = np.arange(n, dtype=np.uint64)
    shift = np.minimum(i % np.uint64(size), np.uint64(7)) * np.uint64(8)
    wide = i % np.uint64(size) > 7
    value = (i // np.uint64(size) * np.uint64(7)) >> shift
    return np.where(wide, 0, value & np.uint64(255)).astype(np.uint8).tobytes()


def noise(n, size):
    """The high bytes of Knuth's linear congruential generator."""
    out, x = bytearray(), 1
    for _ in range(n):
        x = (x * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        out.append(x >> 56)
    return bytes(out)


def mixed(n, size):
    """The byte planes of an element alternate between ramp and noise."""
    a, b = ramp(n, size), noise(n, size)
    return bytes(a[i] if i % size % 2 else b[i] for i in range(n))


class Vectors:
    def __init__(self, name):
        self.path, self.lines = os.path.join(HERE, name + ".jsonl"), []

    def add(self, name, codec, encoded, config=None, **result):
        case = dict(name=name, codec=codec, config=config or {}, encoded=base64.b64encode(encoded).decode())
        if isinstance(result.get("want"), (bytes, bytearray)):
            result["want"] = base64.b64encode(result["want"]).decode()
        self.lines.append(json.dumps(case | result))

    def write(self):
        with open(self.path, "w") as f:
            f.write("\n".join(self.lines) + "\n")
        print(self.path, len(self.lines), "cases", os.path.getsize(self.path), "bytes")


# blosc


def blosc_frame(spec, cname, clevel, shuffle, typesize, blocksize):
    raw = data(spec)
    frame = blosc.compress(raw, cname.encode(), clevel, shuffle, blocksize, typesize)
    assert not raw or blosc.decompress(frame) == raw  # numcodecs fails on its own empty frame
    return frame


def gen_blosc():
    v = Vectors("blosc")

    def add(spec, cname, shuffle, typesize, clevel=5, blocksize=0, suffix=""):
        frame = blosc_frame(spec, cname, clevel, shuffle, typesize, blocksize)
        config = dict(cname=cname, clevel=clevel, shuffle=shuffle, typesize=typesize, blocksize=blocksize)
        v.add(
            f"{cname} shuffle {shuffle} typesize {typesize} blocksize {blocksize}: {spec}{suffix}",
            "blosc",
            frame,
            config,
            data=spec,
        )

    for cname in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]:
        for shuffle in [0, 1, 2]:
            for typesize in [1, 2, 3, 4, 8, 12, 16, 17, 255, 256, 300]:
                add(f"ramp 4003 {min(typesize, 8)}", cname, shuffle, typesize)
            add("ramp 2002 2", cname, shuffle, 2)  # 1001 u16: bit shuffle leaves them alone
            add("ramp 2000 2", cname, shuffle, 2)
            add("mixed 5000 4", cname, shuffle, 4)  # some streams raw
            add("noise 300 1", cname, shuffle, 4)  # memcpyed
            for n in [0, 1, 3, 127, 128, 129]:
                add(f"ramp {n} 1", cname, shuffle, 4)
            # Several blocks; the last one short, and with noise a raw stream in it.
            for n in [4096, 4097, 5001, 4096 + 512]:
                add(f"ramp {n} 4", cname, shuffle, 4, blocksize=1024)
            add("mixed 4501 4", cname, shuffle, 4, blocksize=2048)
            add("ramp 10000 16", cname, shuffle, 16, blocksize=4096)
    # Sizes of blocks that c-blosc chooses by itself: the encoder must follow.
    for cname in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]:
        for clevel in range(10):
            for typesize in [1, 4, 16]:
                frame = blosc_frame("steps 3000000 1", cname, clevel, 1, typesize, 0)
                v.add(
                    f"block size: {cname} {clevel} {typesize}",
                    "blosc",
                    b"",
                    dict(cname=cname, clevel=clevel, typesize=typesize),
                    header=base64.b64encode(frame[:16]).decode(),
                )
    snappy_frames(v)
    v.write()


def snappy_frames(v):
    import tensorstore as ts

    for spec, typesize in [("ramp 2000 4", 4), ("noise 600 1", 1), ("mixed 5000 4", 4)]:
        for shuffle in [0, 1, 2]:
            raw = np.frombuffer(data(spec), dtype=f"<u{typesize}")
            kv = ts.KvStore.open({"driver": "memory"}, context=ts.Context()).result()
            compressor = dict(id="blosc", cname="snappy", clevel=5, shuffle=shuffle)
            store = ts.open(
                {
                    "driver": "zarr",
                    "kvstore": kv.spec(),
                    "metadata": dict(
                        shape=[len(raw)],
                        chunks=[len(raw)],
                        dtype=f"<u{typesize}" if typesize > 1 else "|u1",
                        compressor=compressor,
                        fill_value=None,
                    ),
                },
                create=True,
                context=kv.context if hasattr(kv, "context") else None,
            ).result()
            store.write(raw).result()
            frame = bytes(store.kvstore.read("0").result().value)
            assert frame[2] >> 5 == 2, frame[:16]
            v.add(f"snappy shuffle {shuffle}: {spec}", "blosc", frame, compressor | dict(typesize=typesize), data=spec)


# zstd


def skippable(payload, nibble=0):
    return struct.pack("<II", 0x184D2A50 + nibble, len(payload)) + payload


def zstd_header(content, single=True, window=0, checksum=False):
    descriptor = (1 << 5 if single else 0) | (1 << 2 if checksum else 0) | (2 << 6)
    return struct.pack("<IB", 0xFD2FB528, descriptor) + (b"" if single else bytes([window])) + struct.pack("<I", content)


def zstd_block(kind, payload, size=None, last=False):
    size = len(payload) if size is None else size
    return struct.pack("<I", size << 3 | kind << 1 | last)[:3] + payload


def gen_zstd():
    v = Vectors("zstd")

    def frame(raw, level=3, **kw):
        return zstandard.ZstdCompressor(level=level, **kw).compress(raw)

    def streamed(raw, **kw):
        z = zstandard.ZstdCompressor(write_content_size=False, **kw).compressobj()
        return (
            z.compress(raw[: len(raw) // 2])
            + z.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            + z.compress(raw[len(raw) // 2 :])
            + z.flush()
        )

    for spec in ["ramp 0 1", "ramp 1 1", "ramp 300 2", "steps 140000 1", "noise 600 1", "mixed 3000 4"]:
        raw = data(spec)
        for level in [-5, 1, 3, 9, 19]:
            v.add(f"level {level}: {spec}", "zstd", frame(raw, level), data=spec)
        v.add(f"no content size: {spec}", "zstd", frame(raw, write_content_size=False), data=spec)
        v.add(f"streamed: {spec}", "zstd", streamed(raw), data=spec)
        v.add(f"checksum: {spec}", "zstd", frame(raw, write_checksum=True), data=spec)
        v.add(f"streamed, checksum: {spec}", "zstd", streamed(raw, write_checksum=True), data=spec)
        half = len(raw) // 2
        two = frame(raw[:half]) + frame(raw[half:], write_content_size=False)
        v.add(f"two frames: {spec}", "zstd", two, data=spec)
        mixture = (
            skippable(b"")
            + frame(raw[:half])
            + skippable(b"ignored", 15)
            + frame(b"")
            + frame(raw[half:])
            + skippable(bytes(100), 3)
        )
        v.add(f"skippable and empty frames: {spec}", "zstd", mixture, data=spec)
    long = zstandard.ZstdCompressionParameters.from_level(3, window_log=27, enable_ldm=True)
    z = zstandard.ZstdCompressor(compression_params=long).compressobj()
    raw = data("steps 140000 1")
    v.add("window of 128 MiB", "zstd", z.compress(raw) + z.flush(), data="steps 140000 1")
    v.add(
        "window of 2 GiB",
        "zstd",
        zstd_header(5, single=False, window=21 << 3) + zstd_block(0, b"hello", last=True),
        want=b"hello",
    )
    v.add(
        "window of 4 GiB",
        "zstd",
        zstd_header(5, single=False, window=22 << 3) + zstd_block(0, b"hello", last=True),
        error="window",
        unsupported=True,
    )
    v.add(
        "raw and RLE blocks",
        "zstd",
        zstd_header(1008, single=False, window=0)
        + zstd_block(0, b"plain")
        + zstd_block(1, b"x", 1000)
        + zstd_block(0, b"")
        + zstd_block(0, b"end", last=True),
        want=b"plain" + b"x" * 1000 + b"end",
    )
    v.add("only skippable", "zstd", skippable(b"abc"), want=b"")

    whole = frame(b"some bytes " * 100, write_checksum=True)
    for name, broken, error in [
        ("nothing", b"", "no bytes"),
        ("three bytes", whole[:3], "ends"),
        ("torn", whole[:-1], "ends"),
        ("torn block", whole[:-8], "ends"),
        ("trailing byte", whole + b"\0", "ends"),
        ("trailing zeros", whole + bytes(16), "magic"),
        ("checksum", whole[:-1] + bytes([whole[-1] ^ 1]), "zstd"),
        ("reserved bit", whole[:4] + bytes([whole[4] | 8]) + whole[5:], "reserved"),
        ("reserved block type", zstd_header(5) + zstd_block(3, b"hello", last=True), "reserved"),
        (
            "block beyond the window",
            zstd_header(2000, single=False, window=0) + zstd_block(0, bytes(2000), last=True),
            "block of 2000",
        ),
        ("content shorter than its size", zstd_header(6) + zstd_block(0, b"hello", last=True), "zstd"),
        ("content longer than its size", zstd_header(4) + zstd_block(0, b"hell") + zstd_block(0, b"o", last=True), "more than"),
        ("legacy 0.7", struct.pack("<I", 0xFD2FB527) + bytes(20), "legacy"),
        ("legacy 0.1", struct.pack("<I", 0xFD2FB51E) + bytes(20), "legacy"),
        ("skippable beyond the end", skippable(b"abc")[:-1], "ends"),
        ("not zstd", b"\x1f\x8b\x08" + bytes(20), "magic"),
    ]:
        v.add("bad: " + name, "zstd", broken, error=error, want=bytes(1100), unsupported=error == "legacy")
    samples = [(b"sample %d with some common text " % i) * 4 for i in range(2000)]
    dictionary = zstandard.train_dictionary(2000, samples)
    v.add(
        "bad: dictionary",
        "zstd",
        zstandard.ZstdCompressor(dict_data=dictionary).compress(samples[0]),
        error=f"dictionary {dictionary.dict_id()}",
        want=samples[0],
        unsupported=True,
    )
    v.write()


# gzip, zlib, lz4


def timeless(member):
    return member[:4] + bytes(4) + member[8:]


def gen_deflate():
    v = Vectors("deflate")
    for spec in ["ramp 0 1", "ramp 1 1", "steps 140000 1", "noise 600 1", "mixed 3000 4"]:
        raw = data(spec)
        half = len(raw) // 2
        for level in [0, 1, 6, 9]:
            if level == 0 and len(raw) > 100_000:
                continue
            v.add(f"gzip {level}: {spec}", "gzip", timeless(numcodecs.GZip(level).encode(raw)), data=spec)
            v.add(f"zlib {level}: {spec}", "zlib", numcodecs.Zlib(level).encode(raw), data=spec)
        v.add(f"zlib named gzip: {spec}", "gzip", zlib.compress(raw), data=spec)
        v.add(f"gzip named zlib: {spec}", "zlib", gzip.compress(raw, mtime=0), data=spec)
        members = gzip.compress(raw[:half], mtime=0) + gzip.compress(b"", mtime=0) + gzip.compress(raw[half:], mtime=0)
        v.add(f"members: {spec}", "gzip", members, data=spec)
        v.add(f"members and zeros: {spec}", "gzip", members + bytes(700), data=spec)
        v.add(f"garbage: {spec}", "gzip", members + b"garbage", data=spec)
        v.add(f"zlib and zeros: {spec}", "zlib", zlib.compress(raw) + bytes(9), data=spec)
    fields = bytes([0x1F, 0x8B, 8, 0x1E]) + bytes(6) + b"\x03\x00abc" + b"name\0" + b"comment\0"
    fields += struct.pack("<H", zlib.crc32(fields) & 0xFFFF)
    body = zlib.compressobj(6, zlib.DEFLATED, -15)
    tail = body.compress(b"hello") + body.flush() + struct.pack("<II", zlib.crc32(b"hello"), 5)
    v.add("all header fields", "gzip", fields + tail, want=b"hello")
    whole, zwhole = gzip.compress(b"some bytes " * 100, mtime=0), zlib.compress(b"some bytes " * 100)
    z = zlib.compressobj(zdict=b"some bytes")
    with_dictionary = z.compress(b"some bytes " * 100) + z.flush()
    for name, codec, broken, error in [
        ("nothing", "gzip", b"", "ends"),
        ("one byte", "gzip", b"\x1f", "ends"),
        ("torn header", "gzip", whole[:8], "ends"),
        ("torn name", "gzip", fields[:17], "ends"),
        ("header checksum", "gzip", fields[:-1] + bytes([fields[-1] ^ 1]) + tail, "header"),
        ("torn stream", "gzip", whole[:-12], "ends"),
        ("torn trailer", "gzip", whole[:-1], "ends"),
        ("checksum", "gzip", whole[:-8] + bytes(4) + whole[-4:], "checksum"),
        ("length", "gzip", whole[:-4] + bytes(4), "number of bytes"),
        ("method", "gzip", whole[:2] + b"\x07" + whole[3:], "method"),
        ("second member", "gzip", whole + whole[:20], "ends"),
        ("deflate", "gzip", whole[:10] + b"\xff" * 20, "gzip"),
        ("zlib checksum", "zlib", zwhole[:-1] + bytes([zwhole[-1] ^ 1]), "checksum"),
        ("zlib torn", "zlib", zwhole[:-3], "ends"),
        ("zlib dictionary", "zlib", with_dictionary, "dictionary"),
        ("neither", "zlib", b"hello world", "neither"),
    ]:
        v.add("bad: " + name, codec, broken, error=error, want=bytes(2200), unsupported=error in ("method", "dictionary"))
    v.write()


def gen_lz4():
    v = Vectors("lz4")
    for spec in ["ramp 1 1", "ramp 15 1", "ramp 300 2", "steps 140000 1", "noise 600 1", "mixed 3000 4"]:
        for acceleration in [1, 20]:
            v.add(f"acceleration {acceleration}: {spec}", "lz4", numcodecs.LZ4(acceleration).encode(data(spec)), data=spec)
    whole = numcodecs.LZ4().encode(b"some bytes " * 100)
    for name, broken, error in [
        ("nothing", b"", "header"),
        ("header only", whole[:4], "does not decode"),
        ("torn", whole[:-1], "does not decode"),
        ("trailing", whole + b"\0", "does not decode"),
        ("short header", struct.pack("<I", 1099) + whole[4:], "does not decode"),
        ("long header", struct.pack("<I", 1101) + whole[4:], "more than"),
        ("negative header", struct.pack("<i", -1) + whole[4:], "more than"),
        ("distance 0", struct.pack("<I", 10) + b"\x10a\0\0\x50bcdef", "does not decode"),
        ("distance before the start", struct.pack("<I", 10) + b"\x10a\x02\0\x50bcdef", "does not decode"),
    ]:
        v.add("bad: " + name, "lz4", broken, error=error, want=bytes(1100))
    v.write()


# Filters and checksums


def values(dtype, n=100):
    """Numbers that use the range of the type, some of them far apart."""
    r = np.random.default_rng(7)
    d = np.dtype(dtype)
    if d.kind == "b":
        return r.random(n) < 0.5
    if d.kind == "f":
        return (np.cumsum(r.standard_normal(n)) * 3).astype(d)
    info = np.iinfo(d)
    return np.concatenate(
        [
            r.integers(info.min, info.max, n - 4, dtype=d.newbyteorder("="), endpoint=True),
            np.array([info.min, info.max, info.max, info.min], d),
        ]
    ).astype(d)


def gen_filters():
    v = Vectors("filters")

    def add(codec, raw, suffix=""):
        """What numcodecs decodes is wanted, which for lossy filters is not raw."""
        encoded = codec.encode(raw)
        config = codec.get_config()
        encoded = np.asarray(encoded)
        decoded = np.asarray(codec.decode(encoded))
        text = " ".join(f"{k}={w}" for k, w in config.items() if k != "id")
        v.add(f"{config['id']} {text}{suffix}", config["id"], encoded.tobytes(), config, want=decoded.tobytes())

    for dtype in ["|u1", "|i1", "<u2", "<i2", ">i2", "<u4", ">u4", "<i8", ">u8", "<f2", "<f4", ">f4", "<f8", ">f8"]:
        add(numcodecs.Delta(dtype), values(dtype))
    for dtype, astype in [
        ("<i4", "|i1"),
        ("<i8", ">i2"),
        (">u4", "<u2"),
        ("<u2", "|u1"),
        ("<f8", "<f4"),
        ("<f4", "<f8"),
        ("<f4", "|i1"),
        ("<f8", "<i8"),
        ("<i2", "<i8"),
        ("<f2", "<f8"),
        ("<f2", "|i1"),
        ("<f2", "<u2"),
        ("<f4", "<i2"),
        ("<f4", "<i4"),
        ("<f8", "<f2"),
        ("<i4", "<f4"),
        ("<i2", "<f8"),
    ]:
        raw = (
            values(dtype)
            if np.dtype(dtype).kind == "f"
            else np.cumsum(np.random.default_rng(3).integers(0, 5, 100)).astype(dtype)
        )
        add(numcodecs.Delta(dtype, astype), raw)
    add(numcodecs.Delta("<i4"), values("<i4", 5)[:1], " one element")

    for dtype, astype, scale, offset in [
        ("<f8", "|u1", 10, -5),
        ("<f8", "<i2", 1000, 0.5),
        ("<f4", "<i2", 100, 20),
        (">f4", ">i4", 1e4, -3.7),
        ("<f4", "|i1", 3, 0),
        ("<f8", "<i8", 1e6, 1e3),
        ("<f8", "<u4", 7.3, -100),
        ("<f4", "<f4", 3, 7),
        ("<f4", "<f4", 0.1, 0.3),
        ("<f8", "<f8", 0.1, 0.3),
        ("<f8", "<f4", 9.7, -0.123456789),
        ("<f2", "<f2", 3.3, 0.77),
        ("<f4", "<f2", 3, 0.1),
        ("<f2", "|u1", 10, -5),
        ("<f4", "|u1", 10.0, -5.0),
    ]:
        raw = values(dtype)
        if np.dtype(astype).kind == "u":
            raw = np.abs(raw) / 10
        add(numcodecs.FixedScaleOffset(offset=offset, scale=scale, dtype=dtype, astype=astype), raw.astype(dtype))
    for dtype, astype in [("<i4", "<i2"), ("<u2", "|u1"), (">i8", "<i4"), ("<u4", "<f4")]:
        add(
            numcodecs.FixedScaleOffset(offset=1000, scale=0.25, dtype=dtype, astype=astype),
            (1000 + np.arange(100)).astype(dtype),
        )

    for dtype, astype in [("<f4", "<f4"), ("<f8", "<f4"), ("<f8", "<f2"), (">f8", ">f8"), ("<f2", "<f4"), ("<f4", "<f8")]:
        for digits in [0, 1, 4]:
            add(numcodecs.Quantize(digits, dtype, astype), values(dtype))
    for dtype, keepbits in [("<f4", 7), ("<f8", 20), ("<f2", 3), ("<f4", 23), ("<f4", 0)]:
        raw = values(dtype)
        encoded = np.asarray(numcodecs.BitRound(keepbits).encode(raw))
        v.add(
            f"bitround {dtype} {keepbits}",
            "bitround",
            encoded.tobytes(),
            dict(keepbits=keepbits, dtype=dtype),
            want=encoded.tobytes(),
            original=base64.b64encode(raw.tobytes()).decode(),
        )
    for n in [1, 7, 8, 9, 16, 1001]:
        add(numcodecs.PackBits(), values("?", n), f" {n}")

    types = ["|b1", "|i1", "|u1", "<i2", ">u2", "<u4", ">i4", "<i8", ">u8", "<f2", "<f4", ">f8"]
    for stored in types:
        for decoded in types:
            s, d = np.dtype(stored), np.dtype(decoded)
            raw = values(stored)
            if s.kind == "f" and d.kind == "i":
                raw = (raw % 120).astype(s)  # beyond the range numpy has no defined result
            if s.kind == "f" and d.kind == "u":
                raw = (np.abs(raw) % 250).astype(s)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                codec = numcodecs.AsType(stored, decoded)
                v.add(
                    f"astype {stored} to {decoded}",
                    "astype",
                    raw.tobytes(),
                    codec.get_config(),
                    want=np.asarray(codec.decode(raw)).tobytes(),
                )

    for size in [1, 2, 4, 8, 3, 12]:
        spec = f"ramp {240} {size}"
        v.add(
            f"shuffle {size}", "shuffle", bytes(numcodecs.Shuffle(size).encode(data(spec))), dict(elementsize=size), data=spec
        )
    for location in ["start", "end"]:
        v.add(
            f"crc32c {location}",
            "crc32c",
            bytes(numcodecs.registry.get_codec(dict(id="crc32c", location=location)).encode(data("ramp 99 1"))),
            dict(location=location),
            data="ramp 99 1",
        )
    v.write()


if __name__ == "__main__":
    gen_blosc()
    gen_zstd()
    gen_deflate()
    gen_lz4()
    gen_filters()
