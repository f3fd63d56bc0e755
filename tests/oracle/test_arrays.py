"""Hundreds of arrays over the feature table, written and read by zarr-python and tensorstore."""

import numpy as np
import pytest

import boxes
import documents
import oracles
import reader
from conftest import ROUNDS, SEED, check
from documents import Document

V3, V2 = 200 * ROUNDS, 160 * ROUNDS


def make(version: int, i: int) -> tuple[Document, np.random.Generator]:
    rng = np.random.default_rng([SEED, version, i])
    return (documents.v3 if version == 3 else documents.v2)(i, rng), rng


@pytest.mark.parametrize(("version", "i"), [(3, i) for i in range(V3)] + [(2, i) for i in range(V2)])
def test_array(version: int, i: int, tmp_path, same) -> None:
    document, rng = make(version, i)
    path = tmp_path / document.name
    written = oracles.write(document, path, rng)
    readings = oracles.readings(document, path)
    for oracle, array in readings.items():
        if not document.lossy:
            check(array, written, f"{oracle} itself, {document.features}")
    want = next(iter(readings.values()))
    for oracle, array in readings.items():
        check(array, want, f"{oracle} against {next(iter(readings))}, {document.features}")
    same(path, want, [None, *boxes.draw(document.shape, document.chunk, rng, 4)])


@pytest.mark.parametrize(("version", "i"), [(3, i) for i in range(0, V3, 9)] + [(2, i) for i in range(0, V2, 11)])
def test_command(version: int, i: int, tmp_path) -> None:
    """The same through the command, with the .npy types of the documentation."""
    document, rng = make(version, i)
    path = tmp_path / document.name
    oracles.write(document, path, rng)
    want = next(iter(oracles.readings(document, path).values()))
    command = reader.Command()
    for box in [None, *boxes.draw(document.shape, document.chunk, rng, 1)]:
        got = command.read(path, box)
        check(got, want[reader.index(box)], f"{document.name}[{box}]")
        assert got.dtype.str == ("|V2" if document.dtype == "bfloat16" else want.dtype.str)


@pytest.mark.parametrize(("version", "i"), [(3, i) for i in range(0, V3, 9)] + [(2, i) for i in range(0, V2, 11)])
def test_info(version: int, i: int, tmp_path) -> None:
    """`info` agrees with the metadata and says that the array is read."""
    document, _ = make(version, i)
    path = tmp_path / document.name
    oracles.lay(path, document.metadata)
    about = reader.info(path)
    assert about["shape"] == document.shape
    assert about["zarr_format"] == version
    assert about["supported"] is True, about.get("reason")
    outer = about["shards"] or about["chunks"]
    assert outer == document.chunk


def test_coverage_of_the_generator() -> None:
    """Every feature of the table is met by several arrays, so that the count above means something."""
    seen: dict[str, int] = {}
    for version, count in ((3, V3), (2, V2)):
        for i in range(count):
            document, _ = make(version, i)
            for feature in [*document.features, document.dtype, document.kind, document.writer]:
                seen[feature] = seen.get(feature, 0) + 1
    want = "sharded nested transpose blosc zstd gzip zlib lz4 crc32c raw C F delta fixedscaleoffset astype packbits shuffle"
    rare = [f for f in [*want.split(), "transpose before sharding", "codec around the shard"] if seen.get(f, 0) < 4]
    assert not rare, f"met fewer than four times: {rare}"
