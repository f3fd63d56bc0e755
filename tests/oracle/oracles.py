"""Writes and reads arrays by zarr-python and tensorstore."""

import json
import warnings
from pathlib import Path

import numpy as np
import tensorstore as ts
import zarr

import values as v
from documents import Document


def lay(path: Path, metadata: dict) -> None:
    """Writes the metadata document alone."""
    path.mkdir(parents=True, exist_ok=True)
    name = "zarr.json" if metadata["zarr_format"] == 3 else ".zarray"
    (path / name).write_text(json.dumps(metadata))


def tensorstore_open(path: Path, version: int):
    driver = "zarr3" if version == 3 else "zarr"
    return ts.open({"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/"}}).result()


def zarr_open(path: Path, mode: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return zarr.open_array(str(path), mode=mode)


def write(document: Document, path: Path, rng: np.random.Generator) -> np.ndarray:
    """Makes the array at path; the result is what was written."""
    fill = v.fill_array(document.dtype, document.fill)
    data = v.values(document.kind, document.dtype, document.shape, rng, fill)
    lay(path, document.metadata)
    if document.writer == "tensorstore":
        tensorstore_open(path, document.version).write(data).result()
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zarr_open(path, "r+")[...] = data
    return data


def read_zarr(path: Path) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(zarr_open(path, "r")[...])


def read_tensorstore(path: Path, version: int) -> np.ndarray:
    return np.asarray(tensorstore_open(path, version).read().result())


def readings(document: Document, path: Path) -> dict[str, np.ndarray]:
    """What each oracle that can read the array makes of it, little-endian and in C order."""
    found = {}
    if document.dtype != "bfloat16" and "transpose before sharding" not in document.features:
        found["zarr-python"] = read_zarr(path)
    if tensorstore_reads(document):
        found["tensorstore"] = read_tensorstore(path, document.version)
    return {name: plain(a, document.dtype) for name, a in found.items()}


def plain(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array as little-endian elements in C order."""
    return np.array(np.asarray(array), v.numpy_dtype(dtype), order="C", copy=True)


def tensorstore_reads(document: Document) -> bool:
    if document.dtype in ("datetime64", "timedelta64"):
        return False
    text = json.dumps(document.metadata)
    if document.version == 2:
        compressor = document.metadata["compressor"] or {}
        return not document.metadata["filters"] and compressor.get("id") not in ("lz4", "gzip")
    return "numcodecs." not in text and "codec around the shard" not in document.features
