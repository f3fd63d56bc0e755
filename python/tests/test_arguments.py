"""What a newcomer mistypes: each message names the argument, what came and what is expected."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import headrace as hr


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
        ({"tail": "dorp"}, "tail is 'dorp': one of short, drop (did you mean 'drop'?)"),
        ({"coord": None}, "coord is None: one of auto, off"),
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


def test_an_epoch_of_no_batch_is_told(volume: str) -> None:
    crops = hr.random_crops(volume, shape=(4, 4, 4), count=3)
    with pytest.warns(UserWarning, match="no batch: the 3 crops are fewer than the 4") as told:
        hr.Loader(crops, batch_size=4, tail="drop").close()
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hr.Loader(crops, batch_size=4).close()
