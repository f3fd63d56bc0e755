"""Frames by c-blosc: each compressor, filter, level and size of an element, at sizes of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numcodecs.blosc

import fields
import reference
from record import Method, Record
from write_zstd import Maker, plain

METHODS = {
    "lz4": Method.BLOSC,
    "lz4hc": Method.BLOSC,
    "blosclz": Method.BLOSC,
    "zstd": Method.BLOSC_ZSTD,
    "zlib": Method.BLOSC_ZLIB,
}
FILTERS = ["", " byte", " bit"]
TYPESIZES = [1, 2, 4, 8, 3, 16, 17, 255]
SIZES = [
    *(0, 1, 2, 15, 16, 17, 100, 127, 128, 129, 255, 257, 600, 1000, 1001, 1999, 2048, 2050, 4000, 4096, 8191),
    *(12_000, 20_000, 40_007, 65_536, 70_001, 131_072, 262_144, 300_007, 1_000_001),
]
SPLIT = {"always": 1, "never": 2, "auto": 3, "forward": 4}  # blosc_set_splitmode

numcodecs.blosc.use_threads = False
_split = reference.declare("blosc_set_splitmode", None, reference.INT)


def frame(cname: str, level: int, shuffle: int, typesize: int, size: int, kind: str, blocksize: int, split: str) -> Record:
    data = plain(kind, size)
    _split(SPLIT[split])
    out = numcodecs.blosc.compress(data, cname.encode(), level, shuffle, blocksize, typesize)
    if split == "always" and (typesize > 16 or int.from_bytes(out[8:12], "little") < 128 * typesize):
        # c-blosc itself would take it for one that is not split.
        return frame(cname, level, shuffle, typesize, size, kind, blocksize, "never")
    return Record.of(f"blosc {cname}{FILTERS[shuffle]}", METHODS[cname], out, data)


def frames(cname: str, shuffle: int, most: int) -> Iterator[Maker]:
    """Sizes, kinds and block sizes in turn, each in another rhythm."""
    sizes = [size for size in SIZES if size <= most]
    turn = 7 * shuffle
    for level in range(10):
        for typesize in TYPESIZES:
            for _ in range(4):
                turn += 1
                size = sizes[turn * 7 % len(sizes)]
                if size > 100_000 and turn % 16:
                    size = sizes[turn * 11 % 21]
                blocksize = [0, 0, 256, 1000, 4096, 600 * typesize, 32_768, 131_075][turn * 3 % 8]
                split = ["forward", "forward", "auto", "always", "never"][turn % 5]
                yield partial(frame, cname, level, shuffle, typesize, size, list(fields.KINDS)[turn * 5 % 13], blocksize, split)


def jobs(most: int) -> Iterator[tuple[str, Callable[[], Iterator[Maker]]]]:
    for cname in METHODS:
        for shuffle in range(3):
            yield f"blosc-{cname}-{shuffle}", partial(frames, cname, shuffle, most)
