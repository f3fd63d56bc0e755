"""Config, Dtype, Sample and the exceptions: plain values that need no library."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import _errors


def test_dtypes_have_many_names() -> None:
    for d in hr.Dtype:
        for name in (d.short, d.short.upper(), d.full, d.full.title(), int(d), d):
            assert hr.Dtype.of(name) is d
        if d is not hr.Dtype.BF16:
            assert np.dtype(d.full).itemsize == d.itemsize and hr.Dtype.of(np.dtype(d.full)) is d
    assert (hr.Dtype.F32, hr.Dtype.BF16) == (0, 1)
    with pytest.raises(ValueError, match="f31"):
        hr.Dtype.of("f31")
    with pytest.raises(ValueError):
        hr.Dtype.of(99)
    with pytest.raises(TypeError):
        hr.Dtype.of(1.5)


def test_config_is_a_frozen_keyword_only_value() -> None:
    config = hr.Config(shape=[4, np.int64(4)], batch_size=np.int32(2), dtype="BFloat16", pad="EDGE")
    assert (config.shape, config.batch_size, config.dtype, config.pad) == ((4, 4), 2, hr.Dtype.BF16, "edge")
    other = dataclasses.replace(config, batch_size=3)
    assert other.batch_size == 3 and other.dtype is hr.Dtype.BF16 and other != config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.batch_size = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        hr.Config((4,), 2)  # type: ignore[misc]


@pytest.mark.parametrize(
    "change, field",
    [
        ({"shape": 4}, "shape"),
        ({"shape": (4, -1)}, r"shape\[1\]"),
        ({"shape": (1,) * 33}, "shape"),
        ({"shape": {"a": (4,), "b": 3}}, r"shape\['b'\]"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": True}, "batch_size"),
        ({"batch_size": 2.0}, "batch_size"),
        ({"dtype": "f31"}, "dtype"),
        ({"dtype": {"": "f32"}}, "dtype"),
        ({"axes": (0, 0)}, "axes"),
        ({"axes": 3}, "axes"),
        ({"pad": "mirror"}, "pad"),
        ({"pad_value": "1"}, "pad_value"),
        ({"scale": float("nan")}, "scale"),
        ({"offset": [1, float("inf")]}, r"offset\[1\]"),
        ({"on_error": "ignore"}, "on_error"),
        ({"reuse": "twice"}, "reuse"),
        ({"lookahead": 1}, "lookahead"),
        ({"slots": 0}, "slots"),
        ({"lookahead": 2**60}, r"lookahead.*\[1, 2147483647\]"),
        ({"batch_size": 2**31}, "batch_size"),
        ({"slots": 1025}, r"slots.*\[1, 1024\]"),
        ({"readers": 1025}, "readers"),
        ({"workers": 1025}, "workers"),
        ({"readers": -1}, "readers"),
        ({"workers": 0}, "workers"),
        ({"host_bytes": 0}, "host_bytes"),
        ({"decoded_bytes": -5}, "decoded_bytes"),
        ({"device_bytes": 0}, "device_bytes"),
        ({"mapped_bytes": 1.5}, "mapped_bytes"),
        ({"compressed_bytes": "1"}, "compressed_bytes"),
        ({"sms": -1}, "sms"),
        ({"decoder": None}, "decoder"),
    ],
)
def test_config_names_the_field_that_is_wrong(change: dict[str, Any], field: str) -> None:
    with pytest.raises(hr.ConfigError, match=field) as caught:
        hr.Config(**{"shape": (4, 4), "batch_size": 2, **change})
    assert isinstance(caught.value, ValueError)


def test_samples() -> None:
    a = hr.Sample("a.zarr", np.s_[0:4, 2:6])
    assert a == hr.Sample("a.zarr", [(0, 4), slice(2, 6, 1)]) == hr.Sample("a.zarr", ((0, 4), [2, 6]))
    assert len({a, hr.Sample("a.zarr", [slice(None, 4), (2, 6)])}) == 1
    assert (a.uri, a.box, a.fields, a.id, a.flip_mask) == ("a.zarr", ((0, 4), (2, 6)), ("data",), None, 0)
    assert hr.Sample("a.zarr", np.s_[0:4]).box == ((0, 4),)
    assert hr.Sample("a.zarr", [(-3, 4)], flip=[2, 0], id=5).flip_mask == 5
    two = hr.Sample({"x": "a", "y": "b"}, {"x": [(0, 4)], "y": [(1, 2)]})
    assert two.crops == (("x", "a", ((0, 4),)), ("y", "b", ((1, 2),)))


@pytest.mark.parametrize(
    "box, error",
    [
        ([3], TypeError),
        ([(0, 1.5)], TypeError),
        (["ab"], TypeError),
        ([slice(0, 4, 2)], ValueError),
        ([slice(3, None)], ValueError),
        ([(4, 3)], ValueError),
        ([(1, 2, 3)], ValueError),
        ({"y": [(0, 1)]}, ValueError),
    ],
)
def test_boxes_that_are_none(box: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        hr.Sample({"x": "a.zarr"}, box)


def test_samples_need_a_uri() -> None:
    with pytest.raises(ValueError, match="empty"):
        hr.Sample("", [(0, 1)])
    for uri in ("a\0b", "a" * 5000):
        with pytest.raises(hr.ConfigError, match=r"NUL|at most 4096"):
            hr.Sample(uri, [(0, 1)])
    with pytest.raises(TypeError):
        hr.Sample(3, [(0, 1)])  # type: ignore[arg-type]


def test_one_exception_for_each_kind() -> None:
    classes = [c for _, c in inspect.getmembers(_errors, inspect.isclass) if issubclass(c, hr.HeadraceError)]
    kinds = {c.kind: c for c in classes if c is not hr.HeadraceError}
    assert len(kinds) == len(classes) - 1
    for kind, c in kinds.items():
        assert getattr(hr, c.__name__) is c and str(c("told")) == "told"
        if kind not in ("starved", "waiting", "forked", "engine_lost"):  # those of Python's side
            assert type(_errors.error_of(kind, "told")) is c
    assert issubclass(hr.NotFound, FileNotFoundError) and issubclass(hr.IO, OSError)
    assert issubclass(hr.Shape, ValueError) and issubclass(hr.ConfigError, ValueError)
    assert issubclass(hr.PoolStarved, TimeoutError) and issubclass(hr.JobWaiting, TimeoutError)
    assert type(_errors.error_of("novel", "told")) is hr.Bug
