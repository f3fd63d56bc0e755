"""A zarr v3 writer in a few lines, so that these tests need no zarr package."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def write_array(
    path: Path,
    data: npt.NDArray[Any],
    chunks: tuple[int, ...],
    *,
    compress: bool = False,
    fill: Any = 0,
    attrs: dict[str, Any] | None = None,
    data_type: str | None = None,
) -> Path:
    """Writes an array of regular chunks, uncompressed or with gzip. Chunks that hold only the fill value are left out."""
    codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if compress:
        codecs.append({"name": "gzip", "configuration": {"level": 1}})
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": data.shape,
        "data_type": data_type or data.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": codecs,
        "attributes": attrs or {},
    }
    path.mkdir(parents=True)
    (path / "zarr.json").write_text(json.dumps(document))
    counts = [-(-n // c) for n, c in zip(data.shape, chunks, strict=True)]
    for at in itertools.product(*map(range, counts)):
        block = np.full(chunks, fill, data.dtype)
        part = data[tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, chunks, strict=True))]
        block[tuple(slice(0, n) for n in part.shape)] = part
        if (block == fill).all():
            continue
        raw = block.astype(block.dtype.newbyteorder("<")).tobytes()
        file = path.joinpath("c", *map(str, at))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(raw, 1) if compress else raw)
    return path


def write_group(path: Path, attrs: dict[str, Any]) -> Path:
    """Writes a group with attributes and no members."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attrs}))
    return path
