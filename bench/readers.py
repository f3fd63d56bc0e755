"""One reader on one list of crops, in a process of its own: readers.py JSON, prints JSON.

Every reader fills batches of float32 from the same crops in the same order. It
first reads other crops through the same open arrays and threads, so that its
memory and its code have been touched, as they are in a job that runs for hours;
then it is timed, from its first request to its last batch. Where a reader has a
choice (threads, requests in flight), several are tried by compare.py and the best
counts.
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
Reader = Callable[[Crops], Iterator[np.ndarray]]


def slices(start: tuple[int, int, int], edge: int) -> tuple[slice, ...]:
    return tuple(slice(s, s + edge) for s in start)


def headrace(job: dict) -> Iterator[Reader]:
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

        def read(crops: Crops) -> Iterator[np.ndarray]:
            pipeline.push(hr.Sample(job["paths"][a], [(s, s + edge) for s in start]) for a, start in crops)
            for batch in pipeline.batches(len(crops) // job["batch"]):
                with batch:
                    yield batch.numpy()

        yield read


def tensorstore(job: dict) -> Iterator[Reader]:
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
    edge, n = job["edge"], job["batch"]
    out = np.empty((n, *(edge,) * 3), np.float32)

    def read(crops: Crops) -> Iterator[np.ndarray]:
        flight: deque[Any] = deque()
        for i, (a, start) in enumerate(crops):
            flight.append(arrays[a][slices(start, edge)].read())
            while len(flight) >= job["ahead"] or (i == len(crops) - 1 and flight):
                done = i + 1 - len(flight)
                out[done % n] = flight.popleft().result()
                if (done + 1) % n == 0:
                    yield out

    yield read


def zarr_python(job: dict) -> Iterator[Reader]:
    """`ahead` threads read the crops of a batch."""
    warnings.simplefilter("ignore")
    import zarr

    arrays = [zarr.open_array(p, mode="r") for p in job["paths"]]
    edge, n = job["edge"], job["batch"]
    out = np.empty((n, *(edge,) * 3), np.float32)

    def fill(i: int, crop: tuple[int, tuple[int, int, int]]) -> None:
        out[i] = arrays[crop[0]][slices(crop[1], edge)]

    with ThreadPoolExecutor(job["ahead"]) as pool:

        def read(crops: Crops) -> Iterator[np.ndarray]:
            for first in range(0, len(crops), n):
                list(pool.map(fill, range(n), crops[first : first + n]))
                yield out

        yield read


def zarrs_python(job: dict) -> Iterator[Reader]:
    warnings.simplefilter("ignore")
    import zarr
    import zarrs  # noqa: F401  registers the codec pipeline

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    yield from zarr_python(job)


READERS: dict[str, Callable[[dict], Iterator[Reader]]] = {
    "headrace": headrace,
    "tensorstore": tensorstore,
    "zarrs-python": zarrs_python,
    "zarr-python": zarr_python,
}


def measure(job: dict) -> dict:
    """Rate and cost of one reader. Digests of its first and last batch show that readers agree."""
    opened = READERS[job["reader"]](job)
    read = next(opened)
    for _ in read(job["warm"]):
        pass
    last = len(job["crops"]) // job["batch"] - 1
    checks: list[int] = []
    paused = paused_cpu = 0.0
    cpu, begin = time.process_time(), time.perf_counter()
    for i, batch in enumerate(read(job["crops"])):
        if i in (0, last):
            stop, stop_cpu = time.perf_counter(), time.thread_time()
            checks.append(zlib.crc32(batch))
            paused += time.perf_counter() - stop
            paused_cpu += time.thread_time() - stop_cpu
    seconds = time.perf_counter() - begin - paused
    cpu_seconds = time.process_time() - cpu - paused_cpu
    for _ in opened:  # it closes what it opened
        pass
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "checks": checks,
        "samples_per_s": len(job["crops"]) / seconds,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.stdin.read()))))
