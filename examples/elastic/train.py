"""Train in step on ranks of which any may die, and others come: the model is that of one process alone.

    headrace launch --live --max-restarts 2 --nproc-per-node 3 train.py --data image.zarr --out results

The "model" is a vector of whole numbers that every step changes, so that a step that is left out or
done twice shows. Its collectives go over sockets of one host; a trainer with torch makes a process
group in the place of Group, and keeps all else.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import headrace as hr

CROP = (8, 16, 16)
SIZE = 16  # of the model


class Group:
    """The ranks of one turn: between two turns ranks were lost, came, or went back together.

    All send to rank 0, which sends all to all. Whoever leaves closes its sockets, so that nobody
    waits for it. Every failure is an OSError.
    """

    def __init__(self, loader: hr.Loader, turn: int, meet: Path) -> None:
        self.turn, self.loader, self.peers = turn, loader, list[socket.socket]()
        if loader.world_size == 1:
            return
        name = meet / f"turn-{turn}"
        if loader.rank == 0:
            with socket.create_server(("127.0.0.1", 0)) as server:
                (meet / f"{name.name}.part").write_text(str(server.getsockname()[1]))
                (meet / f"{name.name}.part").rename(name)
                server.settimeout(0.2)
                while len(self.peers) < loader.world_size - 1:
                    self._try(lambda: self.peers.append(server.accept()[0]))
        else:
            while not self.peers:
                self._try(lambda: self.peers.append(socket.create_connection(("127.0.0.1", int(name.read_text())))))
        self.leads = loader.rank == 0

    def _try(self, act: Callable[[], object]) -> None:
        """Forms the group a little further, unless the ranks are others by now."""
        view = self.loader.view
        if view is not None and (view.halted or view.turn != self.turn):
            self.close()
            raise ConnectionError("a rank was lost, or has come")
        try:
            act()
        except (TimeoutError, FileNotFoundError, ConnectionRefusedError, ValueError):
            time.sleep(0.02)

    def close(self) -> None:
        for peer in self.peers:
            peer.close()

    def exchange(self, mine: np.ndarray) -> list[np.ndarray]:
        """What each rank gives, in any order: the same list on all of them."""
        if not self.peers:
            return [mine]
        try:
            if not self.leads:
                send(self.peers[0], mine[None])
                return list(receive(self.peers[0]))
            every = np.concatenate([mine[None], *(receive(peer) for peer in self.peers)])
            for peer in self.peers:
                send(peer, every)
            return list(every)
        except OSError:
            self.close()
            raise

    def model(self, mine: np.ndarray | None) -> np.ndarray | None:
        """The model of a rank that has it, for those that are new. None: no rank has it."""
        given = self.exchange(np.array([0] * (SIZE + 1) if mine is None else [1, *mine], dtype=np.int64))
        return next((x[1:] for x in given if x[0]), None)


def send(peer: socket.socket, rows: np.ndarray) -> None:
    peer.sendall(struct.pack("<2q", *rows.shape) + rows.tobytes())


def receive(peer: socket.socket) -> np.ndarray:
    def exactly(n: int) -> bytes:
        data = b""
        while len(data) < n:
            more = peer.recv(n - len(data))
            if not more:
                raise ConnectionError("a rank has left the group")
            data += more
        return data

    rows, columns = struct.unpack("<2q", exactly(16))
    return np.frombuffer(exactly(8 * rows * columns), dtype=np.int64).reshape(rows, columns)


def gradient(batch: hr.Batch) -> np.ndarray:
    """This rank's part of the step."""
    part = np.zeros(SIZE, dtype=np.int64)
    np.add.at(part, np.asarray(batch.ids) % SIZE, batch.numpy().astype(np.int64).sum(axis=(1, 2, 3)))
    return part


def go_on(loader: hr.Loader, at: int, *, again: bool, new: bool) -> None:
    """Enters the job where it goes on: at this step, if this rank is the first to say so."""
    steps = len(loader)
    while True:
        try:
            view = loader.view
            if again or (view is not None and view.halted and not new):
                again = False
                loader.redo(at % steps, epoch=at // steps)
            loader.enter()
        except hr.ViewChanged:  # another rank was first, or another one is lost
            again = False
        except hr.JobWaiting:
            again = new  # no rank that has a model is left: from the begin
        else:
            return


def train(loader: hr.Loader, epochs: int, meet: Path) -> np.ndarray | None:
    """The model after all epochs, None for a rank that came when all was done."""
    steps = len(loader)
    at, models = 0, {0: np.zeros(SIZE, dtype=np.int64)}  # what comes next, and models before the last steps
    group, new = None, True
    while at < epochs * steps:
        try:
            batch = next(loader)
        except StopIteration:
            if new:
                return None
            continue  # the next epoch
        except hr.JobWaiting:
            if new and loader.view is not None and loader.view.halted:  # no rank that has a model is left: from the begin
                go_on(loader, 0, again=True, new=True)
            continue  # a rank that comes is let in up to 512 steps later, or at a redo
        except hr.ViewChanged:
            if group is not None:
                group.close()
            go_on(loader, at, again=False, new=new)
            continue
        step = batch.epoch * steps + batch.step
        try:
            if group is None or group.turn != batch.turn:
                group = Group(loader, batch.turn, meet)
                model = group.model(models.get(step) if not new or step == 0 else None)
                if model is None:  # all that had it were lost at once, and this trainer stores no checkpoint
                    group.close()
                    go_on(loader, 0, again=True, new=True)
                    continue
                models = {step: model}
            total = sum(group.exchange(gradient(batch)))
        except OSError:  # a rank is gone, which the loader may not know yet: its next batch would leave this step out
            go_on(loader, step, again=not new, new=new)
            continue
        new, at = False, step + 1
        models = {step: models[step], at: models[step] * 31 + total}  # a rank that has not come so far can go back
        print(f"rank {loader.rank} of {loader.world_size}, process {os.getpid()}: step {step}", flush=True)
    return models[at]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a zarr array")
    parser.add_argument("--out", type=Path, required=True, help="folder of the models")
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    meet = options.out / "meet"
    meet.mkdir(parents=True, exist_ok=True)
    crops = hr.grid_crops(str(options.data), CROP)
    with hr.Loader(crops, global_batch_size=12, device="cpu", job_timeout=20) as loader:
        model = train(loader, options.epochs, meet)
    if model is not None:
        (options.out / f"model-{os.getpid()}.json").write_text(json.dumps(model.tolist()))


if __name__ == "__main__":
    main()
