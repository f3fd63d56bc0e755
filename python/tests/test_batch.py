"""Batch and Tensor: memory shared without a copy, and how long it lives."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from conftest import Array, Boxes, crop, eventually, pipeline
from zarr_writer import write_array


def address(array: Array) -> int:
    return array.ctypes.data


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # called without the GIL


class Legacy(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


def consume(capsule: object) -> tuple[Any, int]:
    """Takes a tensor out of a capsule as DLPack's consumers do: the tensor and its address."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = (ctypes.py_object,)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)
    name = api.PyCapsule_GetName(capsule)
    where = api.PyCapsule_GetPointer(capsule, name)
    used = USED[name]
    api.PyCapsule_SetName(capsule, used)
    form = Versioned if name == b"dltensor_versioned" else Legacy
    return form.from_address(where), where


USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


def is_mapped(where: int) -> bool:
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, stop = (int(x, 16) for x in line.split()[0].split("-"))
        if start <= where < stop:
            return True
    return False


def test_all_views_share_one_memory(volume: str, boxes: Boxes) -> None:
    with pipeline(volume, boxes) as p:
        batch = p.pop()
        a, b = batch.numpy(), batch["data"].numpy()
        assert address(a) == address(b) == address(np.from_dlpack(batch)) == address(np.asarray(batch["data"]))
        assert a.flags.c_contiguous and a.flags.writeable and not a.flags.owndata
        a[0, 0, 0, 0] = 4711
        assert b[0, 0, 0, 0] == 4711
        assert address(a) % 256 == 0


@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 3)])
def test_capsules(volume: str, values: Array, boxes: Boxes, max_version: tuple[int, int] | None) -> None:
    with pipeline(volume, boxes) as p:
        batch = p.pop()
        where = address(batch.numpy())
        capsule = batch.__dlpack__(max_version=max_version)
        managed, _ = consume(capsule)
        if max_version and max_version >= (1, 0):
            assert (managed.major, managed.flags) == (1, 0)
        else:
            assert isinstance(managed, Legacy)
        t = managed.tensor
        assert (t.data, t.device_type, t.device_id, t.ndim, t.byte_offset) == (where, 1, 0, 4, 0)
        assert (t.code, t.bits, t.lanes) == (1, 16, 1)
        assert t.shape[:4] == [2, 4, 4, 4] and t.strides[:4] == [64, 16, 4, 1]
        managed.deleter(ctypes.addressof(managed))
        del capsule


def test_dlpack_asks_that_cannot_be_met(volume: str, boxes: Boxes) -> None:
    with pipeline(volume, boxes) as p:
        x = p.pop()["data"]
        assert x.__dlpack_device__() == (1, 0)
        x.__dlpack__(dl_device=(1, 0), copy=False, stream=-1)
        for ask in ({"copy": True}, {"dl_device": (2, 0)}, {"stream": 0}, {"stream": 1}):
            with pytest.raises(BufferError):
                x.__dlpack__(**ask)  # type: ignore[arg-type]


DTYPES = [d for d in hr.Dtype if d not in (hr.Dtype.BOOL, hr.Dtype.C64, hr.Dtype.C128)]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.short)
def test_every_dtype(volume: str, values: Array, boxes: Boxes, dtype: hr.Dtype) -> None:
    with pipeline(volume, boxes, dtype=dtype) as p:
        x = p.pop()["data"]
        assert x.dtype is dtype and x.nbytes == 2 * 64 * dtype.itemsize
        got = x.numpy()
        if dtype is hr.Dtype.BF16:
            wide = (got.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            np.testing.assert_allclose(wide[0], crop(values, boxes[0]), rtol=2**-8)
            return
        assert got.dtype.name == dtype.full
        top = min(np.iinfo(got.dtype).max, 2**16 - 1) if got.dtype.kind in "iu" else 2**16 - 1
        np.testing.assert_array_equal(got[0], np.minimum(crop(values, boxes[0]), top).astype(got.dtype))


@pytest.mark.parametrize("name, kind", [("bool", "?"), ("complex64", "F"), ("complex128", "D"), ("float16", "e")])
def test_types_of_arrays_are_kept(tmp_path: Path, name: str, kind: str) -> None:
    data = np.arange(6).astype(kind)
    fill: Any = {"?": False, "e": 0}.get(kind, [0, 0])
    path = write_array(tmp_path / "a.zarr", data, (6,), fill=fill) if kind in "?e" else _complex(tmp_path, data)
    with hr.Pipeline(hr.Config(shape=(4,), batch_size=1)) as p:
        p.push(hr.Sample(path, [(1, 5)]))
        x = p.pop()["data"]
        assert x.dtype.full == name
        np.testing.assert_array_equal(x.numpy()[0], data[1:5])
        np.testing.assert_array_equal(np.from_dlpack(x)[0], data[1:5])


def _complex(folder: Path, data: Array) -> Path:
    path = write_array(folder / "a.zarr", data, (6,), fill=0)
    document = path / "zarr.json"
    document.write_text(document.read_text().replace('"fill_value": 0', '"fill_value": [0, 0]'))
    return path


def test_bf16_with_ml_dtypes(volume: str, values: Array, boxes: Boxes) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: bf16 is uint16 then")
    with pipeline(volume, boxes, dtype="bf16") as p:
        got = p.pop().numpy()
        assert got.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(got[0], crop(values, boxes[0]).astype(ml_dtypes.bfloat16))


def test_torch_shares_the_memory(volume: str, values: Array, boxes: Boxes) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
    with pipeline(volume, boxes, dtype="bf16") as p:
        batch = p.pop()
        x = batch.torch()
        assert x.data_ptr() == address(batch.numpy()) and x.dtype is torch.bfloat16
        batch.release()
        p.close()
        want = torch.from_numpy(crop(values, boxes[0]).astype(np.float32)).to(torch.bfloat16)
        assert torch.equal(x[0], want)


def test_to_torch_with_what_belongs_to_the_batch(volume: str, values: Array) -> None:
    """Trainers call `to` on what a loader gives; tensors that are there already are views."""
    torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
    crops = hr.grid_crops({"a": volume, "b": volume}, shape=(4, 4, 4))
    with hr.Loader(crops, batch_size=5, dtype={"a": "f32", "b": "i32"}, tail="mask", shuffle=False, device="cpu") as loader:
        batch = list_of_all(loader)[-1]
        moved = batch.to("cpu", non_blocking=True)
        assert isinstance(moved, hr.TorchBatch) and list(moved) == ["a", "b"]
        assert moved["a"].data_ptr() == address(batch["a"].numpy()) and moved["b"].dtype is torch.int32
        for name in ("ids", "weight", "weights", "epoch", "step"):
            assert getattr(moved, name) == getattr(batch, name) == getattr(moved.to("cpu"), name)
        assert moved.weights == (1.0, 1.0, 0.0, 0.0, 0.0)
        copy = pickle.loads(pickle.dumps(moved))
        assert copy.ids == batch.ids and torch.equal(copy["a"], moved["a"])
        assert moved.to(torch.device("meta"))["a"].device.type == "meta"


def list_of_all(loader: hr.Loader) -> list[hr.Batch]:
    """All batches of an epoch, of which only the last is kept alive."""
    last: list[hr.Batch] = []
    for batch in loader:
        last = [batch]
    return last


def test_asarray_honours_dtype_and_copy(volume: str, boxes: Boxes) -> None:
    with pipeline(volume, boxes) as p:
        x = p.pop()["data"]
        assert address(x.__array__(copy=True)) != address(x.numpy())
        assert x.__array__(np.float64).dtype == np.float64
        with pytest.raises(ValueError, match="without a copy"):
            x.__array__(np.float64, copy=False)


def test_a_tensor_outlives_batch_and_pipeline(volume: str, values: Array, boxes: Boxes) -> None:
    """The memory stays as it is while anything looks at it, and is freed after that."""
    p = pipeline(volume, boxes)
    batch = p.pop()
    view, capsule = batch.numpy(), batch.__dlpack__(max_version=(1, 0))
    tensor = batch["data"]
    batch.release()
    for other in p.batches():
        other.release()
    p.close()
    where = address(view)
    np.testing.assert_array_equal(view[1], crop(values, boxes[1]))
    del view
    gc.collect()
    np.testing.assert_array_equal(tensor.numpy()[0], crop(values, boxes[0]))
    np.testing.assert_array_equal(np.from_dlpack(tensor)[0], crop(values, boxes[0]))
    del tensor
    gc.collect()
    assert is_mapped(where)  # the capsule is left
    del capsule
    eventually(lambda: not is_mapped(where), "the memory of the last batch is still mapped")


def test_a_slot_that_is_looked_at_is_not_used_again(volume: str, values: Array, boxes: Boxes) -> None:
    with pipeline(volume, boxes * 4, slots=2) as p:
        kept = [p.pop().numpy() for _ in range(2)]  # the batches are gone, their memory is not
        with pytest.raises(hr.PoolStarved):
            p.pop(timeout=0.05)
        np.testing.assert_array_equal(kept[0][0], crop(values, boxes[0]))
        kept.pop()
        p.pop().release()
        for _ in range(8):
            p.pop().release()
        np.testing.assert_array_equal(kept[0][0], crop(values, boxes[0]))


def test_the_last_of_many_threads_gives_the_slot_back(volume: str, boxes: Boxes) -> None:
    """Deleters run without the GIL, on any thread, all at once."""
    with pipeline(volume, boxes * 40, slots=1, lookahead=2) as p:
        for round_ in range(20):
            batch = p.pop()
            capsules = [batch.__dlpack__(max_version=(1, 0) if k % 2 else None) for k in range(16)]
            tensors = [consume(c)[0] for c in capsules]
            start = threading.Barrier(len(tensors))

            def drop(t: Any, start: threading.Barrier = start) -> None:
                start.wait()
                t.deleter(ctypes.addressof(t))

            threads = [threading.Thread(target=drop, args=(t,)) for t in tensors]
            for t in threads:
                t.start()
            batch.release()
            for t in threads:
                t.join()
            assert batch.step == round_


def test_references_are_counted(volume: str, boxes: Boxes) -> None:
    with pipeline(volume, boxes) as p:
        batch = p.pop()
        hold = batch._hold
        assert hold is not None

        def count() -> int:
            return p._library._client.hr_slot_refs(hold.slot)

        assert count() == 1
        capsules = [batch.__dlpack__() for _ in range(3)]
        assert count() == 4
        array = np.from_dlpack(batch)
        assert count() == 5
        capsules.clear()  # never taken: the capsule's own destructor drops them
        assert count() == 2
        del array
        assert count() == 1


def test_release(volume: str, boxes: Boxes) -> None:
    with pipeline(volume, boxes) as p:
        batch = p.pop()
        batch.release()
        with pytest.raises(hr.Closed, match="released"):
            batch.release()
        for use in (batch.numpy, batch.__dlpack__, lambda: batch["data"], lambda: batch.shape, batch.__enter__):
            with pytest.raises(hr.Closed):
                use()
        assert batch.ids == (0, 1) and "released" in repr(batch)
        with p.pop() as other:
            other.release()  # leaving the block is then no second release
        with p.pop() as other:
            pass
        with pytest.raises(hr.Closed):
            other.release()


def test_batches_are_told_apart_and_not_pickled(volume: str, boxes: Boxes) -> None:
    with pipeline(volume, boxes) as p:
        a, b = p.pop(), p.pop()
        assert a == a and a != b and len({a, b}) == 2
        for thing in (a, a["data"], p):
            for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="pickled"):
                    duplicate(thing)


def test_an_empty_tensor(volume: str, broken: str, boxes: Boxes) -> None:
    with pipeline(broken, boxes[:2], on_error="skip") as p:
        batch = p.pop()
        assert batch.ids == () and batch.weight == 0
        assert batch.numpy().shape == np.from_dlpack(batch).shape == (0, 4, 4, 4)
        managed, _ = consume(batch.__dlpack__(max_version=(1, 0)))
        assert managed.tensor.data is None
        managed.deleter(ctypes.addressof(managed))
