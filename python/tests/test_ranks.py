"""Ranks: what each of them gets, that all together are exact, and that they notice when they are not."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import headrace as hr
from conftest import Array


@pytest.fixture
def grid(volume: str) -> hr.Crops:
    """12 crops, in C order of the grid 3 x 2 x 2."""
    return hr.grid_crops(volume, shape=(4, 4, 4))


def as_rank(rank: int, world: int) -> dict[str, Any]:
    return {"rank": rank, "world_size": world}


def headrace(*arguments: str) -> list[Any]:
    """The JSON values that the command line prints."""
    command = [sys.executable, "-P", "-m", "headrace", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    values: list[Any] = []
    text = done.stdout.strip()
    while text:
        value, end = json.JSONDecoder().raw_decode(text)
        values.append(value)
        text = text[end:].strip()
    return values


def test_mask_keeps_one_shape(grid: hr.Crops, values: Array) -> None:
    seen: list[int] = []
    for rank in range(3):
        with hr.Loader(grid, global_batch_size=7, tail="mask", **as_rank(rank, 3)) as loader:
            assert len(loader) == 2 and loader.batch_size == 3
            for batch in loader:
                assert batch.shape == (3, 4, 4, 4) and len(batch.ids) == len(batch.weights) == 3
                assert batch.weights == tuple(float(i >= 0) for i in batch.ids)
                assert batch.weight == pytest.approx(sum(batch.weights) * 3 / (7, 5)[batch.step])
                assert np.isin(batch.numpy(), values).all()  # padding is no garbage
                seen += [i for i in batch.ids if i >= 0]
    assert sorted(seen) == list(range(12))


def test_mask_turns_skipped_samples_into_padding(broken: str) -> None:
    crops = hr.grid_crops(broken, shape=(4, 4, 4))
    with hr.Loader(crops, batch_size=4, tail="mask", on_error="skip", shuffle=False) as loader:
        batches = [(b.ids, b.weights, len(b.errors)) for b in loader]
        assert all(len(ids) == 4 for ids, _, _ in batches)
        assert sum(sum(w) for _, w, _ in batches) == 12 - sum(n for _, _, n in batches) < 12
        report = loader.report()
    assert report["delivered"] + report["skipped"] == report["count"] == 12 and report["skipped"] > 0


def test_padding_has_no_errors_of_its_own(broken: str) -> None:
    """It repeats a sample of the batch, which may be a bad one."""
    crops = hr.grid_crops(broken, shape=(4, 4, 4))
    with hr.Loader(crops, batch_size=5, tail="mask", on_error="fill", shuffle=False) as loader:
        errors = [(i, e.id) for i, b in enumerate(loader) for e in b.errors]
        assert errors and all(i >= 0 for _, i in errors)
        assert loader.report()["filled"] == len(errors)
    # All of a batch of one sample and padding is bad.
    with hr.Loader(crops, global_batch_size=11, tail="mask", on_error="fill", rank=0, world_size=12, shuffle=False) as loader:
        assert sum(len(b.errors) for b in loader) <= 1


def test_replicas_get_the_same(grid: hr.Crops) -> None:
    got: list[list[tuple[int, ...]]] = []
    reports: list[Any] = []
    for rank in range(4):
        with hr.Loader(grid, batch_size=3, replicas=2, **as_rank(rank, 4)) as loader:
            assert loader.global_batch_size == 6
            got.append([b.ids for b in loader])
            reports.append(loader.report())
            expected = loader.expected()
    assert got[0] == got[1] != got[2] == got[3]
    total = hr.merge_reports(reports)
    assert (total["count"], total["digest"], total["delivered"]) == (12, expected["digest"], 12)
    with pytest.raises(ValueError, match="replicas"):
        hr.Loader(grid, batch_size=3, replicas=2, **as_rank(0, 3))


def test_redo(grid: hr.Crops) -> None:
    with hr.Loader(grid, batch_size=2) as loader:
        first = [next(loader).ids for _ in range(4)]
        loader.redo(1)
        assert [b.ids for b in loader][:3] == first[1:]
        assert loader.report()["digest"] == loader.expected()["digest"]
        with pytest.raises(ValueError, match="redone"):
            loader.redo(3)


def test_the_order_is_that_of_the_command_line(grid: hr.Crops) -> None:
    """Batch by batch and rank by rank; and the digest of an epoch is the one that is computed offline."""
    with hr.Loader(grid, global_batch_size=5, seed=9) as loader:
        stream = ["--n", "12", "--global", "5", "--seed", "9", "--fingerprint", loader.fingerprint]
    for world in (1, 2, 3):
        shown = headrace("order", "show", "--json", *stream, "--epoch", "4", "--world", str(world))
        reports: list[Any] = []
        for rank in range(world):
            with hr.Loader(grid, global_batch_size=5, seed=9, **as_rank(rank, world)) as loader:
                loader.set_epoch(4)
                for step, batch in enumerate(loader):
                    part = shown[step]["ranks"][rank]
                    at = part["first"] - shown[step]["first"]
                    assert list(batch.ids) == shown[step]["samples"][at : at + part["count"]]
                reports.append(loader.report())
                expected = loader.expected(4)
        (proof,) = headrace("order", "verify", "--json", *stream, "--epoch", "4")
        total = hr.merge_reports(reports)
        assert (total["count"], total["digest"]) == (proof["count"], proof["digest"])
        assert expected == {"epoch": 4, "count": proof["count"], "digest": proof["digest"]}


def test_an_epoch_over_a_checkpoint_is_exact(grid: hr.Crops) -> None:
    """Two ranks stop within an epoch, three go on: nothing is lost and nothing comes twice."""
    reports: list[Any] = []
    seen: list[int] = []
    state: dict[str, Any] = {}
    options: dict[str, Any] = {"global_batch_size": 5, "data_digest": True}
    for rank in range(2):
        with hr.Loader(grid, **options, **as_rank(rank, 2)) as loader:
            seen += next(loader).ids
            state = json.loads(json.dumps(loader.state_dict()))
            assert len(json.dumps(state)) < 320
            reports.append(loader.report())
    for rank in range(3):
        with hr.Loader(grid, **options, **as_rank(rank, 3)) as loader:
            loader.load_state_dict(state)
            seen += [i for b in loader for i in b.ids]
            reports.append(loader.report())
            expected = loader.expected()
    with hr.Loader(grid, batch_size=4, data_digest=True) as alone:
        assert sum(len(b.ids) for b in alone) == 12
        data = alone.report()
    total = hr.merge_reports(reports)
    assert sorted(seen) == list(range(12))
    assert (total["count"], total["digest"]) == (expected["count"], expected["digest"])
    assert (total["data_count"], total["data_digest"]) == (12, data["data_digest"])
    assert hr.merge_reports(reports[1:])["digest"] != total["digest"]
    with pytest.raises(ValueError, match="epoch"):
        hr.merge_reports([reports[0], reports[1] | {"epoch": 1}])
    with pytest.raises(ValueError, match="no report"):
        hr.merge_reports([])
    none: Any = None
    for lost in (none, {}, reports[0] | {"digest": "7"}, reports[0] | {"count": -1}, reports[0] | {"data_digest": None}):
        with pytest.raises(hr.ConfigError, match=r"of a report is|a report is None"):
            hr.merge_reports([reports[0], lost])


def test_drift_needs_consent(grid: hr.Crops, volume: str) -> None:
    with hr.Loader(grid, batch_size=5) as loader:
        next(loader)
        state = loader.state_dict()
    with hr.Loader(hr.grid_crops(volume, (4, 4, 4), stride=(2, 4, 4)), batch_size=5, tail="drop") as loader:
        with pytest.raises(ValueError, match=r"fingerprint is \w+ in the state.*tail is short in the state, drop here"):
            loader.load_state_dict(state)
        loader.load_state_dict(state, accept_drift=True)
        assert loader.state_dict()["next_position"] == 5 and next(loader).step == 1


def test_reports_are_of_two_epochs(grid: hr.Crops) -> None:
    with hr.Loader(grid, batch_size=6) as loader:
        assert loader.report()["count"] == 0
        assert sum(1 for _ in loader) == 2
        assert loader.report()["epoch"] == 0 and loader.report()["count"] == 12
        next(loader)
        assert (loader.report()["epoch"], loader.report()["count"], loader.report(0)["count"]) == (1, 6, 12)
        with pytest.raises(ValueError, match="epoch is 7"):
            loader.report(7)


def test_explicit_ranks_win(grid: hr.Crops, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with hr.Loader(grid, batch_size=2, rank=3, world_size=4) as loader:
        assert (loader.rank, loader.world_size, loader.global_batch_size) == (3, 4, 8)
    for wrong in ({"rank": 1}, {"rank": 4, "world_size": 4}, {"rank": -1, "world_size": 4}, {"world_size": 0, "rank": 0}):
        with pytest.raises(ValueError, match=r"rank|world"):
            hr.Loader(grid, batch_size=2, **wrong)


def test_an_agent_that_is_not_there(grid: hr.Crops, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have a job, whose ranks deliver what this one would: done without where that is said."""
    monkeypatch.setenv("HEADRACE_AGENT", "/nowhere/agent")
    with pytest.raises(OSError, match="/nowhere/agent"):
        hr.Loader(grid, batch_size=2)
    with pytest.warns(RuntimeWarning, match="/nowhere/agent"), hr.Loader(grid, batch_size=2, coord="off") as loader:
        assert sum(len(b.ids) for b in loader) == 12


def test_a_caller_who_counts_batches_gets_every_epoch(grid: hr.Crops) -> None:
    """Lightning takes len(loader) batches and never sees the end of the epoch."""
    with hr.Loader(grid, batch_size=5) as loader:
        for epoch in range(3):
            batches = iter(loader)
            assert [next(batches).epoch for _ in range(len(loader))] == [epoch] * 3
        state = loader.state_dict()
        assert (state["epoch"], state["next_position"]) == (2, 12)
        loader.set_epoch(2)  # the current one still
        assert next(iter(loader)).epoch == 3
        # A place that was loaded has its end still to come.
        loader.load_state_dict(state)
        assert not [b.epoch for b in loader] and next(loader).epoch == 3


def test_restart(grid: hr.Crops) -> None:
    """A loop that was left early begins anew, but not one that a state takes up."""
    with hr.Loader(grid, batch_size=5, restart=True, seed=3) as loader:
        assert [b.step for _, b in zip(range(2), loader, strict=False)] == [0, 1]
        state = loader.state_dict()
        assert [(b.epoch, b.step) for b in loader] == [(0, 0), (0, 1), (0, 2)]
        assert loader.report(0)["digest"] == loader.expected(0)["digest"]
        assert [(b.epoch, b.step) for b in loader] == [(1, 0), (1, 1), (1, 2)]
        loader.load_state_dict(state)
        assert [(b.epoch, b.step) for b in iter(iter(loader))] == [(0, 2)]
