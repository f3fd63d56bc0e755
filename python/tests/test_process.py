"""What happens to a whole process: forks, signals, panics, the end of the interpreter, other libraries."""

from __future__ import annotations

import os
import shutil
import textwrap
from pathlib import Path

import pytest

import headrace
from conftest import Python

PANIC = Path(__file__).parents[2] / "build" / "panic" / "libheadrace.so"
"""The library with an export that only panics; `make test-python` builds it."""

needs_panic = pytest.mark.skipif(not PANIC.exists(), reason=f"{PANIC} is not built: make build/panic/libheadrace.so")

START = """
import os, sys, time
import headrace as hr
volume = sys.argv[1]
def pipeline(**options):
    p = hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2, **options))
    p.push(hr.Sample(volume, [(i, i + 4), (0, 4), (0, 4)]) for i in range(8))
    return p
"""


def script(body: str) -> str:
    return START + textwrap.dedent(body)


def test_importing_loads_no_library(python: Python, volume: str) -> None:
    """The Go runtime must not be there before it is needed: forks are fine until then."""
    done = python(
        script(
            """
            def loaded(): return [l.split()[-1] for l in open("/proc/self/maps") if "libheadrace" in l]
            hr.random_crops(volume, (4, 4, 4), 10), hr.Sample(volume, [(0, 1)]), hr.Config(shape=(1,), batch_size=1)
            assert not loaded() and "ctypes" in sys.modules
            assert "numpy" not in sys.modules and "torch" not in sys.modules
            pid = os.fork()
            if pid == 0:
                with pipeline() as p: ids = p.pop().ids  # loaded in the child alone
                os._exit(0 if ids == (0, 1) else 1)
            assert os.waitpid(pid, 0)[1] == 0 and not loaded()
            assert pipeline().pop().ids == (0, 1)
            print(sorted({os.path.basename(p) for p in loaded()}))
            """
        ),
        volume,
    )
    assert done.stdout.strip() == "['libheadrace.so', 'libheadrace_client.so']"


def test_a_forked_child_gets_an_error_at_once(python: Python, volume: str) -> None:
    """Every call says so, finalisers do nothing, and the parent's batches are not given back."""
    done = python(
        script(
            """
            import gc, warnings, numpy as np
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks too
            p = pipeline(slots=1)
            batch = p.pop()
            x, capsule = batch.numpy(), batch.__dlpack__()
            array, loader = hr.open(volume), hr.Loader(hr.random_crops(volume, (4, 4, 4), 4), batch_size=2)
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                began = time.monotonic()
                uses = [p.pop, p.stats, p.finish, lambda: array[0], lambda: next(loader), lambda: iter(loader),
                        loader.state_dict, lambda: hr.open(volume), lambda: pipeline(), lambda: batch["data"],
                        batch.__dlpack__, lambda: len(hr.grid_crops(volume, (1, 1, 1))), p.close]
                for use in uses:
                    try:
                        use()
                        print("no error from", use)
                    except hr.Forked as e:
                        assert str(os.getpid()) in str(e) and "spawn" in str(e)
                assert x[0, 0, 0, 1] == 1
                assert np.from_dlpack is not None
                del x, capsule, batch, p, array, loader
                gc.collect()
                assert time.monotonic() - began < 5
                sys.exit(0)  # runs what runs at exit
            assert os.waitpid(pid, 0)[1] == 0
            try:
                p.pop(timeout=0.2)  # the one slot is still held here
                print("the child released the parent's batch")
            except hr.PoolStarved:
                pass
            del x, capsule
            batch.release()
            assert p.pop().ids == (2, 3)
            print("fine")
            """
        ),
        volume,
    )
    assert done.stdout.strip() == "fine" and not done.stderr


def test_multiprocessing_works_by_spawn(volume: str, tmp_path: Path, python: Python) -> None:
    (tmp_path / "work.py").write_text("import headrace as hr\ndef work(path):\n    return int(hr.open(path)[0, 0, 5])\n")
    done = python(
        script(
            """
            import multiprocessing
            sys.path.insert(0, sys.argv[2])
            os.environ["PYTHONPATH"] = sys.argv[2] + ":" + os.environ.get("PYTHONPATH", "")
            import work
            assert work.work(volume) == 5
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.apply(work.work, (volume,)))
            """
        ),
        volume,
        str(tmp_path),
    )
    assert done.stdout.strip() == "5"


WAITS = {
    "pop": "hr.Pipeline(hr.Config(shape=(4,), batch_size=1)).pop(None)",
    "next": "loader = hr.Loader(hr.random_crops(volume, (4, 4, 4), 9), batch_size=1); kept = list(loader)",
    "open": "hr.open(volume_that_blocks)",
}


@pytest.mark.parametrize("what", WAITS)
def test_ctrl_c_comes_through_within_200_ms(python: Python, volume: str, tmp_path: Path, what: str) -> None:
    """While the main thread waits in the library; a second call still works after it."""
    blocks = tmp_path / "blocks.zarr"
    blocks.mkdir()
    os.mkfifo(blocks / "zarr.json")  # reading it waits for a writer
    done = python(
        script(
            f"""
            import signal, threading
            volume_that_blocks = sys.argv[2]
            main = threading.get_ident()
            sent = []
            def interrupt():
                def waits():
                    frame = sys._current_frames()[main]
                    return frame.f_code.co_name == "call" and frame.f_back.f_code.co_name in ("next", "_wait")
                began = None
                while began is None or time.monotonic() - began < 0.12:  # longer than one step
                    began = (began or time.monotonic()) if waits() else began
                    time.sleep(0.001)
                sent.append(time.monotonic())
                signal.pthread_kill(main, signal.SIGINT)
            hr.open(volume)
            threading.Thread(target=interrupt).start()
            try:
                {WAITS[what]}
            except KeyboardInterrupt:
                took = time.monotonic() - sent[0]
            assert pipeline().pop().ids == (0, 1)
            print(took)
            """
        ),
        volume,
        str(blocks),
    )
    assert float(done.stdout) < 0.2


def test_the_end_of_the_interpreter(python: Python, volume: str) -> None:
    """Whatever is alive at the end: nothing crashes, nothing is printed."""
    done = python(
        script(
            """
            import numpy as np
            p, loader = pipeline(), hr.Loader(hr.random_crops(volume, (4, 4, 4), 9), batch_size=1)
            batch = p.pop()
            kept = [batch, batch.numpy(), batch.__dlpack__(), np.from_dlpack(batch), batch["data"]]
            kept += [p, loader, next(loader), hr.open(volume)]
            cycle = {"kept": kept}; cycle["self"] = cycle
            sys.modules["kept"] = cycle
            """
        ),
        volume,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_threads_that_still_wait_at_the_end(python: Python, volume: str) -> None:
    done = python(
        script(
            """
            import threading
            p = hr.Pipeline(hr.Config(shape=(4,), batch_size=1))
            thread = threading.Thread(target=lambda: p.pop(None), daemon=True)
            thread.start()
            while sys._current_frames()[thread.ident].f_code.co_name != "call":
                time.sleep(0.001)
            """
        ),
        volume,
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("order", ["before", "after"])
def test_faulthandler(python: Python, volume: str, order: str) -> None:
    done = python(
        script(
            f"""
            import faulthandler
            if {order == "before"}: faulthandler.enable()
            assert pipeline().pop().ids == (0, 1)
            if {order == "after"}: faulthandler.enable()
            p = pipeline()
            print([b.ids for b in p.batches()])
            """
        ),
        volume,
    )
    assert done.stdout.strip() == "[(0, 1), (2, 3), (4, 5), (6, 7)]" and not done.stderr


def test_all_symbols_are_there_at_load(python: Python) -> None:
    """RTLD_NOW, as LD_BIND_NOW asks for: no symbol is left for later."""
    done = python(
        """
        import os, ctypes, headrace
        folder = os.path.dirname(headrace.__file__)
        for name in ("libheadrace.so", "libheadrace_client.so"):
            library = ctypes.CDLL(os.path.join(folder, name), mode=os.RTLD_NOW)
        assert ctypes.CDLL(os.path.join(folder, "libheadrace.so"), mode=os.RTLD_NOW).hr_abi_version() == 2
        """
    )
    assert not done.stderr


def test_another_abi_version_is_refused(python: Python) -> None:
    done = python(
        """
        import headrace as hr
        from headrace import _library
        _library.ABI_VERSION = 99
        try:
            hr.open("a.zarr")
        except hr.Bug as e:
            print(e)
        """
    )
    assert "99" in done.stdout and "reinstall" in done.stdout


def test_two_go_runtimes(python: Python, volume: str, tmp_path: Path) -> None:
    """Upstream does not promise it, users do it: another Go library beside ours."""
    other = tmp_path / "libother.so"
    shutil.copy(Path(headrace.__file__).parent / "libheadrace.so", other)
    done = python(
        script(
            """
            import ctypes
            p = pipeline()
            other = ctypes.CDLL(sys.argv[2])
            assert other.hr_abi_version() == 2
            for _ in range(50):
                p.push(hr.Sample(volume, [(0, 4), (0, 4), (0, 4)]) for _ in range(2))
                p.pop().release()
                error, fd = (ctypes.c_char * 64)(), ctypes.c_int32()
                assert other.hr_start(b'{"env": {}}', ctypes.byref(fd), error) == 0 and fd.value > 2
            print("fine")
            """
        ),
        volume,
        str(other),
    )
    assert done.stdout.strip() == "fine" and not done.stderr


@needs_panic
@pytest.mark.parametrize("how, fault", [(0, False), (1, True), (2, False)], ids=["panic", "fault", "goroutine"])
def test_a_panic_poisons_the_library(python: Python, volume: str, tmp_path: Path, how: int, fault: bool) -> None:
    """The first one dumps the stacks, is an exception, and so is every call after it; the process lives."""
    shutil.copy(PANIC, tmp_path)
    shutil.copy(Path(headrace.__file__).parent / "libheadrace_client.so", tmp_path)
    done = python(
        script(
            f"""
            import ctypes, pathlib
            from headrace import _library
            _library.FOLDER = pathlib.Path(sys.argv[2])
            p = pipeline()
            batch = p.pop()
            lib = _library.library()
            call = ctypes.c_uint64()
            told = []
            for use in [lambda: lib._wait(lambda call: lib.call("hr_test_panic", {how}, ctypes.byref(call))),
                        p.pop, lambda: hr.open(volume), lambda: pipeline(), p.close]:
                try:
                    use()
                except hr.Bug as e:
                    told.append(str(e))
            assert batch.numpy().shape == (2, 4, 4, 4)
            batch.release()
            print(len(told), told[0], told[-1], sep="|")
            """
        ),
        volume,
        str(tmp_path),
    )
    what = "nil pointer" if fault else "a panic on purpose"
    count, first, last = done.stdout.strip().split("|")
    assert count == "5" and what in first and "earlier call" in last and what in last
    assert done.stderr.count("headrace: panic: ") == 1 and "goroutine" in done.stderr
