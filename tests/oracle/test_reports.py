"""Bugs that users of other readers reported, each as the situation that showed it.

Names are those of the reports: project and number.
"""

import json
import multiprocessing
import struct

import numcodecs
import numpy as np
import pytest
import zarr

import handmade as h
import oracles
import reader
from conftest import check

ZSTD = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
GZIP = {"name": "gzip", "configuration": {"level": 5}}


def sequence(*shape: int, dtype: str = "<i4") -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def by_zarr(path, metadata: dict, data: np.ndarray) -> None:
    oracles.lay(path, metadata)
    oracles.zarr_open(path, "r+")[...] = data


def test_zarr_python_2018(tmp_path, headrace) -> None:
    """A row of a sharded array of ones: shard (20, 1000), inner (1, 1000)."""
    data = np.ones((1000, 1000))
    by_zarr(tmp_path, h.v3_metadata(data, [20, 1000], [h.sharding([1, 1000], [h.LITTLE])]), data)
    check(headrace.read(tmp_path, ((1, 2), (0, 1000))), data[1:2], "row 1")


def test_zarr_python_2302(tmp_path, headrace) -> None:
    """A thin box of a sharded array equals its unsharded twin."""
    data = sequence(30, 40, 25)
    by_zarr(tmp_path / "s", h.v3_metadata(data, [20, 20, 20], [h.sharding([5, 10, 4], [h.LITTLE, GZIP])]), data)
    by_zarr(tmp_path / "u", h.v3_metadata(data, [10, 10, 10], [h.LITTLE, GZIP]), data)
    box = ((0, 20), (10, 11), (0, 25))
    check(headrace.read(tmp_path / "s", box), headrace.read(tmp_path / "u", box), "sharded")
    check(headrace.read(tmp_path / "s", box), data[:20, 10:11], "sharded")


@pytest.mark.parametrize("outer", ["transpose", "gzip", "crc32c", "transpose and gzip"])
def test_zarr_python_4202(outer: str, tmp_path, same) -> None:
    """Codecs outside the shard are undone before its index is read."""
    data = sequence(12, 12)
    codecs: list = [h.sharding([4, 2], [h.LITTLE])]
    if "transpose" in outer:
        codecs.insert(0, {"name": "transpose", "configuration": {"order": [1, 0]}})
    if "gzip" in outer:
        codecs.append(GZIP)
    if outer == "crc32c":
        codecs.append({"name": "crc32c"})
    by_zarr(tmp_path, h.v3_metadata(data, [12, 12], codecs), data)
    same(tmp_path, data, [None, ((3, 9), (1, 2)), ((11, 12), (0, 12))])


def test_zarr_python_4203(tmp_path, package) -> None:
    """Samples of one shard come in the order and with the repeats of the request."""
    data = sequence(8, 4)
    by_zarr(tmp_path, h.v3_metadata(data, [8, 4], [h.sharding([1, 4], [h.LITTLE])]), data)
    rows = [3, 1, 3, 7, 0, 0, 6]
    config = package.Config(shape=(1, 4), batch_size=len(rows))
    with package.Pipeline(config, device="cpu") as p:
        p.push([package.Sample(tmp_path, [(r, r + 1), (0, 4)]) for r in rows])
        check(p.pop().numpy()[:, 0], data[rows], "rows")


def test_gdal_13929(tmp_path, same) -> None:
    """Counts [3, 1, 2]: entry of inner chunk (1, 0, 0) is 2, of (2, 0, 1) is 5."""
    data = sequence(3, 6, 8)
    oracles.lay(tmp_path, h.v3_metadata(data, [3, 6, 8], [h.sharding([1, 6, 4], [h.LITTLE])]))
    parts = [data[i : i + 1, :, j : j + 4].tobytes() for i in range(3) for j in (0, 4)]
    h.put(tmp_path, "c/0/0/0", h.shard(parts))
    same(tmp_path, data, [((1, 2), (0, 6), (0, 4)), ((2, 3), (0, 6), (4, 8))])


def test_zarrita_424(tmp_path, same) -> None:
    """An index without checksum has 16 bytes an entry, and nothing behind it."""
    data = sequence(4, 4)
    oracles.lay(tmp_path, h.v3_metadata(data, [4, 4], [h.sharding([2, 2], [h.LITTLE], checksum=False)]))
    parts = [h.block(data, [2, 2], at).tobytes() for at in h.grid([4, 4], [2, 2])]
    h.put(tmp_path, "c/0/0", h.shard(parts, checksum=False))
    same(tmp_path, data)


def test_zarrita_445(tmp_path, headrace) -> None:
    data = sequence(3, 4, 5)
    by_zarr(
        tmp_path, h.v3_metadata(data, [3, 4, 5], [{"name": "transpose", "configuration": {"order": [2, 1, 0]}}, h.LITTLE]), data
    )
    assert headrace.read(tmp_path, ((0, 3), (0, 4), (3, 4))).ravel().tolist() == list(range(3, 60, 5))
    assert headrace.read(tmp_path, ((1, 2), (2, 3), (3, 4))).item() == 33


def test_zarr_java_33(tmp_path, same) -> None:
    """A shard with some inner chunks only: those that are there show."""
    data = np.zeros((8, 8), "<i4")
    data[2:4, 4:6] = 5
    data[6:8, 0:2] = 9
    by_zarr(tmp_path, h.v3_metadata(data, [8, 8], [h.sharding([2, 2], [h.LITTLE, ZSTD])]), data)
    same(tmp_path, data)


def test_tensorstore_182(tmp_path, same) -> None:
    """zstd frames of tensorstore have no content size."""
    data = sequence(50, 60)
    metadata = h.v3_metadata(data, [20, 20], [h.LITTLE, ZSTD])
    oracles.lay(tmp_path, metadata)
    oracles.tensorstore_open(tmp_path, 3).write(data).result()
    same(tmp_path, data)


@pytest.mark.parametrize("compressor", [None, {"id": "zlib", "level": 1}])
def test_zarr_java_95(compressor, tmp_path, same) -> None:
    """v2 order F, compressed or not, reads row by row."""
    data = sequence(3, 4)
    by_zarr(tmp_path, h.v2_metadata(data, [3, 4], order="F", compressor=compressor), data)
    same(tmp_path, data)


def test_zarr_python_2675(tmp_path, same) -> None:
    """The metadata decide about the order, even where a writer stored the other one."""
    data = sequence(3, 4)
    oracles.lay(tmp_path, h.v2_metadata(data, [3, 4], order="F"))
    h.put(tmp_path, "0.0", data.tobytes())
    same(tmp_path, np.frombuffer(data.tobytes(), "<i4").reshape((3, 4), order="F").copy())


def test_zarr_python_2296(tmp_path, same) -> None:
    """netcdf-c and GDAL put keys of their own into .zarray."""
    data = sequence(5, 5)
    metadata = h.v2_metadata(data, [5, 5], _ARRAY_DIMENSIONS=["y", "x"], _nczarr_array={"dimrefs": ["/y", "/x"]})
    by_hand(tmp_path, metadata, data)
    same(tmp_path, data)


def by_hand(path, metadata: dict, data: np.ndarray) -> None:
    h.write_v2(path, metadata, data, lambda raw: raw)


@pytest.mark.parametrize("dtype", ["<u1", ">u1", "<b1", "<i1", "|i1"])
def test_tensorstore_58(dtype: str, tmp_path, same) -> None:
    """An order character before a one-byte type means nothing."""
    data = np.array([0, 1, 1, 0], dtype[1:])
    oracles.lay(tmp_path, h.v2_metadata(data, [4]) | {"dtype": dtype})
    h.put(tmp_path, "0", data.tobytes())
    same(tmp_path, data)


@pytest.mark.parametrize("dtype", [">i2", ">i4", ">u8", ">f4", ">f8", ">c8", ">f2"])
def test_zarr_python_3005(dtype: str, tmp_path, same) -> None:
    data = sequence(6, 7).astype(dtype[1:])
    by_hand(tmp_path, h.v2_metadata(data, [4, 4]) | {"dtype": dtype}, data)
    same(tmp_path, data)


def test_zarr_python_3523_accepts(tmp_path, same) -> None:
    data = sequence(4)
    metadata = h.v3_metadata(data, [4], [h.LITTLE], extra={"name": "x", "must_understand": False})
    h.write_v3(tmp_path, metadata, data, lambda raw: raw)
    same(tmp_path, data)


@pytest.mark.parametrize("member", [{"name": "x"}, {"name": "x", "must_understand": True}, "text", 3])
def test_zarr_python_3523_refuses(member, tmp_path, fails) -> None:
    data = sequence(4)
    h.write_v3(tmp_path, h.v3_metadata(data, [4], [h.LITTLE], novelty=member), data, lambda raw: raw)
    fails(tmp_path, "unsupported", "novelty")


FILLS_V3 = [
    ("float32", "0.0", 0.0),
    ("int32", "0", 0),
    ("uint16", 0.0, 0),
    ("float32", "NaN", np.nan),
    ("float32", "0x7fc00000", np.uint32(0x7FC00000).view(np.float32)),
    ("float32", "0xffc00001", np.uint32(0xFFC00001).view(np.float32)),
    ("float16", "0x7e00", np.uint16(0x7E00).view(np.float16)),
    ("float64", "0x7ff8000000000000", np.nan),
    ("uint64", 2**64 - 1, 2**64 - 1),
    ("int64", -(2**63), -(2**63)),
    ("int64", 2**53 + 1, 2**53 + 1),
    ("float32", None, 0.0),
    ("bool", True, True),
    ("complex64", ["NaN", 1.5], complex(np.nan, 1.5)),
    ("float32", 16777217.0, 16777216.0),  # half to even
]


@pytest.mark.parametrize(("dtype", "fill", "want"), FILLS_V3)
def test_fill_values_v3(dtype: str, fill, want, tmp_path, same) -> None:
    """zarr-python 3079, zarrita 352 and others: every form of a fill value."""
    data = np.full((3,), want).astype(dtype)
    oracles.lay(tmp_path, h.v3_metadata(data, [3], [h.LITTLE], fill_value=fill))
    same(tmp_path, data)


def test_fill_value_text_is_rounded_once(tmp_path, same) -> None:
    """The decimal text goes to float32 directly: by way of float64 it would round twice."""
    text = "1.000000178813934326171874999999"
    data = np.full((3,), np.float32(1.00000011920928955))
    metadata = json.dumps(h.v3_metadata(data, [3], [h.LITTLE], fill_value="@")).replace('"@"', text)
    tmp_path.joinpath("zarr.json").write_text(metadata)
    same(tmp_path, data)


FILLS_V2 = [
    ("<f4", "NaN", np.nan),
    ("<f4", "Infinity", np.inf),
    ("<f8", "-Infinity", -np.inf),
    ("<f4", None, 0),
    ("<i4", "0", 0),
    ("<i4", 7.0, 7),
    ("<f4", 3, 3),
    ("|b1", 1, True),
    ("|b1", 0, False),
    (">u2", 258, 258),
    (">f8", 0.1, 0.1),
    ("<u8", 2**64 - 1, 2**64 - 1),
]


@pytest.mark.parametrize(("dtype", "fill", "want"), FILLS_V2)
def test_fill_values_v2(dtype: str, fill, want, tmp_path, same) -> None:
    """mobie 572, n5-zarr 81: missing chunks give the fill value, little-endian whatever the dtype."""
    data = np.full((3,), want).astype("<" + dtype[1:])
    oracles.lay(tmp_path, h.v2_metadata(data, [3], fill_value=fill) | {"dtype": dtype})
    same(tmp_path, data)


@pytest.mark.parametrize("dtype", ["|S5", "<U4", "|V3", "|O", [["a", "<i4"], ["b", ">f8"]]])
def test_zarr_python_2282(dtype, tmp_path, fails) -> None:
    """Text, raw and structured types are refused by name, not misread."""
    data = sequence(3)
    oracles.lay(tmp_path, h.v2_metadata(data, [3], fill_value=None) | {"dtype": dtype})
    fails(tmp_path, "unsupported", dtype if isinstance(dtype, str) else "")


@pytest.mark.parametrize(
    "data_type", ["string", {"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}, "r16", "<u2", "int2"]
)
def test_zarr_python_4142(data_type, tmp_path, fails) -> None:
    """Types that are not read yet, and draft spellings, are refused by name."""
    oracles.lay(tmp_path, h.v3_metadata(sequence(3), [3], [h.LITTLE]) | {"data_type": data_type})
    fails(tmp_path, "unsupported", data_type if isinstance(data_type, str) else data_type["name"])


def test_ome_zarr_py_343(tmp_path, same) -> None:
    """`.zarray` names no separator, the chunks are nested: found, not read as zeros."""
    data = sequence(1, 1, 3, 8, 8)
    metadata = h.v2_metadata(data, [1, 1, 1, 4, 4])
    oracles.lay(tmp_path, metadata)
    for at in h.grid(list(data.shape), [1, 1, 1, 4, 4]):
        h.put(tmp_path, h.v2_key(at, "/"), h.block(data, [1, 1, 1, 4, 4], at).tobytes())
    same(tmp_path, data)


def test_zarr_python_2030(tmp_path, fails) -> None:
    """A compressor among the index codecs: the index has no known size, refused at open with the reason."""
    data = sequence(4)
    codec = h.sharding([2], [h.LITTLE])
    codec["configuration"]["index_codecs"].append(GZIP)
    oracles.lay(tmp_path, h.v3_metadata(data, [4], [codec]))
    fails(tmp_path, "unsupported", "gzip", "index")


def test_zarr_python_1976(tmp_path, same) -> None:
    for name, data in (("scalar", np.array(7, "<i4")), ("empty", np.zeros((0, 3), "<i4"))):
        path = tmp_path / name
        zarr.create_array(str(path), data=data, chunks=(1,) * data.ndim if data.size else (1, 1), zarr_format=3)
        same(path, data)


TORN = [16, 300, 1023]


@pytest.mark.parametrize("length", TORN)
def test_iohub_442(length: int, tmp_path, fails) -> None:
    """A job died while it wrote: the shard is shorter than its index. The error names the file."""
    data = sequence(64, 4)
    h.write_v3(tmp_path, h.v3_metadata(data, [64, 4], [h.sharding([1, 4], [h.LITTLE])]), data, lambda raw: bytes(length))
    fails(tmp_path, "corrupt", "c/0/0")


def test_zarrs_420(tmp_path, fails, package) -> None:
    """A bad index checksum: an error with the path; the policy "skip" goes on without the sample."""
    data = sequence(4, 4)
    oracles.lay(tmp_path, h.v3_metadata(data, [2, 4], [h.sharding([1, 4], [h.LITTLE])]))
    good = h.shard([data[i : i + 1].tobytes() for i in range(2)])
    bad = bytearray(h.shard([data[i : i + 1].tobytes() for i in range(2, 4)]))
    bad[-1] ^= 1
    h.put(tmp_path, "c/0/0", good)
    h.put(tmp_path, "c/1/0", bytes(bad))
    fails(tmp_path, "corrupt", "c/1/0", "checksum", box=((3, 4), (0, 4)))
    config = package.Config(shape=(1, 4), batch_size=4, on_error="skip")
    with package.Pipeline(config, device="cpu") as p:
        p.push([package.Sample(tmp_path, [(r, r + 1), (0, 4)], id=r) for r in range(4)])
        batch = p.pop()
        assert batch.ids == (0, 1)
        assert [(e.id, e.error.kind) for e in batch.errors] == [(2, "corrupt"), (3, "corrupt")]
        check(batch.numpy()[:, 0], data[:2], "what is left")


def in_child(path, queue) -> None:
    import headrace

    try:
        headrace.open(path)
        queue.put("no error")
    except headrace.HeadraceError as e:
        queue.put(e.kind)


def test_zarrs_python_171(tmp_path, package) -> None:
    """In a forked child every call is an error at once, and never a hang."""
    data = sequence(4)
    h.write_v3(tmp_path, h.v3_metadata(data, [4], [h.LITTLE]), data, lambda raw: raw)
    with package.open(tmp_path) as array:
        assert array[0] == 0
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(tmp_path, queue))
    child.start()
    assert queue.get(timeout=20) == "forked"
    child.join(20)
    assert child.exitcode == 0


@pytest.mark.parametrize(
    ("shape", "chunk"),
    [([-1], [1]), ([4], [0]), ([4], [-2]), ([2**62, 2**62], [1, 1]), ([4], [2**62]), ([4], [1.5]), ([2**64], [1])],
)
def test_gdal_7898(shape: list, chunk: list, tmp_path, headrace) -> None:
    """Negative, zero, fractional and overflowing extents: refused at open, or never multiplied."""
    metadata = h.v3_metadata(sequence(4), chunk, [h.LITTLE]) | {"shape": shape}
    oracles.lay(tmp_path, metadata)
    with pytest.raises(reader.ReadError) as caught:
        headrace.read(tmp_path)
    assert caught.value.kind in ("corrupt", "unsupported", "shape", "budget", "config")


@pytest.mark.parametrize("version", [2, 3])
def test_ngff_validator_51(version: int, tmp_path, fails) -> None:
    """`chunks` and `shape` of different length."""
    data = sequence(4, 4)
    metadata = h.v3_metadata(data, [4, 4, 1], [h.LITTLE]) if version == 3 else h.v2_metadata(data, [4])
    oracles.lay(tmp_path, metadata)
    fails(tmp_path, "corrupt")


def blosc_frame() -> bytes:
    return numcodecs.blosc.compress(np.arange(5000, dtype="<u2").tobytes(), b"lz4", 5, 1, 2048, 2)


BLOSC_HEADERS = {
    "nbytes huge": (4, 0xFFFFFFFF),
    "nbytes short": (4, 9998),
    "nbytes zero": (4, 0),
    "blocksize zero": (8, 0),
    "blocksize huge": (8, 0xFFFFFFFF),
    "cbytes huge": (12, 0xFFFFFFFF),
    "cbytes short": (12, 17),
    "block start beyond": (16, 0x7FFFFFFF),
    "block start negative": (16, 0xFFFFFFF0),
    "block start in the header": (16, 3),
}


@pytest.mark.parametrize("name", BLOSC_HEADERS)
def test_numcodecs_228(name: str, tmp_path, fails) -> None:
    """Lies in a blosc header: an error, no read or write out of bounds."""
    at, value = BLOSC_HEADERS[name]
    frame = bytearray(blosc_frame())
    struct.pack_into("<I", frame, at, value)
    data = sequence(5000, dtype="<u2")
    compressor = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}
    h.write_v2(tmp_path, h.v2_metadata(data, [5000], compressor=compressor), data, lambda _: bytes(frame))
    fails(tmp_path, "corrupt", "0")


@pytest.mark.parametrize(("flag", "text"), [(0x05, ""), (0x08, "")])
def test_blosc_flags_of_the_future(flag: int, text: str, tmp_path, headrace) -> None:
    """Both shuffle bits are blosc2, and the reserved bit nobody's: refused, not misread."""
    frame = bytearray(blosc_frame())
    frame[2] |= flag
    data = sequence(5000, dtype="<u2")
    compressor = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}
    h.write_v2(tmp_path, h.v2_metadata(data, [5000], compressor=compressor), data, lambda _: bytes(frame))
    with pytest.raises(reader.ReadError) as caught:
        headrace.read(tmp_path)
    assert caught.value.kind in ("unsupported", "corrupt")
    assert text in caught.value.message


def test_old_v3_draft(tmp_path, headrace) -> None:
    """The layout of the v3 draft (meta/root/*.array.json) is not taken for anything else."""
    (tmp_path / "meta" / "root").mkdir(parents=True)
    (tmp_path / "zarr.json").write_text('{"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0", "extensions": []}')
    (tmp_path / "meta" / "root" / "a.array.json").write_text("{}")
    with pytest.raises(reader.ReadError) as caught:
        headrace.read(tmp_path)
    assert caught.value.kind in ("unsupported", "corrupt")
