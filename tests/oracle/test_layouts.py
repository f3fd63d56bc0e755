"""Grids, keys and shards that no library writes, or only one: built by hand after the specification."""

import itertools
import json

import numpy as np
import pytest
import zarr

import handmade as h
import oracles
import reader
from conftest import check

ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}


def numbered(shape: tuple[int, ...], dtype: str = "<u2") -> np.ndarray:
    """Every element differs from its neighbours, so that a wrong place shows."""
    return (np.arange(np.prod(shape)) % 60_000 + 1).reshape(shape).astype(dtype)


SHARDS = [
    {"start": start, "big": big, "checksum": checksum} | more
    for start, big, checksum in itertools.product((False, True), repeat=3)
    for more in ({}, {"gap": 7}, {"order": [4, 1, 5, 0, 3, 2]}, {"share": True})
]


@pytest.mark.parametrize("k", range(len(SHARDS)))
@pytest.mark.parametrize("holes", [False, True])
def test_shard(k: int, holes: bool, tmp_path, rng, same) -> None:
    """Counts [3, 1, 2]: linear indices of an asymmetric shard, in any order, with gaps, shared ranges and holes."""
    how = SHARDS[k]
    data = numbered((4, 8, 10))
    data[0:2, 0:4, 4:8] = data[0:2, 0:4, 0:4]  # two equal inner chunks to share
    chunk, inner = [6, 4, 8], [2, 4, 4]
    layout = {name: how[name] for name in ("start", "big", "checksum")}
    oracles.lay(tmp_path, h.v3_metadata(data, chunk, [h.sharding(inner, [h.LITTLE], **layout)]))
    for at in h.grid(list(data.shape), chunk):
        full = h.block(data, chunk, at)
        parts: list[bytes | None] = []
        for sub in h.grid(chunk, inner):
            begin = [i * c + j * s for i, c, j, s in zip(at, chunk, sub, inner, strict=True)]
            drop = holes and rng.random() < 0.4
            if drop:
                data[tuple(slice(b, b + s) for b, s in zip(begin, inner, strict=True))] = 0
            parts.append(None if drop else h.block(full, inner, sub).tobytes())
        h.put(tmp_path, h.v3_key(at), h.shard(parts, **how))
    check(oracles.read_tensorstore(tmp_path, 3), data, "tensorstore")
    same(tmp_path, data, [None, ((1, 3), (0, 8), (3, 10)), ((0, 4), (5, 6), (8, 9))])


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_every_transpose(order: tuple[int, ...], tmp_path, same) -> None:
    """All six orders of a 2x3x4 chunk, an order that is not its own inverse among them."""
    data = numbered((4, 6, 8))
    transpose = {"name": "transpose", "configuration": {"order": list(order)}}
    oracles.lay(tmp_path, h.v3_metadata(data, [2, 3, 4], [transpose, h.LITTLE]))
    for at in h.grid([4, 6, 8], [2, 3, 4]):
        h.put(tmp_path, h.v3_key(at), h.block(data, [2, 3, 4], at).transpose(order).tobytes())
    check(oracles.read_zarr(tmp_path), data, "zarr-python")
    same(tmp_path, data, [None, ((1, 3), (2, 5), (3, 6))])


@pytest.mark.parametrize("orders", list(itertools.product([(1, 2, 0), (2, 0, 1)], repeat=2)))
def test_transposes_follow_one_another(orders, tmp_path, same) -> None:
    data = numbered((4, 6, 8))
    codecs = [*({"name": "transpose", "configuration": {"order": list(o)}} for o in orders), h.LITTLE]
    oracles.lay(tmp_path, h.v3_metadata(data, [2, 3, 4], codecs))
    for at in h.grid([4, 6, 8], [2, 3, 4]):
        part = h.block(data, [2, 3, 4], at)
        for order in orders:
            part = part.transpose(order)
        h.put(tmp_path, h.v3_key(at), part.tobytes())
    check(oracles.read_tensorstore(tmp_path, 3), data, "tensorstore")
    same(tmp_path, data, [None, ((1, 3), (2, 5), (3, 6))])


@pytest.mark.parametrize("legacy", ["C", "F"])
def test_legacy_transpose_names(legacy: str, tmp_path, same) -> None:
    data = numbered((4, 6))
    oracles.lay(tmp_path, h.v3_metadata(data, [4, 6], [{"name": "transpose", "configuration": {"order": legacy}}, h.LITTLE]))
    h.put(tmp_path, "c/0/0", data.tobytes(order=legacy))
    same(tmp_path, data)


@pytest.mark.parametrize(
    "codecs", [["bytes"], [{"name": "bytes"}], ["bytes", "crc32c"], [{"name": "endian", "configuration": {"endian": "big"}}]]
)
def test_short_and_old_codec_names(codecs: list, tmp_path, same) -> None:
    """Version 3.1 allows bare names; `endian` is the old name of bytes."""
    data = numbered((5, 7), "|u1") if "endian" not in str(codecs) else numbered((5, 7), "<u2")
    encode = {1: lambda raw: raw, 2: lambda raw: raw + crc(raw)}[len(codecs)]
    stored = data.astype(">u2") if data.dtype.itemsize == 2 else data
    oracles.lay(tmp_path, h.v3_metadata(data, [5, 7], codecs))
    h.put(tmp_path, "c/0/0", encode(stored.tobytes()))
    same(tmp_path, data)


def crc(raw: bytes) -> bytes:
    import crc32c

    return crc32c.crc32c(raw).to_bytes(4, "little")


KEYS = {
    "default": ({"name": "default"}, "c/1/2"),
    "bare default": ("default", "c/1/2"),
    "default dot": ({"name": "default", "configuration": {"separator": "."}}, "c.1.2"),
    "v2": ({"name": "v2"}, "1.2"),
    "bare v2": ("v2", "1.2"),
    "v2 slash": ({"name": "v2", "configuration": {"separator": "/"}}, "1/2"),
}


@pytest.mark.parametrize("name", KEYS)
def test_key_encoding(name: str, tmp_path, same) -> None:
    """Only chunk (1, 2) exists: it is found under its key, and all else is fill."""
    encoding, key = KEYS[name]
    data = np.zeros((4, 9), "<u2")
    data[2:4, 6:9] = 7
    oracles.lay(tmp_path, h.v3_metadata(data, [2, 3], [h.LITTLE], chunk_key_encoding=encoding))
    h.put(tmp_path, key, data[2:4, 6:9].tobytes())
    same(tmp_path, data)


@pytest.mark.parametrize(("encoding", "key"), [({"name": "default"}, "c"), ({"name": "v2"}, "0")])
def test_zero_dimensional_keys(encoding: dict, key: str, tmp_path, same) -> None:
    data = np.array(513, "<u2")
    oracles.lay(tmp_path, h.v3_metadata(data, [], [h.LITTLE], chunk_key_encoding=encoding))
    h.put(tmp_path, key, data.tobytes())
    same(tmp_path, data)


def test_edge_chunks_hold_garbage(tmp_path, rng, same) -> None:
    """What lies beyond the edge is never copied."""
    data = numbered((5, 7, 9))
    garbage = rng.integers(0, 65536, (4, 4, 4), dtype=np.uint16)
    h.write_v3(tmp_path, h.v3_metadata(data, [4, 4, 4], [h.LITTLE]), data, lambda raw: raw, garbage)
    same(tmp_path, data, [None, ((4, 5), (4, 7), (8, 9)), ((0, 5), (6, 7), (0, 9))])


def test_chunks_wholly_outside_the_array_hold_data(tmp_path, same) -> None:
    """Inner chunks past the edge may be stored; they are not looked at."""
    data = numbered((3, 5))
    oracles.lay(tmp_path, h.v3_metadata(data, [8, 8], [h.sharding([2, 2], [h.LITTLE])]))
    full = np.full((8, 8), 9999, "<u2")
    full[:3, :5] = data
    h.put(tmp_path, "c/0/0", h.shard([h.block(full, [2, 2], at).tobytes() for at in h.grid([8, 8], [2, 2])]))
    same(tmp_path, data, [None, ((2, 3), (4, 5))])


def test_far_coordinates(tmp_path, headrace) -> None:
    """An extent of 2^41 with one chunk beyond 2^40: no table of chunks, no overflow."""
    far = 2**40 + 12_345
    shape = [2**41, 2**22]
    data = numbered((4, 4))
    metadata = h.v3_metadata(data, [4, 4], [h.LITTLE]) | {"shape": shape}
    oracles.lay(tmp_path, metadata)
    at = (far // 4, 2**21 // 4)
    h.put(tmp_path, h.v3_key(at), data.tobytes())
    start = (at[0] * 4, at[1] * 4)
    got = headrace.read(tmp_path, ((start[0] - 2, start[0] + 6), (start[1], start[1] + 4)))
    check(got, np.pad(data, ((2, 2), (0, 0))), "far")


def test_more_chunks_than_an_index_can_count(tmp_path, fails) -> None:
    metadata = h.v3_metadata(numbered((4, 4)), [4, 4], [h.LITTLE]) | {"shape": [2**41, 2**33]}
    oracles.lay(tmp_path, metadata)
    fails(tmp_path, "unsupported", "chunks", box=((0, 4), (0, 4)))


@pytest.mark.parametrize("codec", ["delta", "packbits"])
def test_filters_that_need_an_order_after_a_transpose(codec: str, tmp_path, fails) -> None:
    """Writers disagree on the order of elements here: refused by name, never guessed."""
    data = numbered((4, 6)) if codec == "delta" else numbered((4, 6)) % 3 == 0
    configuration = {"dtype": "<u2"} if codec == "delta" else {}
    transpose = {"name": "transpose", "configuration": {"order": [1, 0]}}
    codecs = [transpose, {"name": f"numcodecs.{codec}", "configuration": configuration}, h.LITTLE]
    h.write_v3(tmp_path, h.v3_metadata(data, [4, 6], codecs), data, lambda raw: raw)
    fails(tmp_path, "unsupported", codec, "transpose")


def test_far_coordinates_in_a_shard(tmp_path, headrace) -> None:
    shape = [2**42]
    data = numbered((16,))
    oracles.lay(tmp_path, h.v3_metadata(data, [16], [h.sharding([4], [h.LITTLE])]) | {"shape": shape})
    at = 2**41 // 16
    h.put(tmp_path, h.v3_key((at,)), h.shard([data[i : i + 4].tobytes() for i in range(0, 16, 4)]))
    check(headrace.read(tmp_path, ((2**41 + 3, 2**41 + 9),)), data[3:9], "far shard")


@pytest.mark.parametrize("rank", [6, 16, 31, 32])
def test_many_axes(rank: int, tmp_path, same) -> None:
    shape = [2 if a in (0, rank // 2, rank - 1) else 1 for a in range(rank)]
    data = numbered(tuple(shape))
    h.write_v3(tmp_path, h.v3_metadata(data, [1] * rank, [h.LITTLE]), data, lambda raw: raw)
    same(tmp_path, data, [None, tuple((n - 1, n) for n in shape)])


def test_sharded_32_axes(tmp_path, same) -> None:
    shape = [2 if a in (0, 16, 31) else 1 for a in range(32)]
    data = numbered(tuple(shape))
    oracles.lay(tmp_path, h.v3_metadata(data, shape, [h.sharding([1] * 32, [h.LITTLE])]))
    h.put(tmp_path, h.v3_key((0,) * 32), h.shard([h.block(data, [1] * 32, at).tobytes() for at in h.grid(shape, [1] * 32)]))
    same(tmp_path, data)


@pytest.mark.parametrize(("version", "shape"), [(3, (0,)), (3, (0, 4)), (3, (4, 0, 2)), (2, (0,)), (2, (3, 0))])
def test_zero_length(version: int, shape: tuple[int, ...], tmp_path, same) -> None:
    data = np.zeros(shape, "<u2")
    chunk = [2] * len(shape)
    metadata = h.v3_metadata(data, chunk, [h.LITTLE]) if version == 3 else h.v2_metadata(data, chunk)
    oracles.lay(tmp_path, metadata)
    same(tmp_path, data)


def test_empty_boxes(tmp_path, headrace) -> None:
    """numpy's empty slices give empty arrays, whatever lies there."""
    data = numbered((4, 6))
    h.write_v3(tmp_path, h.v3_metadata(data, [2, 2], [h.LITTLE]), data, lambda raw: raw)
    check(headrace.read(tmp_path, ((2, 2), (0, 6))), data[2:2], "empty box")


def test_booleans_of_other_writers(tmp_path, same) -> None:
    """Any nonzero byte is true: some writers store 255."""
    data = np.array([True, False, True, True])
    oracles.lay(tmp_path, h.v3_metadata(data, [4], [{"name": "bytes"}]))
    h.put(tmp_path, "c/0", bytes([255, 0, 1, 2]))
    same(tmp_path, data)


@pytest.mark.parametrize("separator", ["/", "."])
def test_separator_missing_or_wrong(separator: str, tmp_path, same) -> None:
    """Without a single chunk under the named keys the other form is tried: broken OME writers."""
    data = numbered((4, 6))
    metadata = h.v2_metadata(data, [2, 3])
    if separator == ".":
        metadata["dimension_separator"] = "/"
    oracles.lay(tmp_path, metadata)
    for at in h.grid([4, 6], [2, 3]):
        h.put(tmp_path, h.v2_key(at, separator), h.block(data, [2, 3], at).tobytes())
    same(tmp_path, data)


def test_nested_shards_three_deep(tmp_path, same) -> None:
    """Offsets of an inner index count from the start of the inner shard."""
    data = numbered((16, 8))
    leaf = h.sharding([2, 2], [h.LITTLE, ZSTD])
    middle = h.sharding([4, 4], [leaf], start=True, checksum=False)
    outer = h.sharding([8, 8], [middle], big=True)
    oracles.lay(tmp_path, h.v3_metadata(data, [16, 8], [outer]))
    zarr.open_array(str(tmp_path), mode="r+")[...] = data
    check(oracles.read_tensorstore(tmp_path, 3), data, "tensorstore")
    same(tmp_path, data, [None, ((3, 13), (1, 7)), ((9, 10), (5, 6))])


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("version", [2, 3])
def test_array_in_a_group(version: int, consolidated: bool, tmp_path, same) -> None:
    """An array is opened by its path, with or without consolidated metadata above it."""
    root = zarr.create_group(str(tmp_path), zarr_format=version)
    data = numbered((6, 5))
    root.create_array("deep/er", data=data, chunks=(4, 4))
    if consolidated:
        zarr.consolidate_metadata(str(tmp_path), zarr_format=version)
    same(tmp_path / "deep" / "er", data)


@pytest.mark.parametrize("version", [2, 3])
def test_array_without_group_documents(version: int, tmp_path, same) -> None:
    """Groups above an array may be implicit."""
    data = numbered((6, 5))
    path = tmp_path / "no" / "group"
    write = h.write_v3 if version == 3 else h.write_v2
    metadata = h.v3_metadata(data, [4, 4], [h.LITTLE]) if version == 3 else h.v2_metadata(data, [4, 4])
    write(path, metadata, data, lambda raw: raw)
    same(path, data)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("level", ["0", "1", "scale1/image"])
def test_multiscales(version: str, level: str, tmp_path, headrace) -> None:
    """OME-Zarr opens a level by its index or its name."""
    if not isinstance(headrace, reader.Package):
        pytest.skip("the command names a level by the path of its array")
    fine, coarse = numbered((4, 8, 8)), numbered((4, 4, 4))
    for name, data in (("scale0/image", fine), ("scale1/image", coarse)):
        if version == "0.4":
            h.write_v2(tmp_path / name, h.v2_metadata(data, [4, 4, 4], dimension_separator="/"), data, lambda raw: raw)
        else:
            h.write_v3(tmp_path / name, h.v3_metadata(data, [4, 4, 4], [h.LITTLE]), data, lambda raw: raw)
    multiscales = [
        {
            "name": "image",
            "axes": [{"name": n, "type": "space"} for n in "zyx"],
            "datasets": [
                {"path": f"scale{i}/image", "coordinateTransformations": [{"type": "scale", "scale": [1.0, s, s]}]}
                for i, s in enumerate((1.0, 2.0))
            ],
        }
    ]
    if version == "0.4":
        multiscales[0]["version"] = "0.4"
        (tmp_path / ".zgroup").write_text('{"zarr_format": 2}')
        (tmp_path / ".zattrs").write_text(json.dumps({"multiscales": multiscales}))
    else:
        ome = {"version": "0.5", "multiscales": multiscales}
        oracles.lay(tmp_path, {"zarr_format": 3, "node_type": "group", "attributes": {"ome": ome}})
    want = fine if level == "0" else coarse
    check(headrace.read(tmp_path, level=level), want, f"level {level}")
