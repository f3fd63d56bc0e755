"""Loader and crop sources: every sample of an epoch once, in an order that the seed decides."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from conftest import Array, eventually, waits_in_library
from headrace._engine import Starvation
from zarr_writer import write_array, write_group


def ids(loader: hr.Loader) -> list[int]:
    return [i for batch in loader for i in batch.ids]


@pytest.fixture
def grid(volume: str) -> hr.Crops:
    """12 crops, in C order of the grid 3 x 2 x 2."""
    return hr.grid_crops(volume, shape=(4, 4, 4))


def test_an_epoch_has_each_sample_once(grid: hr.Crops, values: Array) -> None:
    with hr.Loader(grid, batch_size=5, dtype="f32") as loader:
        assert (len(grid), len(loader), loader.batch_size, loader.rank, loader.world_size) == (12, 3, 5, 0, 1)
        orders: list[list[int]] = []
        for epoch in range(3):
            order: list[int] = []
            for step, batch in enumerate(loader):
                assert (batch.epoch, batch.step, batch.weight) == (epoch, step, 1.0)
                for at, i in enumerate(batch.ids):
                    z, y, x = np.unravel_index(i, (3, 2, 2))
                    want = values[4 * z : 4 * z + 4, 4 * y : 4 * y + 4, 4 * x : 4 * x + 4]
                    np.testing.assert_array_equal(batch.numpy()[at], want.astype(np.float32))
                order += batch.ids
            orders.append(order)
    assert all(sorted(o) == list(range(12)) for o in orders)
    assert orders[0] != orders[1] != orders[2]


def test_the_order_follows_from_the_seed(grid: hr.Crops) -> None:
    orders: list[list[int]] = []
    for seed in (1, 1, 2):
        with hr.Loader(grid, batch_size=4, seed=seed) as loader:
            orders.append(ids(loader))
    assert orders[0] == orders[1] != orders[2]
    with hr.Loader(grid, batch_size=4, shuffle=False) as loader:
        assert ids(loader) == list(range(12))


def test_tail(grid: hr.Crops) -> None:
    with hr.Loader(grid, batch_size=5, tail="drop") as loader:
        assert len(loader) == 2 and len(ids(loader)) == 10
    with hr.Loader(grid, batch_size=5, tail="mask") as loader:
        assert len(loader) == 3 and sorted(ids(loader)) == [-1, -1, -1, *range(12)]
    with pytest.raises(ValueError, match="tail"):
        hr.Loader(grid, batch_size=5, tail="long")


def test_set_epoch(grid: hr.Crops) -> None:
    with hr.Loader(grid, batch_size=4) as loader:
        epochs = [ids(loader) for _ in range(3)]
        loader.set_epoch(1)
        assert loader.epoch == 1
        assert list(next(loader).ids) == epochs[1][:4]
        loader.set_epoch(1)  # the current one: nothing changes
        assert ids(loader) == epochs[1][4:]
        loader.set_epoch(2)
        assert ids(loader) == epochs[2]
        with pytest.raises(ValueError, match="epoch"):
            loader.set_epoch(-1)


def test_a_state_continues_anywhere(grid: hr.Crops) -> None:
    with hr.Loader(grid, batch_size=3, seed=7) as loader:
        whole = ids(loader) + ids(loader)
    for stop in range(7):
        with hr.Loader(grid, batch_size=3, seed=7) as first:
            got: list[int] = []
            while len(got) < 3 * stop:
                try:
                    got += next(first).ids
                except StopIteration:
                    continue
            state = json.loads(json.dumps(first.state_dict()))
        with hr.Loader(grid, batch_size=5, seed=1) as second:
            second.load_state_dict(state)
            assert (len(second), second.batch_size, second.global_batch_size) == (4, 3, 3)
            while len(got) < 24:
                got += ids(second)
        assert got == whole


def test_a_state_of_other_crops_is_refused(grid: hr.Crops, volume: str) -> None:
    with hr.Loader(grid, batch_size=3) as a, hr.Loader(hr.random_crops(volume, (4, 4, 4), 12), batch_size=3) as b:
        assert a.fingerprint == grid.fingerprint != b.fingerprint
        with pytest.raises(ValueError, match="fingerprint"):
            b.load_state_dict(a.state_dict())
        assert len(ids(b)) == 12


def test_a_larger_state_batch_makes_room(grid: hr.Crops) -> None:
    with hr.Loader(grid, batch_size=10) as loader:
        state, want = loader.state_dict(), ids(loader)
    with hr.Loader(grid, batch_size=2) as loader:
        next(loader)
        loader.load_state_dict(state)
        assert loader.batch_size == 10 and ids(loader) == want


def test_ranks_share_an_epoch(grid: hr.Crops, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of Python decides, also where it was changed after the start."""
    seen: list[int] = []
    weights = 0.0
    for rank in range(3):
        for name, value in {"RANK": rank, "WORLD_SIZE": 3, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 3}.items():
            monkeypatch.setenv(name, str(value))
        with hr.Loader(grid, global_batch_size=7) as loader:
            assert (loader.rank, loader.world_size, len(loader), loader.global_batch_size) == (rank, 3, 2, 7)
            for batch in loader:
                seen += batch.ids
                weights += batch.weight
    assert sorted(seen) == list(range(12))
    assert weights == pytest.approx(3 * 2)  # ranks times batches: the means over ranks are means
    monkeypatch.setenv("RANK", "5")
    # What one rank looks ahead may be less than a global batch.
    monkeypatch.setenv("RANK", "1")
    with hr.Loader(grid, global_batch_size=9, lookahead=3) as loader:
        assert loader.batch_size == loader.config.batch_size == 3
    monkeypatch.setenv("RANK", "5")
    with pytest.raises(ValueError, match="RANK=5"):
        hr.Loader(grid, batch_size=1)


def test_random_crops_of_paired_arrays(tmp_path: Path, values: Array) -> None:
    """A list, a glob and two fields: crop i is the same place of the k-th array of each field."""
    for k in range(3):
        write_array(tmp_path / f"image{k}.zarr", values + 1000 * k, (5, 4, 8))
        write_array(tmp_path / f"mask{k}.zarr", (values % 251).astype(np.uint8), (4, 4, 4), compress=True)
    crops = hr.random_crops(
        {"image": tmp_path / "image*.zarr", "mask": [tmp_path / f"mask{k}.zarr" for k in range(3)]},
        shape={"image": (4, 6, 6), "mask": (4, 4, 4)},
        count=60,
        weights="equal",
        flips=(-1,),
    )
    arrays: set[int] = set()
    flipped = 0
    with hr.Loader(crops, batch_size=6, dtype={"image": "i32"}) as loader:
        for batch in loader:
            for image, mask in zip(batch["image"].numpy(), batch["mask"].numpy(), strict=True):
                k, image = image[0, 0, 0] // 1000, image % 1000
                arrays.add(int(k))
                flipped += image[0, 0, 1] < image[0, 0, 0]
                np.testing.assert_array_equal(image[:, 1:5, 1:5] % 251, mask)
    assert arrays == {0, 1, 2} and 10 < flipped < 50


def test_scale_for_each_array_of_a_field(tmp_path: Path) -> None:
    paths = [write_array(tmp_path / f"{k}.zarr", np.full((4,), k + 1, np.int16), (4,)) for k in range(2)]
    crops = hr.grid_crops({"x": paths, "y": paths[::-1]}, shape=(4,))
    options: dict[str, Any] = {"scale": {"x": [10, 100]}, "offset": {"x": [0.5, 0.25]}}
    with hr.Loader(crops, batch_size=2, shuffle=False, dtype="f64", **options) as loader:
        batch = next(loader)
    assert batch["x"].numpy()[:, 0].tolist() == [10.5, 200.25]
    assert batch["y"].numpy()[:, 0].tolist() == [2, 1]
    with pytest.raises(ValueError, match="scale"):
        hr.Loader(crops, batch_size=2, dtype="f64", scale={"x": [1, 2, 3]})


def test_grid_tails(volume: str) -> None:
    assert len(hr.grid_crops(volume, (5, 4, 4))) == 2 * 2 * 2
    assert len(hr.grid_crops(volume, (5, 4, 4), tail="shift")) == 3 * 3 * 2
    assert len(hr.grid_crops(volume, (5, 4, 4), stride=(1, 1, 1))) == 8 * 7 * 5
    padded = hr.grid_crops(volume, (5, 4, 4), tail="pad")
    with hr.Loader(padded, batch_size=18, pad="fill", pad_value=7, shuffle=False) as loader:
        assert (next(loader).numpy()[-1][2:] == 7).all()


def test_crop_list(volume: str, values: Array) -> None:
    boxes = [[(i, i + 3), (0, 2), (5, 8)] for i in range(9)]
    crops = hr.crop_list(hr.Sample(volume, box, flip=(0,) if i % 2 else ()) for i, box in enumerate(boxes))
    assert len(crops) == 9 and crops.fields == ("data",)
    with hr.Loader(crops, batch_size=9) as loader:
        batch = next(loader)
    for at, i in enumerate(batch.ids):
        want = values[i : i + 3, 0:2, 5:8]
        np.testing.assert_array_equal(batch.numpy()[at], want[::-1] if i % 2 else want)


def test_multiscales_stand_for_their_finest_level(tmp_path: Path, values: Array) -> None:
    write_array(tmp_path / "ome.zarr" / "s0", values, (5, 4, 8))
    axes = [{"name": n, "type": "space"} for n in "zyx"]
    datasets = [{"path": "s0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 1]}]}]
    ome = {"ome": {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}}
    path = write_group(tmp_path / "ome.zarr", ome)
    with hr.Loader(hr.grid_crops(path, (12, 10, 8)), batch_size=1) as loader:
        np.testing.assert_array_equal(next(loader).numpy()[0], values)
    with hr.open(path, level="s0") as by_name, hr.open(path, level=0) as by_index:
        np.testing.assert_array_equal(by_name[...], by_index[...])
    with pytest.raises(hr.NotFound, match="s1"):
        hr.open(path, level="s1")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"count": -1}, "count is -1"),
        ({"count": 1.5}, "count is 1.5"),
        ({"weights": "mass"}, "weights is 'mass'"),
        ({"shape": (4, 0, 4)}, r"shape\[1\] is 0"),
        ({"shape": {"other": (4,)}}, "other"),
        ({"arrays": []}, "is empty"),
        ({"arrays": {}}, "is empty"),
        ({"arrays": ""}, "is empty"),
    ],
)
def test_impossible_sources(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hr.random_crops(**{"arrays": "a.zarr", "shape": (4, 4, 4), "count": 1, **arguments})


def test_sources_that_do_not_fit_their_arrays(volume: str, tmp_path: Path) -> None:
    with pytest.raises(hr.Shape, match=r"volume\.zarr"):
        hr.Loader(hr.random_crops(volume, (4, 4, 9), 1), batch_size=1)
    with pytest.raises(hr.NotFound, match="matches"):
        len(hr.grid_crops(tmp_path / "*.nothing", (4,)))
    with pytest.raises(hr.NotFound, match=r"nope\.zarr"):
        hr.Loader(hr.random_crops(tmp_path / "nope.zarr", (4,), 1), batch_size=1)
    with pytest.raises(ValueError, match="extents"):
        hr.crop_list([hr.Sample(volume, [(0, 1)]), hr.Sample(volume, [(0, 2)])])
    with pytest.raises(ValueError, match="is empty"):
        hr.crop_list([])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({}, "one of batch_size"),
        ({"batch_size": 1, "global_batch_size": 1}, "one of batch_size"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"global_batch_size": 0}, "global_batch_size is 0"),
        ({"batch_size": 1, "seed": -1}, "seed"),
        ({"batch_size": 1, "coord": "on"}, "coord"),
        ({"batch_size": 1, "mode": "fast"}, "mode"),
        ({"batch_size": 1, "dtype": {"image": "u8"}}, "'image'"),
        ({"batch_size": 1, "readers": 0}, "readers"),
        ({"batch_size": 1, "slots": 1}, "slots is 1, must be at least 2"),
        ({"batch_size": 1, "timeout": -1}, "timeout"),
        ({"batch_size": 4, "lookahead": 3}, "lookahead"),
        ({"batch_size": 1, "device": "tpu"}, "device .*cuda:N"),
    ],
)
def test_impossible_loaders(grid: hr.Crops, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hr.Loader(grid, **arguments)


def test_iteration_goes_on_after_a_bad_sample(broken: str) -> None:
    seen: list[int] = []
    bad = 0
    with hr.Loader(hr.grid_crops(broken, (4, 4, 4)), batch_size=2, shuffle=False) as loader:
        while True:
            try:
                seen += next(loader).ids
            except hr.Corrupt as e:
                assert "0/0/0" in str(e)
                bad += 1
            except StopIteration:
                break
    # The chunk of 5 x 4 x 8 elements is in crops 0, 1 and, by one plane, 4 and 5.
    assert (seen, bad) == ([2, 3, 6, 7, 8, 9, 10, 11], 2)
    with hr.Loader(hr.grid_crops(broken, (4, 4, 4)), batch_size=6, shuffle=False, on_error="skip") as loader:
        batch = next(loader)
        assert batch.ids == (2, 3) and [e.id for e in batch.errors] == [0, 1, 4, 5]
        assert batch.weight == pytest.approx(2 / 6)


def test_close_wakes_next_and_ends_all_use(volume: str) -> None:
    held: list[hr.Batch] = []
    caught: list[BaseException] = []
    loader = hr.Loader(hr.random_crops(volume, (4, 4, 4), 100), batch_size=2, slots=2)

    def take() -> None:
        try:
            held.extend(loader)  # stops when both slots are held
        except BaseException as e:
            caught.append(e)

    thread = threading.Thread(target=take)
    thread.start()
    eventually(lambda: len(held) == 2 and waits_in_library(thread.ident or 0), "the thread never waits")
    loader.close()
    thread.join(5)
    assert [type(e) for e in caught] == [hr.Closed]
    assert held[0].numpy().shape == (2, 4, 4, 4)
    for use in (lambda: next(loader), lambda: iter(loader), loader.state_dict, loader.stats, lambda: loader.set_epoch(1)):
        with pytest.raises(hr.Closed):
            use()


def test_two_loaders_at_once(grid: hr.Crops, volume: str) -> None:
    with hr.Loader(grid, batch_size=1) as a, hr.Loader(hr.random_crops(volume, (2, 2, 2), 12), batch_size=1) as b:
        shapes = [(x.shape, y.shape) for x, y in zip(a, b, strict=True)]
    assert shapes == [((1, 4, 4, 4), (1, 2, 2, 2))] * 12


def test_all_slots_held_is_told(grid: hr.Crops) -> None:
    """list(loader) cannot work; it must not hang for ever either."""
    with hr.Loader(grid, batch_size=1, timeout=0.05) as loader:
        held = [next(loader).numpy() for _ in range(3)]
        with pytest.raises(hr.PoolStarved, match=r"3 batches are held and there are 3 slots.*raise slots="):
            next(loader)
        held.clear()
        assert len(next(loader).ids) == 1


def test_only_held_batches_starve() -> None:
    """A wait in which a slot is free never ends in PoolStarved, and frees the clock."""
    starvation = Starvation(slots=3, timeout=0)
    starvation.check(held=2)
    with pytest.raises(hr.PoolStarved):
        starvation.check(held=3)
    for_ever = Starvation(slots=3, timeout=None)
    for _ in range(3):
        for_ever.check(held=3)


@pytest.mark.parametrize("state", [None, "x", 3, {"epoch": "1"}, {"epoch": 2**63}, {"format": 1, "more": object()}])
def test_states_that_are_none(grid: hr.Crops, state: Any) -> None:
    with hr.Loader(grid, batch_size=1) as loader, pytest.raises(hr.ConfigError, match=r"state.*state_dict\(\)"):
        loader.load_state_dict(state)


@pytest.mark.parametrize("epoch", [-1, 2**63])
def test_epochs_that_are_none(grid: hr.Crops, epoch: int) -> None:
    with hr.Loader(grid, batch_size=1) as loader, pytest.raises(hr.ConfigError, match=r"epoch is .* must be at "):
        loader.set_epoch(epoch)


@pytest.mark.parametrize(
    ("argument", "hint"), [("num_workers", "workers="), ("drop_last", 'tail="drop"'), ("pin_memory", "nothing is to be pinned")]
)
def test_arguments_of_a_torch_data_loader(grid: hr.Crops, argument: str, hint: str) -> None:
    """Who comes from there is told what takes its place."""
    with pytest.raises(TypeError, match=f"Loader has no argument '{argument}': .*{hint}"):
        hr.Loader(grid, batch_size=1, **{argument: 1})  # pyright: ignore[reportArgumentType]


def test_sources_can_be_pickled(grid: hr.Crops) -> None:
    copy = pickle.loads(pickle.dumps(grid))
    assert copy.fingerprint == grid.fingerprint and len(copy) == 12
