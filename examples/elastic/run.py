"""Run evaluate.py as four processes on two simulated nodes, and kill one of them at random.

    python run.py [--seed N]

A node is a `headrace agent` on loopback, with two processes. The volume is written into a temporary
folder. Ends with an error unless the job has covered each crop and the results are those of
one process alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import headrace as hr

HERE = Path(__file__).resolve().parent
HEADRACE = [sys.executable, "-m", "headrace"]


@contextlib.contextmanager
def agents(folder: Path) -> Iterator[list[Path]]:
    """Two agents of one job, each with the socket of its node."""
    started: list[subprocess.Popen[str]] = []
    sockets = [folder / "a.sock", folder / "b.sock"]
    more = ["--form", "--expect", "4"]
    try:
        for socket in sockets:
            command = [*HEADRACE, "agent", "--json", "--job", "evaluation", "--profile", "fast", "--socket", str(socket), *more]
            with open(folder / f"{socket.stem}.log", "w+") as log:
                started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True))
            more = ["--contact", address(started[-1])]
        yield sockets
    finally:
        for agent in started:
            agent.terminate()
        for agent in started:
            agent.communicate(timeout=30)


def address(agent: subprocess.Popen[str]) -> str:
    """Where an agent listens, once it is ready."""
    assert agent.stdout is not None
    for line in agent.stdout:
        if "address" in (said := json.loads(line)):
            return str(said["address"])
    sys.exit(f"an agent ended with {agent.wait()}")


def start(number: int, sockets: list[Path], data: Path, out: Path) -> subprocess.Popen[str]:
    """A process of the job, two on each node."""
    place = {"RANK": number, "WORLD_SIZE": 4, "LOCAL_RANK": number % 2, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": number // 2}
    place |= {"GROUP_WORLD_SIZE": 2, "TORCHELASTIC_RUN_ID": "evaluation", "HEADRACE_AGENT": sockets[number // 2]}
    env = os.environ | {name: str(value) for name, value in place.items()}
    command = [sys.executable, str(HERE / "evaluate.py"), "--data", str(data), "--out", str(out)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def results(out: Path) -> dict[int, float]:
    """What the ranks stored, by crop."""
    found: dict[int, float] = {}
    for file in out.glob("*.json"):
        for crop, value in json.loads(file.read_text()).items():
            assert found.setdefault(int(crop), value) == value, f"crop {crop} has two results"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="of who is killed, and when")
    chance = random.Random(parser.parse_args().seed)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        subprocess.run(
            [*HEADRACE, "gen", str(HERE / "image.json"), "--out", str(folder)], check=True, stdout=subprocess.DEVNULL
        )
        data, out = folder / "image.zarr", folder / "results"
        with agents(folder) as sockets:
            ranks = [start(i, sockets, data, out) for i in range(4)]
            victim, batches = chance.randrange(4), chance.randrange(1, 4)
            for _ in range(batches):
                assert ranks[victim].stdout is not None
                ranks[victim].stdout.readline()  # type: ignore[union-attr]
            ranks[victim].send_signal(signal.SIGKILL)
            print(f"killed rank {victim} after {batches} batches")
            said = [r.communicate(timeout=120)[0] for i, r in enumerate(ranks)]
        check(victim, ranks, said, results(out), data)


def check(victim: int, ranks: list[subprocess.Popen[str]], said: list[str], found: dict[int, float], data: Path) -> None:
    """Ends with an error unless the job was exact."""
    for i, rank in enumerate(ranks):
        last = said[i].strip().splitlines()[-1] if said[i].strip() else ""
        if i != victim:
            print(f"rank {i}: {last}")
            if rank.returncode != 0 or "exact: True" not in last:
                sys.exit(f"rank {i} ended with {rank.returncode}")
    crops = hr.grid_crops(str(data), (8, 16, 16))
    with hr.Loader(crops, batch_size=4, dtype="f32", shuffle=False, coord="off", device="cpu") as alone:
        for batch in alone:
            for crop, value in zip(batch.ids, batch.numpy().mean(axis=(1, 2, 3)).tolist(), strict=True):
                if found.get(crop) != value:
                    sys.exit(f"crop {crop}: {found.get(crop)}, alone {value}")
    print(f"results of {len(found)} of {len(crops)} crops, as those of one process")


if __name__ == "__main__":
    main()
