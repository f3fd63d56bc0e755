"""Makes the corpus: what encoders wrote, as files of record.py, each part by a process of its own."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from multiprocessing import Pool
from pathlib import Path

import modes
import record
import write_blosc
import write_bytes
import write_zstd
from record import DECODED, SUMMED, UNCHECKED, Method, Record


def jobs(most: int):
    """Names of parts, and what makes their chunks."""
    yield from itertools.chain(write_zstd.jobs(most), write_blosc.jobs(most), write_bytes.jobs(most))


def checked(r: Record) -> Record:
    """A chunk that an encoder wrote must be one that the reference decodes, to what went in."""
    if r.flags & UNCHECKED and r.method != Method.ZSTD:
        return r  # zlib always checks
    if r.expect == DECODED and (judged := r.judged()).hash != r.hash:
        raise AssertionError(f"{r.label}: the reference {'refuses it' if not judged.hash else 'gives other bytes'}")
    return r


def varied(records: Iterable[Record]) -> Iterator[Record]:
    """And now and then the same with a CRC-32C behind it, a wrong one too, or asked for another number of bytes."""
    for i, r in enumerate(records):
        yield checked(r)
        if r.expect != DECODED:
            continue
        if i % 23 == 5:
            yield replace(r, label="summed", flags=r.flags | SUMMED)
            yield r.refused("summed, wrong", flags=r.flags | SUMMED, fault=1)
        if i % 29 == 7:
            yield replace(r, label="a byte more", decoded=r.decoded + 1).judged()
        if i % 29 == 8 and r.decoded:
            yield replace(r, label="a byte less", decoded=r.decoded - 1).judged()


def reached(records: Iterable[Record]) -> Counter[str]:
    """How many chunks have which modes."""
    counts: Counter[str] = Counter()
    for r in records:
        if r.expect == DECODED:
            counts.update(modes.of(r))
    return counts


def part(job: tuple[int, int, int, Path]) -> tuple[Path, Counter[str]]:
    number, most, every, folder = job
    name, makers = next(itertools.islice(jobs(most), number, None))
    some = itertools.islice(makers(), number % every, None, every)
    made = (r for r in (make() for make in some) if r.decoded <= most)
    records, path = list(varied(made)), folder / f"{name}.corpus"
    record.write(path, records)
    return path, reached(records)


def make(folder: Path, most: int, every: int, processes: int) -> Iterator[tuple[Path, Counter[str]]]:
    """Fills a folder with chunks of at most so many bytes, one of so many: files, and the modes that are in them."""
    folder.mkdir()
    numbers = range(len(list(jobs(most))))
    with Pool(processes) as pool:
        yield from pool.imap_unordered(part, [(number, most, every, folder) for number in numbers], 1)
