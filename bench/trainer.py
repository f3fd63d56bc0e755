"""What a feed costs a trainer on the same GPU: a loop of bf16 matrix products alone, and beside batches.

    trainer.py ARRAY... [--rate GB_PER_S] [--steps N] [--device N] [--commit ID] [--out DIR]

Both loops run in turn, three times; the medians of the time of a product count. The
feed gives f32 batches at the rate, as a training loop takes them: a batch, a sum
over it on the current stream, and on.
"""

import argparse
import glob
import json
import random
import statistics
import time
from collections import deque

import torch

import headrace as hr
from record import save

SIDE, CROP, BATCH = 8192, 128, 16
AHEAD = 4  # steps that the host is ahead of the device


def loop(steps: int, take=None) -> float:
    """Milliseconds a product, with take called before each."""
    a = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    for _ in range(20):
        a @ b
    torch.cuda.synchronize()
    flight = deque()  # of steps, so that the host's clock goes with the device's
    began = time.perf_counter()
    for _ in range(steps):
        if take:
            take()
        a @ b
        done = torch.cuda.Event()
        done.record()
        flight.append(done)
        if len(flight) > AHEAD:
            flight.popleft().synchronize()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps * 1e3


class Feed:
    def __init__(self, pipeline: hr.Pipeline, arrays: list[str], rate: float) -> None:
        self.batches = self.stream(pipeline, arrays)
        self.rate = rate * 1e9
        self.bytes = 0
        self.began = 0.0
        self.sum = torch.zeros((), device="cuda")

    def stream(self, pipeline, arrays):
        rng = random.Random(1)
        room = hr.open(arrays[0]).shape[0] - CROP

        def samples():
            while True:
                starts = [rng.randint(0, room) for _ in range(3)]
                yield hr.Sample(rng.choice(arrays), [(s, s + CROP) for s in starts])

        pipeline.push(samples())
        return pipeline.batches()

    def take(self) -> None:
        """Takes batches as far as the rate says."""
        now = time.perf_counter()
        self.began = self.began or now
        while self.bytes < (now - self.began) * self.rate:
            batch = next(self.batches)
            x = batch.torch()
            self.bytes += x.numel() * x.element_size()
            self.sum += x[0, 0, 0, 0]
            batch.release()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("array", nargs="+")
    parser.add_argument("--rate", type=float, default=5.0, help="GB/s of batches")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--out", default="bench/results")
    options = parser.parse_args()
    arrays = [found for pattern in options.array for found in sorted(glob.glob(pattern))]
    torch.cuda.set_device(options.device)
    alone, beside, rates = [], [], []
    config = hr.Config(shape=(CROP,) * 3, batch_size=BATCH, dtype="f32", lookahead=64)
    began = time.perf_counter()
    with hr.Pipeline(config, device=options.device) as pipeline:
        feed = Feed(pipeline, arrays, options.rate)
        next(feed.batches).release()
        first = time.perf_counter() - began
        for _ in range(3):
            alone.append(loop(options.steps))
            feed.bytes, feed.began = 0, 0.0
            beside.append(loop(options.steps, feed.take))
            rates.append(feed.bytes / 1e9 / (time.perf_counter() - feed.began))
    result = {
        "product_ms_alone": statistics.median(alone),
        "product_ms_beside": statistics.median(beside),
        "slower": statistics.median(beside) / statistics.median(alone) - 1,
        "gb_per_s": statistics.median(rates),
        "first_batch_s": first,
        "all": {"alone": alone, "beside": beside},
    }
    row = {"name": "trainer", "result": result}
    print(json.dumps(row, indent=1))
    save("trainer", options, [row])


if __name__ == "__main__":
    main()
