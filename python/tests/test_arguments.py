"""What a newcomer mistypes: each message names the argument, what came and what is expected."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import _errors


@pytest.mark.parametrize(
    "change, message",
    [
        ({"seed": 1.5}, "seed is 1.5, must be an integer"),
        ({"seed": None}, "seed is None, must be an integer"),
        ({"seed": True}, "seed is True, must be an integer"),
        ({"seed": -1}, "seed is -1, must be at least 0"),
        ({"seed": 2**64}, f"seed is {2**64}, must be at most {2**64 - 1}"),
        ({"shuffle": "no"}, "shuffle is 'no', must be True or False"),
        ({"shuffle": 1}, "shuffle is 1, must be True or False"),
        ({"verify": "no"}, "verify is 'no', must be True or False"),
        ({"reader": 3}, "reader is 3, must be text"),
        ({"tail": 1}, "tail is 1: one of short, drop"),
        ({"tail": "dorp"}, "tail is 'dorp': one of short, drop, mask (did you mean 'drop'?)"),
        ({"coord": None}, "coord is None: one of auto, off, require"),
        ({"batch_size": "2"}, "batch_size is '2', must be an integer"),
        ({"scale": 10**400}, "scale is 1000"),
        ({"axes": 3}, "axes is 3, must be a list of integers"),
        ({"pad": np.zeros(9)}, "pad is a ndarray of shape (9,): one of"),
    ],
)
def test_a_loader_names_the_argument(volume: str, change: dict[str, Any], message: str) -> None:
    crops = hr.grid_crops(volume, shape=(4, 4, 4))
    with pytest.raises(hr.ConfigError, match=re.escape(message)):
        hr.Loader(crops, **{"batch_size": 2, **change})


@pytest.mark.parametrize("epoch", [1.5, "3", None, True, -1])
def test_an_epoch_is_an_integer(volume: str, epoch: Any) -> None:
    with (
        hr.Loader(hr.grid_crops(volume, shape=(4, 4, 4)), batch_size=2) as loader,
        pytest.raises(hr.ConfigError, match=f"epoch is {epoch!r}, must be"),
    ):
        loader.set_epoch(epoch)


def test_integers_and_flags_of_numpy_will_do(volume: str) -> None:
    crops = hr.random_crops(volume, shape=np.array([4, 4, 4]), count=np.int64(4), flips=np.array([-1]))
    with hr.Loader(crops, batch_size=2, seed=np.uint64(2**63), shuffle=np.bool_(False)) as loader:
        loader.set_epoch(np.int32(3))
        assert loader.epoch == 3 and len(loader) == 2


@pytest.mark.parametrize(
    "change, message",
    [
        ({"shape": 8}, "shape is 8, must be a list of integers"),
        ({"shape": "88"}, "shape is '88', must be a list of integers"),
        ({"shape": (8, 1.5)}, "shape[1] is 1.5, must be an integer"),
        ({"count": 0}, "count is 0, must be at least 1"),
        ({"count": 2.0}, "count is 2.0, must be an integer"),
        ({"flips": True}, "flips is True, must be a list of integers"),
        ({"flips": (1,)}, "flips[0] is 1, must be at most -1"),
        ({"weights": "volumes"}, "did you mean 'volume'?"),
        ({"seed": None}, "seed is None, must be an integer"),
        ({"arrays": {"": "a.zarr"}}, "arrays: '' is no name of a field"),
    ],
)
def test_a_source_names_the_argument(change: dict[str, Any], message: str) -> None:
    with pytest.raises(hr.ConfigError, match=re.escape(message)):
        hr.random_crops(**{"arrays": "a.zarr", "shape": (8,), "count": 3, **change})


def test_other_sources_name_the_argument() -> None:
    with pytest.raises(hr.ConfigError, match="stride is 4, must be a list of integers"):
        hr.grid_crops("a.zarr", shape=(8,), stride=4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"arrays\['data'\] is 3, must be a path"):
        hr.grid_crops(3, shape=(8,))  # type: ignore[arg-type]
    for samples in (3, "abc", hr.Sample("a.zarr", [(0, 1)])):
        with pytest.raises(TypeError, match=r"samples is .*, must be a list of headrace.Sample"):
            hr.crop_list(samples)  # type: ignore[arg-type]


def test_a_pipeline_names_the_argument(volume: str) -> None:
    config = hr.Config(shape=(4, 4, 4), batch_size=2)
    with pytest.raises(TypeError, match=r"config is .*, must be a headrace.Config"):
        hr.Pipeline({"batch_size": 2})  # type: ignore[arg-type]
    for fields in ("image", 3):
        with pytest.raises(hr.ConfigError, match=r"fields is .*, must be a list of names"):
            hr.Pipeline(config, fields=fields)  # type: ignore[arg-type]
    with pytest.raises(hr.ConfigError, match="arrays is 3, must be a list of arrays"):
        hr.Pipeline(config, arrays=3)  # type: ignore[arg-type]
    with hr.Pipeline(config) as p:
        with pytest.raises(TypeError, match="samples is 3, must be"):
            p.push(3)  # type: ignore[arg-type]
        with pytest.raises(hr.ConfigError, match=r"n is 1\.5, must be an integer"):
            list(p.batches(1.5))  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [hr.Config, hr.Loader, hr.Pipeline, hr.random_crops, hr.grid_crops])
def test_a_misspelt_keyword_is_guessed(make: Any) -> None:
    wrong, right = {
        "Config": ("bath_size", "batch_size"),
        "Loader": ("host_byte", "host_bytes"),
        "Pipeline": ("field", "fields"),
        "random_crops": ("flip", "flips"),
        "grid_crops": ("strides", "stride"),
    }[make.__name__]
    with pytest.raises(TypeError, match=f"{make.__name__} has no argument '{wrong}': did you mean {right}?"):
        make(**{wrong: 1})


def test_an_epoch_of_no_batch_is_told(volume: str, tmp_path: Path) -> None:
    crops = hr.random_crops(volume, shape=(4, 4, 4), count=3)
    with pytest.warns(UserWarning, match="no batch: the 3 crops are fewer than the 4") as told:
        hr.Loader(crops, batch_size=4, tail="drop").close()
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hr.Loader(crops, batch_size=4).close()
    (tmp_path / "none.jsonl").write_text("")
    with pytest.warns(UserWarning, match="no batch: there are no crops"):
        hr.Loader(hr.crop_list(tmp_path / "none.jsonl", volume, (4, 4, 4)), batch_size=4).close()


@pytest.mark.parametrize("options", [{"scale": 1 / 65535}, {"offset": 0.5}])
def test_a_scale_of_integers_needs_a_dtype(volume: str, options: dict[str, Any]) -> None:
    crops = hr.grid_crops(volume, shape=(4, 4, 4))
    with pytest.raises(hr.ConfigError, match='scale/offset would be cut to uint16: give dtype="f32"'):
        hr.Loader(crops, batch_size=2, **options)
    config = hr.Config(shape=(4, 4, 4), batch_size=1, **options)
    with hr.Pipeline(config) as p, pytest.raises(hr.ConfigError, match='give dtype="f32"'):
        p.push(hr.Sample(volume, [(0, 4)] * 3))
        p.pop()
    for dtype in ("u16", "f32"):  # what is given is meant
        hr.Loader(crops, batch_size=2, dtype=dtype, **options).close()


@pytest.mark.parametrize("index", [True, False, np.True_, (0, True)])
def test_a_bool_is_no_index(volume: str, index: Any) -> None:
    with hr.open(volume) as z, pytest.raises(IndexError, match="is a mask"):
        z[index]


def test_a_mask_is_not_printed(volume: str) -> None:
    with hr.open(volume) as z:
        with pytest.raises(IndexError, match=r"a ndarray of shape \(12, 10, 8\) is a mask or a list of places") as e:
            z[np.zeros((12, 10, 8), bool)]  # type: ignore[index]
        assert len(str(e.value)) < 200
        with pytest.raises(IndexError, match=r"\[0, 2\] is a mask or a list of places"):
            z[[0, 2]]  # type: ignore[index]


class _TorchDtype:
    """A torch dtype has no name, only text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


_TorchDtype.__module__ = "torch"


@pytest.mark.parametrize(
    "given, dtype",
    [
        (np.float32, hr.Dtype.F32),
        (np.uint8, hr.Dtype.U8),
        (np.bool_, hr.Dtype.BOOL),
        (bool, hr.Dtype.BOOL),
        (np.dtype(">u2"), hr.Dtype.U16),
        (_TorchDtype("torch.float32"), hr.Dtype.F32),
        (_TorchDtype("torch.bfloat16"), hr.Dtype.BF16),
        ("u8", hr.Dtype.U8),
    ],
)
def test_types_of_numpy_and_torch_are_dtypes(given: Any, dtype: hr.Dtype) -> None:
    assert hr.Dtype.of(given) is dtype
    assert hr.Config(shape=(4,), batch_size=1, dtype=given).dtype is dtype


@pytest.mark.parametrize(
    "given, message",
    [
        (float, "Python's float does not tell how many bits"),
        (int, "Python's int does not tell how many bits"),
        ("f4", "numpy's code counts bytes, here the number counts bits: 'f32'"),
        ("i2", "'i16'"),
        ("<u8", "'u64'"),
        ("|b1", "'bool'"),
        ("float", "one of f32, bf16"),
        (list, "unknown dtype 'list'"),
        (1.5, "a dtype is a name"),
    ],
)
def test_a_dtype_that_is_none_tells_which_to_use(given: Any, message: str) -> None:
    with pytest.raises(hr.ConfigError, match=message):
        hr.Config(shape=(4,), batch_size=1, dtype=given)


def test_a_dtype_prints_as_its_name() -> None:
    d = hr.Dtype.U16
    assert (str(d), f"{d}", f"{d:>5}", repr(d), hr.Dtype("u16")) == ("u16", "u16", "  u16", "Dtype('u16')", d)
    assert d == 3 and pickle.loads(pickle.dumps(d)) is d


@pytest.mark.parametrize(
    "kind, told, read",
    [
        (
            "budget",
            "HostBytes 3 is too little: lower Slots, BatchSize or Workers",
            "host_bytes 3 is too little: lower slots, batch_size or workers",
        ),
        ("config", "Fields[0].Shape[1] is 0; Pipeline.BatchSize is 3", "shape[1] is 0; batch_size is 3"),
        ("shape", "Shape of 3: give it a DType.", "Shape of 3: give it a dtype."),
        ("config", '/data/Workers/Slots.zarr "Device": raise HostBytes', '/data/Workers/Slots.zarr "Device": raise host_bytes'),
    ],
)
def test_fields_have_their_python_names(kind: str, told: str, read: str) -> None:
    assert str(_errors.error_of(kind, told)) == read


def test_a_crop_larger_than_its_array_tells_what_pads(volume: str) -> None:
    crops = hr.random_crops(volume, shape=(16, 4, 4), count=4)
    with pytest.raises(hr.Shape, match='grid crops with tail "pad" and listed crops may reach beyond'):
        hr.Loader(crops, batch_size=2, pad="fill")


def test_help_has_every_setting() -> None:
    described = inspect.getdoc(hr.Config) or ""
    for field in dataclasses.fields(hr.Config):
        assert re.search(rf"^(\w+, )*{field.name}(, \w+)*$", described, re.MULTILINE), field.name
    for name in ("ids", "weight", "errors", "epoch", "step"):
        assert re.search(rf"^(\w+, )*{name}(, \w+)*$", inspect.getdoc(hr.Batch) or "", re.MULTILINE), name
    for cls in (hr.Loader, hr.Pipeline):
        assert "Config" in (inspect.getdoc(cls) or "")
    for rule in ("saturates", "truncates", "NaN becomes 0", "half to even"):
        assert rule in (inspect.getdoc(hr.Dtype) or "")


def test_what_is_open_says_what_it_is(volume: str) -> None:
    crops = hr.random_crops([volume, volume], shape=(4, 4, 4), count=6)
    assert repr(crops) == f"<headrace.random_crops data={volume!r} and 1 more shape (4, 4, 4) count 6>"
    loader = hr.Loader(crops, batch_size=2)
    assert repr(loader) == f"<headrace.Loader of {crops!r}: 3 batches of 2, rank 0 of 1, on cpu>"
    loader.close()
    assert repr(loader).endswith(", closed>")
    p = hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2))
    assert repr(p) == "<headrace.Pipeline data batch_size 2 on cpu: 0 samples pushed>"
    p.close()
    assert repr(p).endswith(": closed>")
    with hr.open(volume) as z:
        assert repr(z).endswith("[12, 10, 8], chunks [5, 4, 8]>")
    assert repr(z).endswith(" closed>")


@pytest.mark.parametrize("package", ["numpy", "torch", "cupy", "jax"])
def test_a_missing_package_is_named(volume: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name=name.partition(".")[0])

    with hr.Loader(hr.grid_crops(volume, shape=(4, 4, 4)), batch_size=2) as loader, next(loader) as batch:
        monkeypatch.setattr("importlib.import_module", missing)
        with pytest.raises(ModuleNotFoundError, match=rf"^{package} is needed for \.{package}\(\): pip install {package}$"):
            getattr(batch, package)()
