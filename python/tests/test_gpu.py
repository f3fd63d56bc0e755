"""Batches on a GPU: what is in them, who may look at them, and when their memory is written again.

Runs where there is a GPU, with torch, cupy and jax as far as they are there. What needs
only streams and copies is run everywhere, over the fake driver: test_fake_gpu.py.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cuda_driver
import headrace as hr
from conftest import Array, Boxes, Python, eventually, start_engine, stop_engine
from test_batch import Versioned, consume
from zarr_writer import write_array

driver, missing = cuda_driver.find()
pytestmark = pytest.mark.skipif(driver is None, reason=missing)

SMALL: dict[str, Any] = {"device_bytes": 256 << 20, "host_bytes": 256 << 20, "workers": 2}
"""Budgets of engines that have little to do."""

KINDS = ["in_process", "companion"]


@pytest.fixture(scope="session")
def gpu_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of an engine on GPU 0."""
    folder = tmp_path_factory.mktemp("gpu_engine")
    engine = start_engine(folder, "--device", "cuda:0")
    yield folder / "socket"
    stop_engine(engine)


@pytest.fixture(autouse=True, params=KINDS)
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the engine is: in this process, or beside it."""
    monkeypatch.delenv("HEADRACE_ENGINE", raising=False)
    if request.param == "companion":
        monkeypatch.setenv("HEADRACE_ENGINE", str(request.getfixturevalue("gpu_engine")))
    return request.param


@pytest.fixture
def gpu() -> Iterator[cuda_driver.Driver]:
    """The consumer's own use of the GPU."""
    assert driver is not None
    yield driver
    if driver.is_fake:
        driver.fake("lazy", 0)


def pipeline(volume: str, boxes: Boxes, **options: Any) -> hr.Pipeline:
    p = hr.Pipeline(hr.Config(**{"shape": (4, 4, 4), "batch_size": 2, **SMALL, **options}))
    p.push(hr.Sample(volume, box) for box in boxes)
    return p


def torch_or_skip() -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip(f"torch {torch.__version__} has no CUDA here")
    return torch


# --- which device ---------------------------------------------------------------------


def test_the_default_is_the_ranks_gpu(volume: str, boxes: Boxes, where: str) -> None:
    with pipeline(volume, boxes) as p:
        assert p.device == "cuda:0" and "on cuda:0" in repr(p)
        stats = p.stats()
        assert stats["device"] == "cuda:0" and stats["device_bytes"] > 0
        assert ("GPU" if where == "in_process" else "of the engine") in stats["device_reason"]
        batch = p.pop()
        assert batch["data"].device == batch.__dlpack_device__() == (2, 0)
    with hr.Loader(hr.grid_crops(volume, (4, 4, 4)), batch_size=2, **SMALL) as loader:
        assert loader.device == "cuda:0" and "on cuda:0" in repr(loader)
        assert next(loader).__dlpack_device__() == (2, 0)


def test_a_device_by_name(volume: str, where: str, gpu: cuda_driver.Driver) -> None:
    config = hr.Config(shape=(4, 4, 4), batch_size=2, **SMALL)
    uuid = ctypes.create_string_buffer(16)
    gpu("cuDeviceGetUuid", ctypes.byref(uuid), ctypes.c_int(0))
    for device in (0, "cuda:0", f"GPU-{uuid.raw.hex()}"):
        with hr.Pipeline(config, device=device) as p:
            assert p.device == "cuda:0"
    with pytest.raises(hr.ConfigError if where == "companion" else hr.Device) as told:
        hr.Pipeline(config, device=99)
    assert "\n" not in str(told.value) and "99" in str(told.value)
    if where == "in_process":
        with hr.Pipeline(config, device="cpu") as p:
            assert p.device == "cpu" and p.stats()["device_reason"] == "asked for"


def test_memory_that_is_too_little(volume: str, boxes: Boxes) -> None:
    lower = "slots, batch_size, compressed_bytes or decoded_bytes"
    with pytest.raises(hr.Budget, match=rf"device_bytes 4096 is too little.*raise it, or lower {lower}"):
        pipeline(volume, boxes, device_bytes=4096)


# --- what is in them ------------------------------------------------------------------

KINDS_OF_BATCH: list[dict[str, Any]] = [
    {},
    {"dtype": "f32"},
    {"dtype": "bf16"},
    {"dtype": "u8"},
    {"dtype": "f16", "scale": 0.5, "offset": 3.0},
    {"dtype": "f64", "axes": (2, 0, 1)},
    {"pad": "reflect", "shape": (20, 4, 12)},
    {"pad": "fill", "pad_value": 7, "shape": (20, 4, 12), "reuse": "none"},
]


@pytest.mark.parametrize("options", KINDS_OF_BATCH, ids=repr)
@pytest.mark.parametrize("compress", [False, True])
def test_bytes_are_those_of_the_host(
    options: dict[str, Any], compress: bool, tmp_path: Path, values: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write_array(tmp_path / "a.zarr", values, (5, 4, 8), compress=compress))
    shape = options.get("shape", (4, 4, 4))
    rng = np.random.default_rng(5)
    free = [12 - 4, 10 - 4, 8 - 4] if shape == (4, 4, 4) else [1, 6, 1]
    boxes = [[(int(at), int(at) + n) for at, n in zip(rng.integers(0, free), shape, strict=True)] for _ in range(40)]

    def take(device: str | None) -> list[Any]:
        config = hr.Config(**{"shape": shape, "batch_size": 5, **SMALL, **options})
        with hr.Pipeline(config, device=device) as p:
            p.push(hr.Sample(path, box) for box in boxes)
            return [(b.ids, b["data"].dtype, b.numpy().view(np.uint8).tobytes()) for b in p.batches()]

    got = take(None)
    monkeypatch.delenv("HEADRACE_ENGINE", raising=False)
    assert got == take("cpu")


def test_an_empty_batch(broken: str, boxes: Boxes) -> None:
    with pipeline(broken, boxes[:2], on_error="skip") as p:
        batch = p.pop()
        assert batch.ids == () and batch.numpy().shape == (0, 4, 4, 4) and len(batch.errors) == 2
        managed, _ = consume(batch.__dlpack__(max_version=(1, 0)))
        assert (managed.tensor.data, managed.tensor.device_type) == (None, 2)
        managed.deleter(ctypes.addressof(managed))
        managed, _ = consume(batch.__dlpack__(max_version=(1, 0), dl_device=(1, 0)))
        assert (managed.tensor.data, managed.tensor.device_type) == (None, 1)
        managed.deleter(ctypes.addressof(managed))


# --- DLPack ---------------------------------------------------------------------------


@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 3)])
def test_capsules(volume: str, boxes: Boxes, max_version: tuple[int, int] | None, gpu: cuda_driver.Driver) -> None:
    with pipeline(volume, boxes) as p:
        batch = p.pop()
        want = batch.numpy()
        capsule = batch.__dlpack__(max_version=max_version, stream=1)
        managed, _ = consume(capsule)
        assert isinstance(managed, Versioned) == bool(max_version and max_version >= (1, 0))
        if isinstance(managed, Versioned):
            assert (managed.major, managed.flags) == (1, 0)
        t = managed.tensor
        assert (t.device_type, t.device_id, t.ndim, t.byte_offset, t.code, t.bits) == (2, 0, 4, 0, 1, 16)
        assert t.shape[:4] == [2, 4, 4, 4] and t.strides[:4] == [64, 16, 4, 1] and t.data % 256 == 0
        stream = gpu.stream()
        assert gpu.bytes_at(stream, t.data, want.nbytes) == want.tobytes()
        gpu.destroy(stream)
        managed.deleter(ctypes.addressof(managed))


def test_dlpack_asks(volume: str, boxes: Boxes) -> None:
    with pipeline(volume, boxes) as p:
        x = p.pop()["data"]
        refused: list[dict[str, Any]] = [
            {"stream": 0},
            {"stream": -2},
            {"stream": "1"},
            {"stream": True},
            {"copy": True},
            {"dl_device": (2, 0), "copy": True},
            {"dl_device": (2, 1)},
            {"dl_device": (1, 0), "copy": False},
        ]
        for ask in refused:
            with pytest.raises(BufferError):
                x.__dlpack__(**ask)
        taken: list[dict[str, Any]] = [{"stream": s} for s in (None, 1, 2, -1)]
        for ask in [*taken, {"dl_device": (2, 0), "copy": False}, {"dl_device": np.array((2, 0))}]:
            x.__dlpack__(**ask)


@pytest.mark.parametrize("copy", [None, True])
def test_a_host_copy(volume: str, boxes: Boxes, copy: bool | None) -> None:
    """It outlives everything, and is nobody else's."""
    p = pipeline(volume, boxes)
    batch = p.pop()
    want = batch.numpy()
    capsule = batch.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=copy)
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        np.testing.assert_array_equal(np.from_dlpack(batch, device="cpu"), want)
    batch.release()
    p.close()
    managed, _ = consume(capsule)
    assert (managed.flags, managed.tensor.device_type) == (2, 1)
    assert ctypes.string_at(managed.tensor.data, want.nbytes) == want.tobytes()
    managed.deleter(ctypes.addressof(managed))
    other = np.zeros_like(want)
    other[:] = want
    np.testing.assert_array_equal(other, want)


def test_numpy_is_a_copy(volume: str, boxes: Boxes) -> None:
    p = pipeline(volume, boxes)
    batch = p.pop()
    x = batch["data"]
    a, b = x.numpy(), np.asarray(x, np.float32)
    a[:] = 0
    assert x.numpy().any() and b.dtype == np.float32
    with pytest.raises(ValueError, match="without a copy"):
        x.__array__(copy=False)
    p.close()
    batch.release()
    np.testing.assert_array_equal(x.numpy(), b)  # the tensor holds it


# --- when memory is written again -----------------------------------------------------


def busy(gpu: cuda_driver.Driver, stream: int) -> None:
    """Gives the stream something to do: on a GPU half a second of copies, on the fake one until somebody waits for it."""
    if gpu.is_fake:
        gpu.fake("lazy", 1)
        return
    nbytes = 2 << 30
    memory = gpu.alloc(2 * nbytes)
    for _ in range(200):
        gpu.copy(stream, memory, memory + nbytes, nbytes)


class Reader:
    """A consumer that reads a batch late."""

    def __init__(self, gpu: cuda_driver.Driver) -> None:
        self.gpu, self.stream, self.nbytes = gpu, gpu.stream(), 2 * 64 * 2
        self.kept = gpu.alloc(self.nbytes)

    def read(self, x: hr.Tensor, **ask: Any) -> None:
        """Queues the reading of a tensor behind other work, and lets go of it."""
        managed, _ = consume(x.__dlpack__(**{"stream": self.stream, **ask}))
        busy(self.gpu, self.stream)
        self.gpu.copy(self.stream, self.kept, managed.tensor.data, self.nbytes)
        managed.deleter(ctypes.addressof(managed))

    def got(self) -> bytes:
        return self.gpu.bytes_at(self.stream, self.kept, self.nbytes)


WAYS = ("dlpack", "release", "unknown", "two_streams", "left_out")


@pytest.mark.parametrize("way", WAYS)
def test_a_slot_waits_for_its_consumers(volume: str, boxes: Boxes, gpu: cuda_driver.Driver, way: str) -> None:
    """The next batch does not show in the reading of the last one, however late that is; left out, it does."""
    with pipeline(volume, boxes, slots=1, lookahead=2) as p:
        p._library.ordered = way != "left_out"
        try:
            reader, other = Reader(gpu), gpu.stream()
            batch = p.pop()
            want = batch.numpy().tobytes()
            if way in ("dlpack", "left_out"):
                reader.read(batch["data"])
                batch.release()
            elif way == "release":
                reader.read(batch["data"], stream=1)
                batch.release(stream=reader.stream)
            elif way == "two_streams":
                reader.read(batch["data"])
                batch.__dlpack__(stream=other)
                batch.release()
            else:
                reader.read(batch["data"], stream=-1)
                batch.release()
            del batch
            gc.collect()
            second = p.pop()
            assert (reader.got() != want) == (way == "left_out")
            second.release()
        finally:
            p._library.ordered = True


@pytest.mark.parametrize("where", ["companion"], indirect=True)
def test_a_slow_stream_keeps_back_its_own_slot_alone(volume: str, boxes: Boxes, gpu: cuda_driver.Driver) -> None:
    """The slots of batches that other streams are done with come back while it still has work."""
    if not gpu.is_fake:
        pytest.skip("only the fake driver has a stream that stands still")
    with pipeline(volume, boxes * 3, slots=3, lookahead=2) as p:
        streams = [gpu.stream() for _ in range(3)]
        for slow in streams[:2]:
            gpu.fake("hold", slow, b=1)
            p.pop().release(stream=slow)
        for _ in range(4):  # by the third slot
            p.pop(timeout=20).release(stream=streams[2])
        gpu.fake("hold", streams[1], b=0)
        kept = p.pop(timeout=20)
        for _ in range(2):  # by the second one
            p.pop(timeout=20).release(stream=streams[2])
        kept.release()
        gpu.fake("hold", streams[0], b=0)
    for stream in streams:
        gpu.destroy(stream)


def test_a_stream_that_is_gone(python: Python, volume: str, gpu: cuda_driver.Driver) -> None:
    """A consumer that destroys its stream before it lets go of the batch: the engine goes on."""
    done = python(
        """
        import sys, headrace as hr, cuda_driver
        gpu = cuda_driver.Driver()
        p = hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2, slots=1, device_bytes=1 << 28, host_bytes=1 << 28, workers=1))
        p.push(hr.Sample(sys.argv[1], [(i, i + 4), (0, 4), (0, 4)]) for i in range(8))
        for release in (lambda b, s: None, lambda b, s: b.release(s), lambda b, s: None):
            batch, stream = p.pop(), gpu.stream()
            capsule = batch.__dlpack__(stream=stream)
            release(batch, stream)
            gpu.destroy(stream)
            del capsule, batch
        print(p.pop().ids)
        """,
        volume,
    )
    assert done.stdout.strip() == "(6, 7)"


def test_the_end_of_the_interpreter(python: Python, volume: str) -> None:
    """Whatever is alive at the end: nothing crashes, nothing is printed."""
    done = python(
        """
        import sys, headrace as hr
        p = hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2, device_bytes=1 << 28, host_bytes=1 << 28, workers=1))
        p.push(hr.Sample(sys.argv[1], [(i, i + 4), (0, 4), (0, 4)]) for i in range(8))
        batch = p.pop()
        cycle = {"kept": [batch, batch["data"], batch.__dlpack__(), batch.__dlpack__(max_version=(1, 0), dl_device=(1, 0)), p]}
        cycle["self"] = cycle
        sys.modules["kept"] = cycle
        """,
        volume,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_forked_child_gets_an_error_at_once(python: Python, volume: str) -> None:
    done = python(
        textwrap.dedent(
            """
            import gc, os, sys, warnings, headrace as hr
            warnings.simplefilter("ignore", DeprecationWarning)
            config = hr.Config(shape=(4, 4, 4), batch_size=2, slots=1, device_bytes=1 << 28, host_bytes=1 << 28, workers=1)
            p = hr.Pipeline(config)
            p.push(hr.Sample(sys.argv[1], [(i, i + 4), (0, 4), (0, 4)]) for i in range(8))
            batch = p.pop()
            x, capsule = batch["data"], batch.__dlpack__()
            pid = os.fork()
            if pid == 0:
                uses = [p.pop, p.stats, x.numpy, x.__dlpack__, lambda: x.__dlpack__(dl_device=(1, 0)),
                        lambda: batch.release(1), lambda: hr.Pipeline(p.config)]
                for use in uses:
                    try:
                        use()
                        print("no error from", use)
                    except hr.Forked:
                        pass
                del x, capsule, batch, p
                gc.collect()
                sys.stdout.flush()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            try:
                p.pop(timeout=0.2)
                print("the child released the parent's batch")
            except hr.PoolStarved:
                pass
            del x, capsule
            batch.release()
            print(p.pop().ids)
            """
        ),
        volume,
    )
    assert done.stdout.strip() == "(2, 3)"


def test_two_loaders_at_once(volume: str, values: Array) -> None:
    crops = hr.grid_crops(volume, (4, 2, 4))
    options: dict[str, Any] = {"batch_size": 3, "shuffle": False, **SMALL}
    with hr.Loader(crops, **options) as a, hr.Loader(crops, dtype="f32", **options) as b:
        seen = 0
        for x, y in zip(a, b, strict=True):
            assert x.ids == y.ids
            np.testing.assert_array_equal(x.numpy().astype(np.float32), y.numpy())
            seen += len(x.ids)
        assert seen == len(crops)


# --- the ends of either process -------------------------------------------------------


@pytest.mark.parametrize("where", ["companion"], indirect=True)
def test_memory_is_closed_before_the_engine_frees_it(volume: str, boxes: Boxes, gpu: cuda_driver.Driver) -> None:
    """The engine waits for that, and hears of it: it has ten seconds of patience."""

    def imported() -> int:
        return gpu.fake("live", name="imported") if gpu.is_fake else 0

    gc.collect()
    patience = time.monotonic() + 10  # engines of tests before this one may still be closing
    while imported() > 0 and time.monotonic() < patience:
        time.sleep(0.01)
    before = imported()
    p = pipeline(volume, boxes)
    p.pop().release()
    assert not gpu.is_fake or imported() > before
    began = time.monotonic()
    p.close()
    assert time.monotonic() - began < 5 and imported() == before


@pytest.fixture
def own_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An engine on GPU 0 that this test may kill, with room for one pipeline; HEADRACE_ENGINE names it."""
    folder = tmp_path / "own"
    folder.mkdir()
    engine = start_engine(folder, "--device", "cuda:0", "--max-pipelines", "1")
    monkeypatch.setenv("HEADRACE_ENGINE", str(folder / "socket"))
    yield engine
    if engine.returncode is None:
        stop_engine(engine)


@pytest.mark.parametrize("where", ["companion"], indirect=True)
def test_a_killed_engine(volume: str, boxes: Boxes, own_engine: Any) -> None:
    """The next call says so, and a batch that is held is still to be seen."""
    p = pipeline(volume, boxes)
    batch = p.pop()
    want = batch.numpy()
    capsule = batch.__dlpack__(stream=1)
    own_engine.kill()
    own_engine.communicate()
    with pytest.raises(hr.EngineLost):
        for _ in range(8):
            p.pop(timeout=5)
    np.testing.assert_array_equal(batch.numpy(), want)
    del capsule
    batch.release()
    p.close()


@pytest.mark.parametrize("where", ["companion"], indirect=True)
def test_a_client_that_sees_no_gpu(python: Python, volume: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told why, in one line, the engine goes on, and no batch is lost to it."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    done = python(
        """
        import sys, headrace as hr
        p = hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2, slots=2, device_bytes=1 << 28, host_bytes=1 << 28, workers=1))
        p.push(hr.Sample(sys.argv[1], [(i, i + 4), (0, 4), (0, 4)]) for i in range(8))
        for _ in range(4):
            try:
                p.pop(timeout=5)
            except hr.Device as e:
                assert "driver" in str(e) and chr(10) not in str(e), e
                print("told")
        print(hr.open(sys.argv[1])[0, 0, 5])
        """,
        volume,
    )
    assert done.stdout.split() == ["told"] * 4 + ["5"]


@pytest.mark.parametrize("where", ["companion"], indirect=True)
def test_a_killed_trainer(volume: str, boxes: Boxes, own_engine: Any) -> None:
    """The engine takes its batches and its pipeline back."""
    code = """
        import signal, sys, headrace as hr
        p = hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2, device_bytes=1 << 28, host_bytes=1 << 28, workers=1))
        p.push(hr.Sample(sys.argv[1], [(i, i + 4), (0, 4), (0, 4)]) for i in range(8))
        kept = [p.pop(), p.pop().__dlpack__(stream=1)]
        print("ready", flush=True)
        signal.pause()
    """
    trainer = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), volume], stdout=subprocess.PIPE, text=True)
    with trainer:
        assert trainer.stdout is not None and trainer.stdout.readline() == "ready\n"
        trainer.kill()

    def free() -> bool:
        try:
            with pipeline(volume, boxes) as p:
                return p.pop().ids == (0, 1)
        except hr.Budget:
            return False

    eventually(free, "the engine keeps what the trainer had")


# --- torch, cupy, jax -----------------------------------------------------------------


def test_torch(volume: str, boxes: Boxes) -> None:
    torch = torch_or_skip()
    with pipeline(volume, boxes, dtype="bf16") as p:
        batch = p.pop()
        x = batch.torch()
        assert x.dtype is torch.bfloat16 and x.is_cuda and x.data_ptr() == batch.torch().data_ptr()
        y = torch.utils.dlpack.from_dlpack(batch["data"].__dlpack__())  # the legacy form
        assert y.data_ptr() == x.data_ptr()
        want = x.cpu()
        batch.release()
        p.close()
        del y
        gc.collect()
        assert torch.equal(x.cpu(), want)


def test_torch_without_cuda(volume: str, boxes: Boxes, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    with pipeline(volume, boxes) as p, pytest.raises(hr.Device, match="has no CUDA"):
        p.pop().torch()


@pytest.mark.parametrize("ordered", [True, False])
def test_torchs_current_stream(volume: str, boxes: Boxes, ordered: bool) -> None:
    """A long kernel on a side stream is read after; without our events the next batch is what it reads."""
    torch = torch_or_skip()
    with pipeline(volume, boxes, slots=1, lookahead=2) as p:
        p._library.ordered = ordered
        try:
            batch = p.pop()
            want = batch.numpy().tobytes()
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                x = batch.torch()
                torch.cuda._sleep(1_000_000_000)  # half a second
                kept = x.to(torch.int32)
            del x
            batch.release()
            p.pop().release()
            side.synchronize()
            assert (kept.cpu().numpy().astype(np.uint16).tobytes() == want) == ordered
        finally:
            p._library.ordered = True


STEPS = 1000


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> str:
    data = np.random.default_rng(1).integers(0, 2**16, (64, 64, 64), np.uint16)
    return str(write_array(tmp_path_factory.mktemp("noise") / "a.zarr", data, (32, 32, 32)))


@pytest.mark.parametrize("ordered", [True, False])
def test_a_training_loop_never_sees_a_changed_tensor(noise: str, ordered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 steps of kernels that lag behind the loop. Without our events some read a later batch: the test can fail."""
    torch = torch_or_skip()
    crops = hr.random_crops(noise, (16, 16, 16), count=4 * STEPS)
    options: dict[str, Any] = {"batch_size": 4, "seed": 3, **SMALL}
    with hr.Loader(crops, **options) as loader:
        loader._library.ordered = ordered
        try:
            sums = torch.zeros(STEPS, dtype=torch.int64, device="cuda")
            for step, batch in enumerate(loader):
                x = batch.torch()
                torch.cuda._sleep(4_000_000)  # two milliseconds
                sums[step] = x.to(torch.int64).sum()
                del x, batch
        finally:
            loader._library.ordered = True
    monkeypatch.delenv("HEADRACE_ENGINE", raising=False)
    with hr.Loader(crops, device="cpu", **options) as host:
        want = [int(batch.numpy().astype(np.int64).sum()) for batch in host]
    changed = sum(a != b for a, b in zip(sums.tolist(), want, strict=True))
    assert len(want) == STEPS and (changed == 0) == ordered, f"{changed} of {STEPS} steps saw another batch"


@pytest.mark.parametrize("dtype", ["f32", "u16", "bf16"])
def test_cupy(volume: str, boxes: Boxes, dtype: str) -> None:
    cupy = pytest.importorskip("cupy", reason="cupy is not installed")
    with pipeline(volume, boxes, dtype=dtype) as p:
        batch = p.pop()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            x = batch.cupy()
            got = cupy.asnumpy(x, stream=stream)
            stream.synchronize()
        assert got.view(np.uint8).tobytes() == batch.numpy().view(np.uint8).tobytes()


@pytest.mark.parametrize("dtype", ["f32", "bf16", "u8"])
def test_jax(volume: str, boxes: Boxes, dtype: str) -> None:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax", reason="jax is not installed")
    if jax.default_backend() != "gpu":
        pytest.skip(f"jax {jax.__version__} has no GPU here")
    with pipeline(volume, boxes, dtype=dtype, slots=1, lookahead=2) as p:
        batch = p.pop()
        want = batch.numpy()
        x = batch.jax()
        y = jax.dlpack.from_dlpack(batch)
        kept = (x + 0, y + 0)
        del x, y
        batch.release()
        p.pop().release()
        for k in kept:
            assert np.asarray(k).view(np.uint8).tobytes() == want.view(np.uint8).tobytes()
