"""Defects of an earlier loader, each as the input that showed it; numbers as in its review.

Number 10 is about GPU kernels and number 11 about documented defaults: they are
tested where kernels and documents are.
"""

import gc

import numcodecs.blosc
import numpy as np
import pytest
import zstandard

import handmade as h
import oracles
from conftest import check


def blosc_array(path, frames: list[bytes], data: np.ndarray) -> None:
    n = len(data) // len(frames)
    compressor = {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 1}
    oracles.lay(path, h.v2_metadata(data, [n], compressor=compressor))
    for k, frame in enumerate(frames):
        h.put(path, str(k), frame)


def test_1_blosc_stored_uncompressed(tmp_path, rng, same) -> None:
    """The memcpyed flag: no block table, and no unshuffle."""
    data = rng.integers(0, 65536, 131_072, dtype=np.uint16)
    frame = numcodecs.blosc.compress(data.tobytes(), b"zstd", 3, 1, 0, 2)
    assert frame[2] & 0x02 and frame[2] & 0x01, "the frame is not memcpyed with a shuffle flag"
    blosc_array(tmp_path, [frame], data)
    same(tmp_path, data)


def test_2_blosc_short_last_block_stored_raw(tmp_path, rng, same) -> None:
    """The tail's csize equals its length: raw bytes, not a zstd frame."""
    head = np.zeros(30_000, np.uint16)
    data = np.concatenate([head, rng.integers(0, 65536, 100, dtype=np.uint16)])
    frame = numcodecs.blosc.compress(data.tobytes(), b"zstd", 3, 1, 20_000, 2)
    blosc_array(tmp_path, [frame], data)
    same(tmp_path, data)


def test_3_many_raw_blocks(tmp_path, rng, same) -> None:
    """Blocks of noise between blocks of zeros: many raw blocks in every chunk of a wave."""
    n = 64
    noise = rng.integers(0, 65536, (n, 40, 512), dtype=np.uint16)
    noise[:, ::5] = 0
    data = noise.reshape(-1)
    frames = [numcodecs.blosc.compress(c.tobytes(), b"zstd", 3, 0, 1024, 2) for c in noise]
    blosc_array(tmp_path, frames, data)
    same(tmp_path, data)


@pytest.mark.parametrize("short", [True, False])
def test_4_zstd_of_the_wrong_length(short: bool, tmp_path, fails) -> None:
    """A frame that decodes short, or long: never stale bytes."""
    data = np.arange(1000, dtype="<u2")
    raw = data.tobytes()[:-2] if short else data.tobytes() + b"xx"
    codecs = [h.LITTLE, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}]
    h.write_v3(tmp_path, h.v3_metadata(data, [1000], codecs), data, lambda _: zstandard.compress(raw))
    fails(tmp_path, "corrupt", "c/0", "2000")


def test_5_metadata_is_obeyed(tmp_path, rng, same) -> None:
    """Big-endian elements, dots between coordinates, an edge chunk and blosc, all at once."""
    data = rng.integers(0, 1000, (50, 30)).astype("<u4")
    blosc = {"cname": "lz4", "clevel": 9, "shuffle": "bitshuffle", "typesize": 4, "blocksize": 512}
    metadata = h.v3_metadata(data, [16, 16], [h.BIG, {"name": "blosc", "configuration": blosc}])
    metadata["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "."}}
    oracles.lay(tmp_path, metadata)
    oracles.zarr_open(tmp_path, "r+")[...] = data
    same(tmp_path, data, [None, ((40, 50), (20, 30))])


def test_6_every_chunk_has_its_own_geometry(tmp_path, rng, same) -> None:
    """Block size and typesize differ from chunk to chunk of one array."""
    parts = [rng.integers(0, 9, 6000).astype("<u2") for _ in range(12)]
    frames = [
        numcodecs.blosc.compress(
            p.tobytes(), [b"zstd", b"lz4"][k % 2], 5, k % 3, [0, 512, 4096, 1000][k % 4], [1, 2, 4, 8, 3][k % 5]
        )
        for k, p in enumerate(parts)
    ]
    data = np.concatenate(parts)
    blosc_array(tmp_path, frames, data)
    same(tmp_path, data)


def test_7_offsets_beyond_32_bits(tmp_path, headrace) -> None:
    """Inner chunks that lie above 4 GiB in a shard; the file is sparse."""
    data = np.arange(8, dtype="<u2")
    oracles.lay(tmp_path, h.v3_metadata(data, [8], [h.sharding([4], [h.LITTLE])]))
    far = 2**32 + 2**31
    index = h.glue(b"", [(far, 8), (far + 100, 8)])
    (tmp_path / "c").mkdir()
    with (tmp_path / "c" / "0").open("wb") as f:
        f.seek(far)
        f.write(data[:4].tobytes())
        f.seek(far + 100)
        f.write(data[4:].tobytes())
        f.write(index)
    check(headrace.read(tmp_path), data, "beyond 4 GiB")


@pytest.mark.parametrize("fill", [2.0**-24, -(2.0**-24), 2.0**-15])
def test_8_subnormal_fill(fill: float, tmp_path, same) -> None:
    data = np.full(3, fill, np.float16)
    assert data[0] != 0
    oracles.lay(tmp_path, h.v3_metadata(data, [3], [h.LITTLE], fill_value=fill))
    same(tmp_path, data)


def test_9_tensors_outlive_batch_and_pipeline(tmp_path, package) -> None:
    """A released batch, a closed pipeline: what views the memory keeps it."""
    data = np.arange(64 * 16, dtype="<u2").reshape(64, 16)
    h.write_v3(tmp_path, h.v3_metadata(data, [8, 16], [h.LITTLE]), data, lambda raw: raw)
    config = package.Config(shape=(8, 16), batch_size=1, slots=2)
    with package.Pipeline(config, device="cpu") as p:
        p.push([package.Sample(tmp_path, [(r, r + 8), (0, 16)]) for r in range(0, 56, 8)])
        first = p.pop()
        view = np.from_dlpack(first["data"])
        first.release()
        for _ in range(5):
            p.pop().release()
        check(view[0], data[:8], "after other batches")
    gc.collect()
    check(view[0], data[:8], "after close")


def test_12_one_bad_chunk_in_a_long_run(tmp_path, package) -> None:
    """A corrupt chunk fails its own batch; what comes before and after is whole."""
    data = np.arange(40 * 8, dtype="<u2").reshape(40, 8)
    codecs = [h.LITTLE, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}]
    h.write_v3(tmp_path, h.v3_metadata(data, [1, 8], codecs), data, zstandard.compress)
    h.put(tmp_path, "c/17/0", b"not a frame")
    config = package.Config(shape=(1, 8), batch_size=2)
    seen = []
    with package.Pipeline(config, device="cpu") as p:
        p.push([package.Sample(tmp_path, [(r, r + 1), (0, 8)], id=r) for r in range(40)])
        for step in range(20):
            if step == 8:
                with pytest.raises(package.HeadraceError) as caught:
                    p.pop()
                assert caught.value.kind == "corrupt"
                assert "c/17/0" in str(caught.value)
                continue
            batch = p.pop()
            check(batch.numpy()[:, 0], data[list(batch.ids)], f"batch {step}")
            seen += batch.ids
    assert seen == [r for r in range(40) if r not in (16, 17)]
