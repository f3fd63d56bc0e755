"""Corrupt input of every kind: one error that names the place, and nothing else harmed."""

import gzip
import struct
import zlib

import crc32c
import numcodecs
import numpy as np
import pytest
import zstandard

import handmade as h
import oracles
import reader
from conftest import check

DATA = np.arange(4 * 16, dtype="<u2").reshape(4, 16)
EMPTY = 2**64 - 1


def parts() -> list[bytes]:
    return [DATA[i : i + 1].tobytes() for i in range(4)]


def lay_shard(path, body: bytes, **layout) -> None:
    oracles.lay(path, h.v3_metadata(DATA, [4, 16], [h.sharding([1, 16], [h.LITTLE], **layout)]))
    h.put(path, "c/0/0", body)


ENTRIES = {
    "offset alone is the sentinel": (EMPTY, 32),
    "length alone is the sentinel": (32, EMPTY),
    "offset beyond the shard": (10_000, 32),
    "end beyond the shard": (120, 10_000),
    "offset + length overflows": (2**63, 2**63),
    "length zero": (32, 0),
    "range overlaps the index": (120, 32),
    "length of another chunk": (32, 30),
}


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("name", ENTRIES)
def test_index_entry(name: str, start: bool, tmp_path, headrace, fails) -> None:
    """Entry 1 lies; the chunks of the other entries are read as before."""
    size = 4 * 16 + 4
    shift = size if start else 0
    entries = [(shift + 32 * i, 32) for i in range(4)]
    offset, length = ENTRIES[name]
    entries[1] = (10, 32) if start and name == "range overlaps the index" else (offset, length)
    if start and name in ("length alone is the sentinel", "length zero", "length of another chunk"):
        entries[1] = (offset + shift, length)
    lay_shard(tmp_path, h.glue(b"".join(parts()), entries, start=start), start=start)
    fails(tmp_path, "corrupt", "c/0/0", box=((1, 2), (0, 16)))


def test_index_checksum(tmp_path, fails) -> None:
    body = bytearray(h.shard(parts()))
    body[-20] ^= 0x40
    lay_shard(tmp_path, bytes(body))
    fails(tmp_path, "corrupt", "c/0/0", "checksum")


@pytest.mark.parametrize("length", [0, 1, 67])
def test_shard_shorter_than_its_index(length: int, tmp_path, fails) -> None:
    lay_shard(tmp_path, h.shard(parts())[:length])
    fails(tmp_path, "corrupt", "c/0/0")


def frame(name: str, raw: bytes) -> bytes:
    if name == "blosc":
        return numcodecs.blosc.compress(raw, b"lz4", 5, 1, 0, 2)
    if name == "zstd":
        return zstandard.ZstdCompressor(write_checksum=True).compress(raw)
    if name == "gzip":
        return gzip.compress(raw)
    if name == "zlib":
        return zlib.compress(raw)
    if name == "lz4":
        return bytes(numcodecs.LZ4().encode(raw))
    return raw + crc32c.crc32c(raw).to_bytes(4, "little")


V3 = {
    "blosc": {
        "name": "blosc",
        "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0},
    },
    "zstd": {"name": "zstd", "configuration": {"level": 3, "checksum": True}},
    "gzip": {"name": "gzip", "configuration": {"level": 5}},
    "zlib": {"name": "numcodecs.zlib", "configuration": {"level": 5}},
    "lz4": {"name": "numcodecs.lz4", "configuration": {"acceleration": 1}},
    "crc32c": {"name": "crc32c"},
}


def steps(rng: np.random.Generator, n: int = 3000) -> np.ndarray:
    return rng.integers(0, 5, n).astype("<u2")


DAMAGE = {
    "empty object": lambda b: b"",
    "half": lambda b: b[: len(b) // 2],
    "last byte missing": lambda b: b[:-1],
    "all zeros": lambda b: bytes(len(b)),
    "all ones": lambda b: b"\xff" * len(b),
    "text": lambda b: b"<html>403 Forbidden</html>",
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("codec", V3)
def test_damaged_chunk(codec: str, damage: str, tmp_path, rng, headrace) -> None:
    """The second chunk is damaged: it is an error that names it, and the first is still read."""
    data = steps(rng, 6000)
    oracles.lay(tmp_path, h.v3_metadata(data, [3000], [h.LITTLE, V3[codec]]))
    h.put(tmp_path, "c/0", frame(codec, data[:3000].tobytes()))
    h.put(tmp_path, "c/1", DAMAGE[damage](frame(codec, data[3000:].tobytes())))
    with pytest.raises(reader.ReadError, match="c/1") as caught:
        headrace.read(tmp_path, ((2000, 4000),))
    # Garbage in a blosc header reads as a version of the format that does not exist.
    assert caught.value.kind == "corrupt" or (codec == "blosc" and caught.value.kind == "unsupported")
    check(headrace.read(tmp_path, ((0, 3000),)), data[:3000], "the chunk beside it")


@pytest.mark.parametrize("length", [2999, 3001, 0, 6000])
@pytest.mark.parametrize("codec", V3)
def test_wrong_decoded_length(codec: str, length: int, tmp_path, rng, fails) -> None:
    """A sound stream of another length than the chunk's: got and expected are told."""
    data = steps(rng)
    raw = steps(rng, length).tobytes()
    h.write_v3(tmp_path, h.v3_metadata(data, [3000], [h.LITTLE, V3[codec]]), data, lambda _: frame(codec, raw))
    fails(tmp_path, "corrupt", "c/0", "6000")


@pytest.mark.parametrize("codec", ["zstd", "gzip", "zlib", "crc32c"])
def test_wrong_checksum(codec: str, tmp_path, rng, fails) -> None:
    data = steps(rng)
    body = bytearray(frame(codec, data.tobytes()))
    body[-1 if codec != "gzip" else -6] ^= 0x10
    h.write_v3(tmp_path, h.v3_metadata(data, [3000], [h.LITTLE, V3[codec]]), data, lambda _: bytes(body))
    fails(tmp_path, "corrupt", "c/0")


def test_zstd_dictionary(tmp_path, rng, headrace) -> None:
    """A frame that needs a dictionary cannot be read: the error says so."""
    data = steps(rng)
    samples = [steps(rng, 200).tobytes() for _ in range(200)]
    body = zstandard.ZstdCompressor(dict_data=zstandard.train_dictionary(4096, samples)).compress(data.tobytes())
    h.write_v3(tmp_path, h.v3_metadata(data, [3000], [h.LITTLE, V3["zstd"]]), data, lambda _: body)
    with pytest.raises(reader.ReadError) as caught:
        headrace.read(tmp_path)
    assert caught.value.kind in ("unsupported", "corrupt")
    assert "dictionary" in caught.value.message


def test_a_claim_of_terabytes(tmp_path, rng, fails) -> None:
    """A content size of 2^50 in a frame of 20 bytes allocates nothing."""
    data = steps(rng)
    header = struct.pack("<IBQ", 0xFD2FB528, 0xE0, 2**50)
    h.write_v3(tmp_path, h.v3_metadata(data, [3000], [h.LITTLE, V3["zstd"]]), data, lambda _: header + b"\x01\x00\x00")
    fails(tmp_path, "corrupt", "c/0")


@pytest.mark.parametrize("codec", ["zstd", "gzip", "blosc"])
def test_a_bomb(codec: str, tmp_path, rng, fails) -> None:
    """64 MiB of zeros for a chunk of 6000 bytes: stops at the chunk's size."""
    data = steps(rng)
    body = frame(codec, bytes(64 << 20))
    h.write_v3(tmp_path, h.v3_metadata(data, [3000], [h.LITTLE, V3[codec]]), data, lambda _: body)
    fails(tmp_path, "corrupt", "c/0")


UNKNOWN = {
    "codec": ({"codecs": [h.LITTLE, {"name": "middle-out"}]}, "middle-out"),
    "codec by URI": ({"codecs": [h.LITTLE, {"name": "https://codecs.example/q/1.0"}]}, "https://codecs.example/q/1.0"),
    "codec that need not be understood": ({"codecs": [h.LITTLE, {"name": "novel", "must_understand": False}]}, "novel"),
    "data type": ({"data_type": "quaternion"}, "quaternion"),
    "chunk grid": ({"chunk_grid": {"name": "hexagonal", "configuration": {}}}, "hexagonal"),
    "key encoding": ({"chunk_key_encoding": {"name": "hilbert"}}, "hilbert"),
    "member": ({"warp": {"factor": 9}}, "warp"),
    "storage transformer": ({"storage_transformers": [{"name": "mirror"}]}, "transformer"),
}


@pytest.mark.parametrize("part", UNKNOWN)
def test_unknown_parts_are_named(part: str, tmp_path, fails) -> None:
    change, text = UNKNOWN[part]
    oracles.lay(tmp_path, h.v3_metadata(DATA, [4, 16], [h.LITTLE]) | change)
    fails(tmp_path, "unsupported", text)
    about = reader.info(tmp_path)
    assert about["supported"] is False
    assert text in about["reason"]


MALFORMED = {
    "no codecs": {"codecs": []},
    "no array->bytes codec": {"codecs": [{"name": "crc32c"}]},
    "two array->bytes codecs": {"codecs": [h.LITTLE, h.LITTLE]},
    "transpose of another rank": {"codecs": [{"name": "transpose", "configuration": {"order": [0, 1, 2]}}, h.LITTLE]},
    "transpose that is no permutation": {"codecs": [{"name": "transpose", "configuration": {"order": [0, 0]}}, h.LITTLE]},
    "bytes without endian": {"codecs": [{"name": "bytes"}]},
    "inner shape of another rank": {"codecs": [h.sharding([2], [h.LITTLE])]},
    "inner shape that does not divide": {"codecs": [h.sharding([3, 16], [h.LITTLE])]},
    "inner shape zero": {"codecs": [h.sharding([0, 16], [h.LITTLE])]},
    "chunk shape of another rank": {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}}},
    "shape is text": {"shape": "4x16"},
    "fill value out of range": {"fill_value": 70_000},
    "fill value a fraction": {"fill_value": 1.5},
    "dimension names of another rank": {"dimension_names": ["x"]},
}


@pytest.mark.parametrize("part", MALFORMED)
def test_malformed_metadata(part: str, tmp_path, headrace) -> None:
    oracles.lay(tmp_path, h.v3_metadata(DATA, [4, 16], [h.LITTLE]) | MALFORMED[part])
    h.put(tmp_path, "c/0/0", DATA.tobytes())
    with pytest.raises(reader.ReadError) as caught:
        headrace.read(tmp_path)
    assert caught.value.kind in ("corrupt", "unsupported")


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"zarr_format": 4}', '{"zarr_format": 3}', "\x00\x01", "{" * 100_000])
@pytest.mark.parametrize("name", ["zarr.json", ".zarray"])
def test_metadata_that_is_no_array(name: str, text: str, tmp_path, headrace) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(reader.ReadError) as caught:
        headrace.read(tmp_path)
    assert caught.value.kind in ("corrupt", "unsupported", "not_found")


def test_missing_array(tmp_path, fails) -> None:
    """The error tells what was tried."""
    fails(tmp_path / "nowhere", "not_found", "nowhere")
    fails(tmp_path, "not_found", "zarr.json", ".zarray")


def test_a_group_is_no_array(tmp_path, headrace) -> None:
    oracles.lay(tmp_path, {"zarr_format": 3, "node_type": "group", "attributes": {}})
    with pytest.raises(reader.ReadError) as caught:
        headrace.read(tmp_path)
    assert "group" in caught.value.message


def test_box_outside_the_array(tmp_path) -> None:
    """Never clamped, never padded unasked."""
    h.write_v3(tmp_path, h.v3_metadata(DATA, [4, 16], [h.LITTLE]), DATA, lambda raw: raw)
    with pytest.raises(reader.ReadError) as caught:
        reader.Command().read(tmp_path, ((0, 5), (0, 16)))
    assert caught.value.kind == "shape"


@pytest.mark.parametrize("codec", V3)
def test_flipped_bits(codec: str, tmp_path, rng, headrace) -> None:
    """Any flip in any byte: an error or, without a checksum, other values; never a crash."""
    data = steps(rng)
    body = frame(codec, data.tobytes())
    metadata = h.v3_metadata(data, [3000], [h.LITTLE, V3[codec]])
    oracles.lay(tmp_path, metadata)
    checked = codec in ("zstd", "gzip", "zlib", "crc32c")
    for _ in range(150):
        broken = bytearray(body)
        at = int(rng.integers(len(body)))
        broken[at] ^= 1 << int(rng.integers(8))
        h.put(tmp_path, "c/0", bytes(broken))
        try:
            got = headrace.read(tmp_path)
        except reader.ReadError as e:
            assert e.kind in ("corrupt", "unsupported"), e
            continue
        assert got.shape == data.shape
        if checked:
            # gzip's header has fields that say nothing about the data: time, system, level.
            check(got, data, f"{codec} with byte {at} changed")
