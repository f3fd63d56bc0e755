"""An engine in another process.

What it serves is tested with the rest, both ways (see BOTH in conftest.py); this is
what the second process adds: ends of either side, descriptors, forks, several clients.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from conftest import Array, Boxes, Python, crop, eventually, pipeline, start_engine, stop_engine, waits_in_library
from headrace import _companion, _library
from headrace._companion import NEXT, OPEN
from zarr_writer import write_array

HERE = Path(__file__).parent

START = """
import os, signal, sys, time
os.environ["HEADRACE_ENGINE"] = sys.argv[1]
import headrace as hr
volume = sys.argv[2]
def pipeline(**options):
    p = hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2, **options))
    p.push(hr.Sample(volume, [(i, i + 4), (0, 4), (0, 4)]) for i in range(8))
    return p
"""


def script(body: str) -> str:
    return START + textwrap.dedent(body)


class Engine:
    """An engine of one test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.flags = folder, ()
        self.process = start_engine(folder)

    @property
    def socket(self) -> str:
        return str(self.folder / "socket")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def restart(self, *flags: str) -> None:
        self.process = start_engine(self.folder, *flags)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine that this test may kill; HEADRACE_ENGINE names it."""
    folder = tmp_path / "own"
    folder.mkdir()
    engine = Engine(folder)
    monkeypatch.setenv("HEADRACE_ENGINE", engine.socket)
    yield engine
    if engine.process.returncode is None:
        stop_engine(engine.process)
        assert list(folder.iterdir()) == [], "the engine leaves something behind"


@pytest.fixture
def shared(shared_engine: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine of many tests; HEADRACE_ENGINE names it."""
    monkeypatch.setenv("HEADRACE_ENGINE", str(shared_engine))
    return str(shared_engine)


def in_thread(what: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    """Runs something that is to fail; what it raises is put into the list."""
    caught: list[BaseException] = []

    def run() -> None:
        try:
            what()
        except BaseException as e:
            caught.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, caught


# --- one process less ----------------------------------------------------------------


def test_no_go_runtime_is_loaded(python: Python, volume: str, shared: str) -> None:
    """The trainer maps the small C library and its batches, and nothing else of ours."""
    done = python(
        script(
            """
            loader = hr.Loader(hr.random_crops(volume, (4, 4, 4), 4), batch_size=2)
            batch = next(loader)
            assert hr.open(volume).shape == (12, 10, 8)
            maps = [line.split(maxsplit=5)[-1].strip() for line in open("/proc/self/maps")]
            print(sorted({os.path.basename(m) for m in maps if "headrace" in m}))
            """
        ),
        shared,
        volume,
    )
    assert done.stdout.strip() == "['libheadrace_client.so', 'memfd:headrace batch (deleted)']"


def test_the_bytes_are_the_same(volume: str, boxes: Boxes, shared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same samples, and of the same loader: batches, ids, weights, states."""

    def run() -> list[Any]:
        out: list[Any] = []
        with pipeline(volume, boxes, dtype="f32", scale=0.25, pad="edge", axes=(2, 0, 1), batch_size=3) as p:
            out += [(b.ids, b.weight, b.numpy().tobytes()) for b in p.batches()]
        crops = hr.random_crops({"a": volume, "b": volume}, {"a": (4, 4, 4), "b": (2, 2, 2)}, 13, flips=(-1, -2))
        with hr.Loader(crops, batch_size=4, dtype={"a": "bf16"}, seed=9) as loader:
            for batch in loader:
                out += [(batch.ids, batch.step, batch.weight, [t.numpy().tobytes() for t in batch.values()])]
                out += [loader.state_dict()]
            out += [loader.fingerprint, len(loader)]
        return out

    there = run()
    monkeypatch.delenv("HEADRACE_ENGINE")
    assert run() == there


def test_rank_and_paths_are_the_clients(python: Python, volume: str, shared: str, tmp_path: Path) -> None:
    """The engine runs elsewhere, with another environment; a relative path and pattern are the trainer's."""
    done = python(
        script(
            """
            os.environ.update(RANK="1", WORLD_SIZE="3", LOCAL_RANK="1", LOCAL_WORLD_SIZE="3")
            os.chdir(sys.argv[3])
            crops = hr.grid_crops("vol*.zarr", (4, 4, 4))
            loader = hr.Loader(crops, batch_size=2, shuffle=False)
            with hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=1)) as p:
                p.push(hr.Sample("volume.zarr", [(0, 4)] * 3))
                p.pop()
            print(loader.rank, loader.world_size, next(loader).ids, hr.open("volume.zarr").shape, len(crops))
            """
        ),
        shared,
        volume,
        str(tmp_path),
    )
    assert done.stdout.strip() == "1 3 (2, 3) (12, 10, 8) 12"


def test_a_big_batch(tmp_path: Path, shared: str) -> None:
    """One of 64 MiB, and the memory of reads of many sizes goes back."""
    values = np.arange(1 << 24, dtype=np.uint32).reshape(1 << 12, 1 << 12)
    path = str(write_array(tmp_path / "big.zarr", values, (512, 4096)))
    with hr.Pipeline(hr.Config(shape=values.shape, batch_size=1, slots=2)) as p:
        p.push(hr.Sample(path, [(0, n) for n in values.shape]))
        np.testing.assert_array_equal(p.pop().numpy()[0], values)
    array, lib = hr.open(path), _library.library()
    for n in (1, 700, 4096):
        np.testing.assert_array_equal(array[:n, :n], values[:n, :n])
    gc.collect()
    eventually(lambda: not memory_of(lib), "slots of closed pipelines are mapped")


def memory_of(lib: Any) -> dict[int, Any]:
    return lib._memory


def test_two_clients_at_once(volume: str, boxes: Boxes, values: Array, shared: str, python: Python) -> None:
    """Another process and this one, each with its own pipelines and batches."""
    body = """
        p, q = pipeline(), pipeline(slots=2)
        print("ready", flush=True)
        sys.stdin.readline()
        print([b.ids for b in p.batches()] == [b.ids for b in q.batches()])
    """
    command = [sys.executable, "-c", script(textwrap.dedent(body)), shared, volume]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pipeline(volume, boxes) as p:
            for batch in p.batches():
                for at, i in enumerate(batch.ids):
                    np.testing.assert_array_equal(batch.numpy()[at], crop(values, boxes[i]))
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.read() == "True\n"
    assert other.returncode == 0


# --- ends of the engine --------------------------------------------------------------


def test_a_killed_engine_is_an_error_within_a_second(engine: Engine, volume: str, boxes: Boxes) -> None:
    """Calls that wait wake, later ones fail at once, and batches that are held stay as they are."""
    p = pipeline(volume, boxes, slots=1)
    batch = p.pop()
    held, before = batch.numpy(), batch.numpy().copy()
    loader = hr.Loader(hr.random_crops(volume, (4, 4, 4), 9), batch_size=1)
    array = hr.open(volume)
    waits, caught = in_thread(lambda: p.pop(None))
    eventually(lambda: waits_in_library(waits.ident or 0), "the thread never waits")
    began = time.monotonic()
    engine.kill()
    waits.join(20)
    uses: list[Callable[[], object]] = [
        p.pop,
        p.stats,
        lambda: next(loader),
        loader.state_dict,
        lambda: array[0],
        lambda: hr.open(volume),
        lambda: len(hr.grid_crops(volume, (4, 4, 4))),
    ]
    for use in uses:
        with pytest.raises(hr.EngineLost) as told:
            use()
        assert engine.socket in str(told.value)
    assert time.monotonic() - began < 1
    assert [type(e) for e in caught] == [hr.EngineLost] and "load_state_dict" in str(caught[0])
    np.testing.assert_array_equal(held, before)
    np.testing.assert_array_equal(np.from_dlpack(batch), before)
    del held
    batch.release()
    p.close()
    loader.close()
    array.close()


def test_a_stopped_engine_does_not_keep_who_closes(engine: Engine, volume: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Close waits for the engine within a bound; the engine does it when it goes on."""
    monkeypatch.setattr(_companion, "CLOSE_SECONDS", 0.1)
    loader = hr.Loader(hr.random_crops(volume, (4, 4, 4), 9), batch_size=1)
    engine.process.send_signal(signal.SIGSTOP)
    try:
        closing, caught = in_thread(loader.close)
        closing.join(5)
        assert not closing.is_alive() and caught == []
    finally:
        engine.process.send_signal(signal.SIGCONT)
    closing.join()
    with hr.Loader(hr.random_crops(volume, (4, 4, 4), 9), batch_size=1) as other:
        assert next(other).step == 0


def test_a_new_engine_is_attached(engine: Engine, volume: str) -> None:
    """A new loader goes on where the state of the old one says; objects of the old engine stay lost."""

    def make() -> hr.Loader:
        return hr.Loader(hr.random_crops(volume, (4, 4, 4), 12), batch_size=2, seed=5)

    old = make()
    want = [batch.ids for batch in old]
    old.set_epoch(0)
    old.load_state_dict(old.state_dict() | {"epoch": 0, "next_position": 0})
    got = [next(old).ids, next(old).ids]
    state = old.state_dict()
    engine.kill()
    with pytest.raises(hr.EngineLost):
        next(old)
    engine.restart()
    new = make()
    new.load_state_dict(state)
    assert got + [batch.ids for batch in new] == want
    with pytest.raises(hr.EngineLost):
        next(old)
    del old
    gc.collect()
    assert new.state_dict()["epoch"] == 1


def test_an_engine_that_is_asked_to_stop(engine: Engine, volume: str, boxes: Boxes) -> None:
    """SIGTERM, with a client that waits: exit 0, no socket, and the client is told."""
    p = hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2))
    waits, caught = in_thread(lambda: p.pop(None))
    eventually(lambda: waits_in_library(waits.ident or 0), "the thread never waits")
    stop_engine(engine.process)
    waits.join(20)
    assert [type(e) for e in caught] == [hr.EngineLost]
    assert list(engine.folder.iterdir()) == []


def test_no_engine(volume: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_ENGINE", str(tmp_path / "socket"))
    with pytest.raises(hr.EngineLost, match=r"HEADRACE_ENGINE.*nothing listens.*headrace engine --socket"):
        hr.open(volume)
    (tmp_path / "socket").write_text("a file")
    with pytest.raises(ConnectionError, match="HEADRACE_ENGINE"):
        hr.open(volume)
    monkeypatch.setenv("HEADRACE_ENGINE", "x" * 200)
    with pytest.raises(hr.EngineLost, match="too long"):
        hr.open(volume)


@pytest.mark.parametrize(
    "answer, told",
    [
        (b"headrace\x07\0\0\0\x02\0\0\0{}", "version 7 of the protocol, this package 1"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no engine"),
        (b"head", "closed the connection"),
        (b"headrace\x01\0\0\0\x04\0\0\0{oh}", "Expecting"),
    ],
)
def test_what_listens_is_no_engine_of_ours(
    answer: bytes, told: str, volume: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()

        def serve() -> None:
            conn, _ = listener.accept()
            with conn, contextlib.suppress(ConnectionResetError):  # the client has heard enough
                conn.sendall(answer)
                conn.shutdown(socket.SHUT_WR)
                while conn.recv(4096):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setenv("HEADRACE_ENGINE", str(tmp_path / "socket"))
        with pytest.raises(hr.EngineLost, match=told):
            hr.open(volume)
        thread.join()


def test_another_device_than_the_engines(volume: str, shared: str) -> None:
    with pytest.raises(hr.ConfigError, match=r'device is "cuda:0".*"cpu"'):
        hr.Loader(hr.grid_crops(volume, (4, 4, 4)), batch_size=1, device=0)
    with hr.Loader(hr.grid_crops(volume, (4, 4, 4)), batch_size=1, device="cpu") as loader:
        assert len(next(loader).ids) == 1


def test_a_request_that_is_too_large(volume: str, shared: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is sent, and the connection goes on."""
    monkeypatch.setattr(_companion, "MAX_FRAME", 2000)
    crops = hr.crop_list(hr.Sample(volume, [(i % 8, i % 8 + 4), (0, 4), (0, 4)]) for i in range(100))
    with pytest.raises(hr.Budget, match=r"request of \d+ bytes.*at most 2000"):
        len(crops)
    monkeypatch.setattr(_companion, "MAX_FRAME", 1 << 20)
    assert len(hr.grid_crops(volume, (4, 4, 4))) == 12


def test_bounds_are_told(engine: Engine, volume: str, boxes: Boxes) -> None:
    stop_engine(engine.process)
    engine.restart("--max-pipelines", "1", "--max-clients", "1")
    p = pipeline(volume, boxes)
    with pytest.raises(hr.Budget, match="--max-pipelines"):
        pipeline(volume, boxes)
    p.close()
    with pipeline(volume, boxes) as p:
        assert p.pop().ids == (0, 1)
    code = "import headrace as hr, sys\ntry: hr.open(sys.argv[1])\nexcept hr.Budget as e: print(e)"
    told = subprocess.run([sys.executable, "-c", code, volume], capture_output=True, text=True, cwd=HERE)
    assert "1 clients" in told.stdout and "--max-clients" in told.stdout, told.stderr


def test_no_more_files(python: Python, volume: str, shared: str) -> None:
    """Memory that finds no descriptor is an error of the batches in it, which says why, and of nothing else."""
    done = python(
        script(
            """
            import resource
            p = pipeline(slots=2)
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
            taken = []
            while len(taken) < 64:
                try:
                    taken.append(os.dup(0))
                except OSError:
                    break
            try:
                p.pop()
            except hr.Budget as e:
                assert "ulimit -n" in str(e), e
                print("budget")
            for fd in taken:
                os.close(fd)
            assert p.pop().shape == pipeline().pop().shape == (2, 4, 4, 4)
            print("and on")
            """
        ),
        shared,
        volume,
    )
    assert done.stdout.split() == ["budget", "and", "on"], done.stdout + done.stderr


def test_the_command(tmp_path: Path) -> None:
    """Its line, its JSON, and the paths it refuses."""
    command = [sys.executable, "-P", "-m", "headrace", "engine", "--json", "--device", "cpu", "--socket"]
    engine = subprocess.Popen([*command, str(tmp_path / "s")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert engine.stdout is not None and engine.stderr is not None
    assert engine.stderr.readline() == f"headrace: engine ready on cpu at {tmp_path / 's'}\n"
    said = json.loads(engine.stdout.readline())
    assert said == {
        "socket": str(tmp_path / "s"),
        "device": "cpu",
        "version": hr.__version__,
        "protocol": 1,
        "pid": engine.pid,
    }
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
    second = subprocess.run([*command, str(tmp_path / "s")], capture_output=True, text=True)
    assert second.returncode == 2 and f"somebody listens at {tmp_path / 's'}" in second.stderr
    engine.kill()
    engine.communicate()
    third = subprocess.Popen([*command, str(tmp_path / "s")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert third.stderr is not None and "ready" in third.stderr.readline()
    third.send_signal(signal.SIGINT)
    third.communicate()
    assert third.returncode == 0 and not (tmp_path / "s").exists()


# --- ends of the trainer -------------------------------------------------------------

HOLD = """
    kept = [pipeline(), pipeline(slots=2), hr.Loader(hr.random_crops(volume, (4, 4, 4), 9), batch_size=1)]
    kept += [kept[0].pop(), kept[1].pop().numpy(), next(kept[2])]
    print("ready", flush=True)
    {wait}
"""


@pytest.mark.parametrize("heir", [False, True], ids=["alone", "with_a_child"])
def test_a_killed_trainer_leaves_nothing(engine: Engine, volume: str, boxes: Boxes, heir: bool) -> None:
    """kill -9 with batches held: the next client gets all of the engine, whatever the trainer's children inherited."""
    stop_engine(engine.process)
    engine.restart("--max-pipelines", "3", "--max-clients", "1")
    inherit = (
        """
        import subprocess
        from headrace import _companion, _library
        lib = _library.library()
        fds = (lib._socket.fileno(), lib._release_fd)
        child = subprocess.Popen(["sleep", "60"], pass_fds=fds)
        print(child.pid, flush=True)
        """
        if heir
        else ""
    )
    body = textwrap.dedent(HOLD).format(wait=textwrap.dedent(inherit) + "\nsignal.pause()")
    trainer = subprocess.Popen(
        [sys.executable, "-c", script(body), engine.socket, volume],
        stdout=subprocess.PIPE,
        text=True,
        cwd=HERE,
    )
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == "ready\n"
    child = int(trainer.stdout.readline()) if heir else 0
    trainer.kill()
    trainer.wait()

    def free() -> bool:
        try:
            kept = [pipeline(volume, boxes) for _ in range(3)]
        except hr.Budget:
            return False
        return [p.pop().ids for p in kept] == [(0, 1)] * 3

    eventually(free, "the engine keeps what the trainer had")
    if child:
        os.kill(child, signal.SIGKILL)
    trainer.stdout.close()
    maps = Path(f"/proc/{engine.process.pid}/maps")
    gc.collect()
    eventually(lambda: "headrace batch" not in maps.read_text(), "the engine keeps memory of batches")


def test_the_end_of_the_interpreter(python: Python, volume: str, shared: str) -> None:
    """Whatever is alive at the end, a thread that waits too: nothing crashes, nothing is printed."""
    done = python(
        script(
            """
            import threading, numpy as np
            p, loader = pipeline(), hr.Loader(hr.random_crops(volume, (4, 4, 4), 9), batch_size=1)
            batch = p.pop()
            kept = [batch, batch.numpy(), batch.__dlpack__(), np.from_dlpack(batch), batch["data"]]
            kept += [p, loader, next(loader), hr.open(volume)]
            cycle = {"kept": kept}; cycle["self"] = cycle
            sys.modules["kept"] = cycle
            empty = hr.Pipeline(hr.Config(shape=(4,), batch_size=1))
            thread = threading.Thread(target=lambda: empty.pop(None), daemon=True)
            thread.start()
            while sys._current_frames()[thread.ident].f_code.co_name != "call":
                time.sleep(0.001)
            """
        ),
        shared,
        volume,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_forked_child_gets_an_error_at_once(python: Python, volume: str, shared: str) -> None:
    """As in one process: every call says so, and the parent's connection and batches are not touched."""
    done = python(
        script(
            """
            import gc, warnings
            warnings.simplefilter("ignore", DeprecationWarning)
            p = pipeline(slots=1)
            batch = p.pop()
            x, capsule = batch.numpy(), batch.__dlpack__()
            array, loader = hr.open(volume), hr.Loader(hr.random_crops(volume, (4, 4, 4), 4), batch_size=2)
            pid = os.fork()
            if pid == 0:
                began = time.monotonic()
                uses = [p.pop, p.stats, lambda: array[0], lambda: next(loader), loader.state_dict, lambda: hr.open(volume),
                        lambda: pipeline(), lambda: batch["data"], lambda: len(hr.grid_crops(volume, (1, 1, 1))), p.close]
                for use in uses:
                    try:
                        use()
                        print("no error from", use)
                    except hr.Forked as e:
                        assert str(os.getpid()) in str(e) and "spawn" in str(e)
                assert x[0, 0, 0, 1] == 1
                kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]  # may have the numbers of the connection
                del x, capsule, batch, p, array, loader
                gc.collect()
                for fd in kept: os.fstat(fd)
                assert time.monotonic() - began < 5
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            try:
                p.pop(timeout=0.2)
                print("the child released the parent's batch")
            except hr.PoolStarved:
                pass
            del x, capsule
            batch.release()
            assert p.pop().ids == (2, 3)
            print("fine")
            """
        ),
        shared,
        volume,
    )
    assert done.stdout.strip() == "fine" and not done.stderr


def test_dataloader_like_workers(python: Python, volume: str, shared: str) -> None:
    """Workers that are forked refuse, those that are spawned are clients of their own."""
    done = python(
        script(
            """
            import multiprocessing, warnings
            warnings.simplefilter("ignore", DeprecationWarning)
            from conftest import spawned_reads
            assert spawned_reads(volume) == 5
            with multiprocessing.get_context("fork").Pool(1) as pool:
                try:
                    pool.apply(spawned_reads, (volume,))
                except hr.Forked:
                    print("refused")
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.apply(spawned_reads, (volume,)))
            """
        ),
        shared,
        volume,
    )
    assert done.stdout.split() == ["refused", "5"]


# --- signals and threads --------------------------------------------------------------


def test_ctrl_c_comes_through_and_loses_no_batch(python: Python, volume: str, shared: str, tmp_path: Path) -> None:
    """While the main thread waits; the call is given up, and the pipeline goes on with the same batch."""
    blocks = tmp_path / "blocks.zarr"
    blocks.mkdir()
    os.mkfifo(blocks / "zarr.json")  # reading it waits for a writer
    done = python(
        script(
            """
            import threading
            main = threading.get_ident()
            def interrupt():
                while sys._current_frames()[main].f_code.co_name != "call":
                    time.sleep(0.001)
                sent.append(time.monotonic())
                signal.pthread_kill(main, signal.SIGINT)
            p = hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=1))
            for wait in (lambda: p.pop(None), lambda: hr.open(sys.argv[3])):
                sent = []
                thread = threading.Thread(target=interrupt)
                try:
                    thread.start()
                    while True: wait()
                except KeyboardInterrupt:
                    print(time.monotonic() - sent[0] < 0.2)
                thread.join()
            p.push(hr.Sample(volume, [(0, 4)] * 3))
            print(p.pop().ids)
            """
        ),
        shared,
        volume,
        str(blocks),
    )
    assert done.stdout.split("\n") == ["True", "True", "(0,)", ""]


def test_replies_that_nobody_waits_for_go_back(volume: str, boxes: Boxes, shared: str) -> None:
    """A batch and a handle whose caller was interrupted just before they came."""
    lib: Any = _library.library()
    with pipeline(volume, boxes, slots=1) as p:
        handle: int = p._handle
        lib._send(NEXT, next(lib._ids), struct.pack("<QII", handle, 10_000, 0))
        got = [p.pop().ids[0] for _ in range(3)]  # each needs the one slot
        assert len(set(got)) == 3 and set(got) < {0, 2, 4, 6}
    lib._send(OPEN, next(lib._ids), json.dumps({"open": "array", "uri": volume}).encode())
    assert hr.open(volume).shape == (12, 10, 8)


def test_signals_between_any_two_steps(python: Python, volume: str, shared: str) -> None:
    """A timer that raises all the time: the connection stays whole, and slots come back."""
    done = python(
        script(
            """
            import itertools
            class Alarm(Exception): pass
            armed = False
            def ring(*_):
                global armed
                if armed:
                    armed = False
                    raise Alarm
            p = hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2, slots=2))
            p.push(itertools.repeat(hr.Sample(volume, [(0, 4)] * 3)))  # no generator: an exception would end it
            signal.signal(signal.SIGALRM, ring)
            rung = 0
            deadline = time.monotonic() + 2
            signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
            while time.monotonic() < deadline:
                try:
                    armed = True
                    p.pop(None).release()
                    armed = False
                except Alarm:
                    rung += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            armed = False
            p.discard()
            p.push([hr.Sample(volume, [(0, 4)] * 3) for _ in range(8)])
            assert [len(b.ids) for b in p.batches()] == [2] * 4
            assert hr.open(volume)[0, 0, 5] == 5
            print(rung > 20)
            """
        ),
        shared,
        volume,
    )
    assert done.stdout.strip() == "True"


def test_finalisers_may_run_anywhere(volume: str, boxes: Boxes, shared: str) -> None:
    """Objects that are dropped, in cycles and by other threads, close themselves."""

    def drop() -> None:
        for _ in range(20):
            p = pipeline(volume, boxes)
            p.pop()
            cycle: list[Any] = [p]
            cycle.append(cycle)

    threads = [threading.Thread(target=drop) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    gc.collect()
    with pipeline(volume, boxes) as p:
        assert p.pop().ids == (0, 1)
