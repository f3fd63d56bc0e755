"""One reader on one list of crops, in a process of its own: readers.py JSON, prints JSON.

Every reader fills batches of float32 from the same crops in the same order. It
makes two passes, each on freshly opened arrays with empty caches; the second is
timed, from its first request to its last batch. Where a reader has a choice
(threads, requests in flight), several are tried by compare.py and the best counts.
"""

import json
import os
import resource
import sys
import time
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

CORES = len(os.sched_getaffinity(0))
Crops = list[tuple[int, tuple[int, int, int]]]


def slices(start: tuple[int, int, int], edge: int) -> tuple[slice, ...]:
    return tuple(slice(s, s + edge) for s in start)


def headrace(job: dict) -> Iterator[np.ndarray]:
    import headrace as hr

    config = hr.Config(
        shape=(job["edge"],) * 3,
        batch_size=job["batch"],
        dtype="f32",
        lookahead=job["lookahead"],
        host_bytes=1 << 30,
        reuse="cache" if job["cache"] else "window",
        **({"decoded_bytes": job["cache"]} if job["cache"] else {}),
    )
    edge = job["edge"]
    with hr.Pipeline(config, device="cpu") as pipeline:
        yield np.empty(0)
        pipeline.push(hr.Sample(job["paths"][a], [(s, s + edge) for s in start]) for a, start in job["crops"])
        for batch in pipeline.batches(len(job["crops"]) // job["batch"]):
            with batch:
                yield batch.numpy()


def tensorstore(job: dict) -> Iterator[np.ndarray]:
    """Keeps `ahead` samples in flight, as our look-ahead does."""
    import tensorstore as ts

    context = ts.Context(
        {
            "cache_pool": {"total_bytes_limit": job["cache"]},
            "data_copy_concurrency": {"limit": CORES},
            "file_io_concurrency": {"limit": 4 * CORES},
        }
    )
    driver = "zarr" if job["kind"] == "blosc" else "zarr3"
    spec = {"driver": driver, "recheck_cached_data": "open", "recheck_cached_metadata": "open"}
    arrays = [
        ts.open(spec | {"kvstore": {"driver": "file", "path": f"{p}/"}}, context=context, read=True).result()
        for p in job["paths"]
    ]
    yield np.empty(0)
    edge, crops = job["edge"], job["crops"]
    flight: deque[Any] = deque()
    out = np.empty((job["batch"], *(edge,) * 3), np.float32)
    for i, (a, start) in enumerate(crops):
        flight.append(arrays[a][slices(start, edge)].read())
        while len(flight) >= job["ahead"] or (i == len(crops) - 1 and flight):
            done = i + 1 - len(flight)
            out[done % job["batch"]] = flight.popleft().result()
            if (done + 1) % job["batch"] == 0:
                yield out


def zarr_python(job: dict) -> Iterator[np.ndarray]:
    """`ahead` threads read the crops of a batch."""
    warnings.simplefilter("ignore")
    import zarr

    arrays = [zarr.open_array(p, mode="r") for p in job["paths"]]
    yield np.empty(0)
    edge, n = job["edge"], job["batch"]
    out = np.empty((n, *(edge,) * 3), np.float32)

    def fill(i: int) -> None:
        a, start = job["crops"][i]
        out[i % n] = arrays[a][slices(start, edge)]

    with ThreadPoolExecutor(job["ahead"]) as pool:
        for first in range(0, len(job["crops"]), n):
            list(pool.map(fill, range(first, first + n)))
            yield out


def zarrs_python(job: dict) -> Iterator[np.ndarray]:
    warnings.simplefilter("ignore")
    import zarr
    import zarrs  # noqa: F401  registers the codec pipeline

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    yield from zarr_python(job)


READERS: dict[str, Callable[[dict], Iterator[np.ndarray]]] = {
    "headrace": headrace,
    "tensorstore": tensorstore,
    "zarrs-python": zarrs_python,
    "zarr-python": zarr_python,
}


def measure(job: dict) -> dict:
    """The second of two passes. Digests of its first and last batch show that readers agree."""
    last = len(job["crops"]) // job["batch"] - 1
    result: dict = {}
    for _ in range(2):
        batches = READERS[job["reader"]](job)
        next(batches)  # the arrays are open
        checks: list[int] = []
        paused = 0.0
        cpu, begin = time.process_time(), time.perf_counter()
        for i, batch in enumerate(batches):
            if i in (0, last):
                stop = time.perf_counter()
                checks.append(zlib.crc32(batch))
                paused += time.perf_counter() - stop
        seconds = time.perf_counter() - begin - paused
        result = {"seconds": seconds, "cpu_seconds": time.process_time() - cpu, "checks": checks}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return result | {"samples_per_s": len(job["crops"]) / result["seconds"], "peak_bytes": peak}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.stdin.read()))))
