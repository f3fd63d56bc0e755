"""Pipeline: samples in, batches out, in order, without loss."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from conftest import Array, Boxes, crop, eventually, pipeline, waits_in_library
from zarr_writer import write_array


def test_batches_hold_what_numpy_cuts_out(volume: str, values: Array, boxes: Boxes) -> None:
    seen: list[int] = []
    with pipeline(volume, boxes, batch_size=3) as p:
        for step, batch in enumerate(p.batches()):
            assert (batch.step, batch.epoch) == (step, 0)
            assert batch.shape == (len(batch.ids), 4, 4, 4)
            assert batch.dtype is hr.Dtype.U16
            for at, i in enumerate(batch.ids):
                np.testing.assert_array_equal(batch.numpy()[at], crop(values, boxes[i]))
            seen += batch.ids
            assert batch.weight == len(batch.ids) / 3
    assert seen == list(range(8))


def test_ids_of_samples_come_back(volume: str, boxes: Boxes) -> None:
    with hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2)) as p:
        p.push([hr.Sample(volume, boxes[0], id=-7), hr.Sample(volume, boxes[1])])
        assert p.pop().ids == (-7, 1)


def test_an_endless_generator_is_pulled_as_batches_are_popped(volume: str, boxes: Boxes) -> None:
    pulled = 0

    def samples() -> Iterator[hr.Sample]:
        nonlocal pulled
        for i in itertools.count():
            pulled += 1
            yield hr.Sample(volume, boxes[i % 8])

    with hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2, lookahead=4, slots=2)) as p:
        p.push(samples())
        assert p.pending
        for _ in range(20):
            p.pop().release()
        # 40 samples popped; beyond them the look-ahead and the two batches behind it, the
        # slots and one batch in hand.
        assert 40 <= pulled <= 40 + 4 + 2 * 2 + 2 * 2 + 2


def test_pushes_follow_one_another(volume: str, boxes: Boxes) -> None:
    with hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2)) as p:
        p.push(hr.Sample(volume, b, id=10) for b in boxes[:3])
        p.push(hr.Sample(volume, b, id=20) for b in boxes[3:])
        assert [b.ids for b in p.batches()] == [(10, 10), (10, 20), (20, 20), (20, 20)]
        assert not p.pending


def test_arrays_that_come_later_keep_the_order(tmp_path: Path, values: Array, boxes: Boxes) -> None:
    """Batches of arrays that nobody named at the start, in the order of their samples."""
    paths = [str(write_array(tmp_path / f"{k}.zarr", values + 1000 * k, (5, 4, 8))) for k in range(4)]
    order = [0, 0, 1, 0, 2, 2, 0, 1, 3, 3, 3, 0]
    with hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2, slots=len(order)), arrays=paths[:1]) as p:
        p.push(hr.Sample(paths[k], boxes[i % 8]) for i, k in enumerate(order))
        got = list(p.batches())
    assert [b.ids for b in got] == [(i, i + 1) for i in range(0, 12, 2)]
    for batch in got:
        for at, i in enumerate(batch.ids):
            np.testing.assert_array_equal(batch.numpy()[at], crop(values + 1000 * order[i], boxes[i % 8]))


def test_finish_ends_once_and_the_pipeline_goes_on(volume: str, boxes: Boxes) -> None:
    with pipeline(volume, boxes[:3]) as p:
        p.finish()
        assert [len(p.pop().ids), len(p.pop().ids)] == [2, 1]
        with pytest.raises(EOFError):
            p.pop()
        with pytest.raises(hr.PoolStarved):
            p.pop(timeout=0.01)
        p.push(hr.Sample(volume, boxes[0]) for _ in range(2))
        assert p.pop().ids == (3, 4)


def test_nothing_pushed_has_no_batches() -> None:
    with hr.Pipeline(hr.Config(shape=(4,), batch_size=1)) as p:
        assert list(p.batches()) == []


def test_pool_starved_loses_nothing(volume: str, boxes: Boxes) -> None:
    with hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2)) as p:
        p.push(hr.Sample(volume, boxes[0]))
        with pytest.raises(hr.PoolStarved, match="1 samples"):
            p.pop(timeout=0.05)
        p.push(hr.Sample(volume, boxes[1]))
        assert p.pop().ids == (0, 1)


def test_held_batches_starve_a_pop_and_batches(volume: str, boxes: Boxes) -> None:
    """The message counts the batches that are held and says what helps; one that is dropped does."""
    with pipeline(volume, boxes) as p:
        held = [p.pop() for _ in range(3)]
        with pytest.raises(hr.PoolStarved, match=r"3 batches are held and there are 3 slots.*raise slots="):
            p.pop(timeout=0.05)
        with pytest.raises(hr.PoolStarved, match="3 batches are held"):
            next(p.batches(1, timeout=0.05))
        held.clear()
        assert p.pop().ids == (6, 7)


def test_discard_drops_what_was_not_popped(volume: str, boxes: Boxes) -> None:
    with pipeline(volume, boxes) as p:
        p.pop()
        p.discard()
        assert not p.pending
        p.push(hr.Sample(volume, b, id=100 + i) for i, b in enumerate(boxes[:2]))
        assert p.pop().ids == (100, 101)


def test_fields_of_one_sample(tmp_path: Path, volume: str, values: Array, boxes: Boxes) -> None:
    mask = str(write_array(tmp_path / "mask.zarr", (values % 3).astype(np.uint8), (4, 4, 4)))
    config = hr.Config(shape=(4, 4, 4), batch_size=2, dtype={"image": "f32", "mask": None}, scale={"image": 0.5})
    with hr.Pipeline(config, fields=("image", "mask")) as p:
        # The order of a sample's fields is its own.
        p.push(hr.Sample({"mask": mask, "image": volume}, b, flip=(0,)) for b in boxes[:1])
        p.push(hr.Sample({"image": volume, "mask": mask}, b, flip=(0,)) for b in boxes[1:])
        batch = p.pop()
        assert list(batch) == ["image", "mask"] and len(batch) == 2
        image, labels = (crop(a, boxes[0])[::-1] for a in (values, values % 3))
        np.testing.assert_array_equal(batch["image"].numpy()[0], (image * 0.5).astype(np.float32))
        np.testing.assert_array_equal(batch["mask"].numpy()[0], labels.astype(np.uint8))
        with pytest.raises(KeyError, match="none of the fields"):
            batch["labels"]
        with pytest.raises(TypeError, match="pick one"):
            batch.numpy()


@pytest.mark.parametrize("pad, mode", [("edge", "edge"), ("reflect", "reflect"), ("fill", "constant")])
def test_padding(volume: str, values: Array, pad: str, mode: Any) -> None:
    config = hr.Config(shape=(6, 4, 4), batch_size=1, pad=pad, pad_value=9, dtype="i32", axes=(2, 0, 1))
    with hr.Pipeline(config) as p:
        p.push(hr.Sample(volume, [(-2, 4), (0, 4), (6, 10)]))
        more: dict[str, Any] = {"constant_values": 9} if mode == "constant" else {}
        want = np.pad(values.astype(np.int32), ((2, 0), (0, 0), (0, 2)), mode, **more)[0:6, 0:4, 6:10]
        np.testing.assert_array_equal(p.pop().numpy()[0], want.transpose(2, 0, 1))


def test_a_missing_value_may_be_nan(tmp_path: Path) -> None:
    path = str(write_array(tmp_path / "f.zarr", np.ones((4,), np.float32), (4,)))
    with hr.Pipeline(hr.Config(shape=(3,), batch_size=1, pad="fill", pad_value=float("nan"))) as p:
        p.push(hr.Sample(path, [(3, 6)]))
        np.testing.assert_array_equal(p.pop().numpy()[0], [1, np.nan, np.nan])


def test_an_error_comes_in_place_of_its_batch(broken: str, boxes: Boxes) -> None:
    """Boxes 0 to 3 touch the broken chunk; those from 5 on do not."""
    with pipeline(broken, [boxes[5], boxes[6], boxes[0], boxes[6], boxes[7], boxes[5]]) as p:
        assert p.pop().ids == (0, 1)
        with pytest.raises(hr.Corrupt, match="sample 2") as caught:
            p.pop()
        for part in (broken, "0/0/0", "gzip"):
            assert part in str(caught.value)
        assert p.pop().ids == (4, 5)


@pytest.mark.parametrize("policy, ids", [("skip", (1,)), ("fill", (0, 1))])
def test_a_bad_sample_may_be_skipped_or_filled(
    broken: str, values: Array, boxes: Boxes, policy: str, ids: tuple[int, ...]
) -> None:
    with pipeline(broken, [boxes[0], boxes[6]], on_error=policy) as p:
        batch = p.pop()
        assert batch.ids == ids
        assert [(e.id, type(e.error)) for e in batch.errors] == [(0, hr.Corrupt)]
        np.testing.assert_array_equal(batch.numpy()[-1], crop(values, boxes[6]))
        if policy == "fill":
            assert not batch.numpy()[0].any()


def test_a_sample_of_the_wrong_form_is_refused_and_the_rest_goes_on(volume: str, boxes: Boxes) -> None:
    with hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=1)) as p:
        with pytest.raises(hr.Shape, match=r"extents \[4, 4, 5\]"):
            p.push([hr.Sample(volume, [(0, 4), (0, 4), (0, 5)]), hr.Sample(volume, boxes[0])])
        assert p.pop().ids == (0,)
        with pytest.raises(hr.Shape, match="fields"):
            p.push(hr.Sample({"other": volume}, boxes[0]))
        with pytest.raises(TypeError, match=r"headrace\.Sample"):
            p.push([volume])  # type: ignore[list-item]


@pytest.mark.parametrize("start", [2**64, -(2**64), 2**63 - 4])
def test_numbers_beyond_64_bits_are_refused(start: int) -> None:
    with pytest.raises(ValueError, match=r"box axis 1: .* 64 bits"):
        hr.Sample("a.zarr", [(0, 4), (start, start + 4)])
    with pytest.raises(ValueError, match=r"id .* 64 bits"):
        hr.Sample("a.zarr", [(0, 4)], id=2 * start + 8)


def test_an_array_that_is_not_there_names_what_was_tried(tmp_path: Path, volume: str, boxes: Boxes) -> None:
    with hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=1)) as p:
        with pytest.raises(FileNotFoundError) as caught:
            p.push(hr.Sample(tmp_path / "nope.zarr", boxes[0]))
        assert isinstance(caught.value, hr.NotFound)
        assert str(tmp_path / "nope.zarr") in str(caught.value)
        p.push(hr.Sample(volume, boxes[0]))
        assert p.pop().ids == (1,)


def test_a_failing_generator_fails_the_pop_and_is_dropped(volume: str, boxes: Boxes) -> None:
    def samples() -> Iterator[hr.Sample]:
        yield hr.Sample(volume, boxes[0])
        raise RuntimeError("no more")

    with hr.Pipeline(hr.Config(shape=(4, 4, 4), batch_size=2)) as p:
        with pytest.raises(RuntimeError, match="no more"):
            p.push(samples())
        p.push(hr.Sample(volume, boxes[1]))
        assert p.pop().ids == (0, 1)


def test_settings_that_cannot_work_name_the_field() -> None:
    with pytest.raises(ValueError, match="device"):
        hr.Pipeline(hr.Config(shape=(4,), batch_size=1), device="tpu")
    with pytest.raises(ValueError, match="'mask'"):
        hr.Pipeline(hr.Config(shape=(4,), batch_size=1, dtype={"mask": "u8"}), fields=("image",))
    with pytest.raises(ValueError, match="fields"):
        hr.Pipeline(hr.Config(shape=(4,), batch_size=1), fields=())


def test_host_bytes_that_are_too_few(volume: str, boxes: Boxes) -> None:
    with pytest.raises(hr.Budget, match=r"host_bytes 4096 .* lower slots, batch_size or workers"):
        pipeline(volume, boxes, host_bytes=4096)


def test_close_wakes_a_pop_that_waits() -> None:
    p = hr.Pipeline(hr.Config(shape=(4,), batch_size=1))
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            p.pop(None)
        except BaseException as e:
            caught.append(e)

    thread = threading.Thread(target=wait)
    thread.start()
    eventually(lambda: waits_in_library(thread.ident or 0), "the thread never waits")
    p.close()
    thread.join(5)
    assert [type(e) for e in caught] == [hr.Closed]


def test_use_after_close_is_an_error(volume: str, boxes: Boxes) -> None:
    with pipeline(volume, boxes) as p:
        pass
    assert p.closed
    p.close()
    for use in (p.pop, p.finish, p.discard, p.stats, lambda: p.push(hr.Sample(volume, boxes[0])), p.__enter__):
        with pytest.raises(hr.Closed):
            use()


def test_a_pipeline_that_is_dropped_closes_itself(volume: str, boxes: Boxes) -> None:
    p = pipeline(volume, boxes)
    library, handle = p._library, p._handle
    del p

    def gone() -> bool:
        try:
            library.ask(handle, "stats")
        except hr.Closed:
            return True
        return False

    eventually(gone, "the handle still works")


def test_two_pipelines_and_many_threads(volume: str, values: Array, boxes: Boxes) -> None:
    """Batches popped by several threads are those pushed, each once."""
    with pipeline(volume, boxes * 20, slots=4) as a, pipeline(volume, boxes * 20) as b:
        ids: dict[int, list[int]] = {0: [], 1: []}
        wrong: list[int] = []

        def take(which: int, p: hr.Pipeline) -> None:
            for _ in range(20):
                with p.pop() as batch:
                    for at, i in enumerate(batch.ids):
                        ids[which].append(i)
                        if (batch.numpy()[at] != crop(values, boxes[i % 8])).any():
                            wrong.append(i)

        threads = [threading.Thread(target=take, args=(k % 2, (a, b)[k % 2])) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong
    assert sorted(ids[0]) == sorted(ids[1]) == list(range(160))


def test_stats_count_the_work(volume: str, boxes: Boxes) -> None:
    with pipeline(volume, boxes) as p:
        for batch in p.batches():
            batch.release()
        stats = p.stats()
    assert (stats["samples"], stats["batches"], stats["samples_failed"]) == (8, 4, 0)
    assert [s["name"] for s in stats["stages"]][:6] == ["plan", "dispatch", "locate", "read", "decode", "assemble"]
    assert stats["chunks_decoded"] > 0
    assert stats["chunks_on_host"] == stats["chunks_refused"] == 0, "there is no GPU to leave any"
