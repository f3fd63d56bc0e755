"""Jobs whose ranks come and go: real agents on loopback, and ranks as processes that are killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from zarr_writer import write_array

Nodes = Callable[[int], list[dict[str, str]]]


def start_agent(*flags: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """An agent that is ready, and what it says of itself."""
    command = [sys.executable, "-P", "-m", "headrace", "agent", "--json", "--job", "test", "--profile", "fast", *flags]
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert agent.stdout is not None
    for line in agent.stdout:
        said = json.loads(line)
        if "address" in said:
            # Nobody reads on: the pipe must not fill.
            threading.Thread(target=agent.stdout.read, daemon=True).start()
            return agent, said
    raise AssertionError(f"the agent ended with {agent.wait()}")


@pytest.fixture
def agents() -> Iterator[list[subprocess.Popen[str]]]:
    """Those that a test starts, which are ended behind it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for agent in started:
        agent.terminate()
    for agent in started:
        agent.wait(timeout=20)


@pytest.fixture
def nodes(tmp_path: Path, agents: list[subprocess.Popen[str]]) -> Nodes:
    """Starts two agents for a job of so many ranks: the variables of ranks 0 to 3, two on each."""

    def start(expect: int) -> list[dict[str, str]]:
        sockets = [str(tmp_path / "a"), str(tmp_path / "b")]
        first, said = start_agent("--form", "--expect", str(expect), "--socket", sockets[0])
        agents.append(first)
        agents.append(start_agent("--contact", said["address"], "--socket", sockets[1])[0])
        return [
            {
                "RANK": str(i),
                "WORLD_SIZE": "4",
                "LOCAL_RANK": str(i % 2),
                "LOCAL_WORLD_SIZE": "2",
                "GROUP_RANK": str(i // 2),
                "GROUP_WORLD_SIZE": "2",
                "TORCHELASTIC_RUN_ID": "test",
                "HEADRACE_AGENT": sockets[i // 2],
            }
            for i in range(4)
        ]

    return start


@pytest.fixture
def crops(tmp_path: Path) -> hr.Crops:
    """400 crops of one element each."""
    path = write_array(tmp_path / "v.zarr", np.arange(400, dtype=np.uint16), (50,), compress=True)
    return hr.grid_crops(str(path), shape=(1,))


class Rank:
    """A process that runs a script as a rank, and says things by lines of JSON."""

    def __init__(self, script: str, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", script], env=os.environ | env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def says(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the rank ended with {self.process.wait()}"
        return json.loads(line)

    def go(self, word: str = "go") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        assert self.process.wait(timeout=30) == 0


@pytest.fixture
def rank() -> Iterator[Callable[[str, dict[str, str]], Rank]]:
    """Starts ranks, and leaves none behind."""
    started: list[Rank] = []

    def start(script: str, env: dict[str, str]) -> Rank:
        started.append(Rank(script, env))
        return started[-1]

    yield start
    for r in started:
        if r.process.poll() is None:
            r.kill()
        assert r.process.stdin is not None and r.process.stdout is not None
        r.process.stdin.close()
        r.process.stdout.close()


HEAD = """
import json, sys, time
import headrace as hr
def say(**what): print(json.dumps(what), flush=True)
crops = hr.grid_crops({path!r}, shape=(1,))
"""

ASYNC = """
loader = hr.Loader(crops, batch_size=5, mode="async", seed=3)
with loader:
    for batch in loader:
        assert [int(v) for v in batch.numpy()[:, 0]] == list(batch.ids)
        say(ids=batch.ids)
        sys.stdin.readline()
    say(report=loader.report(), expected=loader.expected(), coverage=loader.coverage(), view=loader.view, length=len(loader))
"""

LOCKSTEP = """
loader = hr.Loader(crops, global_batch_size=8, mode="lockstep", coord="require", seed=3)
with loader:
    while True:
        try:
            batch = next(loader)
            say(step=batch.step, ids=batch.ids, rank=loader.rank, world=loader.world_size, view=batch.view, turn=batch.turn)
        except StopIteration:
            say(end=True)
            break
        except hr.ViewChanged as e:
            say(changed=True, view=e.view, world=e.world, halted=e.halted)
            word = sys.stdin.readline().split()
            if word[0] == "redo":
                try:
                    loader.redo(int(word[1]))
                except hr.ViewChanged as late:
                    say(late=str(late), halted=late.halted)
            entered = loader.enter()
            assert (entered.rank, entered.world) == (loader.rank, loader.world_size)
            say(turn=entered.turn)
            continue
        word = sys.stdin.readline()
        if word == "never\\n":
            for wrong in ({"step": 2**63 - 1}, {"step": 0, "epoch": 2**62}, {"step": 7}, {"step": 3, "epoch": 1}):
                try:
                    loader.redo(**wrong)
                    say(taken=wrong)
                except hr.ConfigError:
                    pass
            sys.stdin.readline()
        if word == "lost\\n":  # as a collective of the trainer shows it
            while not loader.view.halted:
                time.sleep(0.01)
            try:
                loader.enter()
            except hr.ViewChanged as e:  # no step has told it so far
                say(told=e.halted, view=e.view, world=e.world)
"""

COMING = """
with hr.Loader(crops, global_batch_size=8, mode="lockstep", coord="require", seed=3) as loader:
    loader.redo(1)
    say(world=loader.enter().world)
    say(step=next(loader).step)
    sys.stdin.readline()
"""


def script(body: str, crops: hr.Crops) -> str:
    (uri,) = crops.describe()["fields"][0]["arrays"]
    return HEAD.format(path=uri) + body


def test_async_over_a_killed_rank(nodes: Nodes, crops: hr.Crops, rank: Any) -> None:
    """What a killed rank had not committed comes to others, and the coordinator says that all is done."""
    ranks = [rank(script(ASYNC, crops), env) for env in nodes(4)]
    seen = [list(r.says()["ids"]) for r in ranks]  # all are there, each with its first batch
    ranks[1].kill()
    rest = [ranks[0], ranks[2], ranks[3]]
    done = {i for k in (0, 2, 3) for i in seen[k]}
    ends: list[Any] = []

    def work(r: Rank) -> None:
        while True:
            r.go()
            said = r.says()
            if "ids" not in said:
                ends.append(said)
                return
            assert not done & set(said["ids"])
            done.update(said["ids"])

    threads = [threading.Thread(target=work, args=(r,)) for r in rest]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=60)
    assert len(ends) == 3 and sorted(done) == list(range(400))
    for end in ends:
        assert end["coverage"] == {"epoch": 0} | {k: end["expected"][k] for k in ("count", "digest")}
        assert end["length"] == 20  # of 80, an estimate for four ranks
    total = hr.merge_reports(end["report"] for end in ends)
    assert (total["count"], total["digest"]) == (400, ends[0]["expected"]["digest"])
    for r in rest:
        r.end()


def test_lockstep_over_a_killed_rank(nodes: Nodes, crops: hr.Crops, rank: Any) -> None:
    """The others go back to the step that one of them names, and share the same global batches."""
    ranks = [rank(script(LOCKSTEP, crops), env) for env in nodes(3)[:3]]
    with hr.Loader(crops, batch_size=8, seed=3, rank=0, world_size=1, coord="off") as alone:
        plan = [list(b.ids) for b in alone]

    def step(number: int, who: list[Rank]) -> int:
        parts = [r.says() for r in who]
        assert {(p["step"], p["world"]) for p in parts} == {(number, len(who))}
        (turn,) = {p["turn"] for p in parts}
        parts.sort(key=lambda p: p["rank"])
        assert [i for p in parts for i in p["ids"]] == plan[number]
        return turn

    turn = -1
    for number in range(4):
        turn = step(number, ranks)
        if number < 3:
            for r in ranks:
                r.go()
    ranks[2].kill()
    rest = ranks[:2]
    for r in rest:
        r.go("lost")
    for r in rest:
        told, said = r.says(), r.says()
        assert said["changed"] and said["halted"] and said["world"] == 2
        assert told == {"told": True, "view": said["view"], "world": 2}
    rest[0].go("redo 3")
    assert rest[0].says()["turn"] > turn
    rest[1].go("redo 2")  # it has seen the halt that the other one has answered
    assert "the job went back to step 3 of epoch 0" in (said := rest[1].says())["late"] and not said["halted"]
    rest[1].says()
    for number in range(3, 50):
        assert step(number, rest) > turn
        if number == 5:
            rest[0].go("never")  # what cannot be gone on from is an error, and changes nothing
        for r in rest:
            r.go()
    for r in rest:
        assert r.says() == {"end": True}
        r.end()


def test_a_job_that_starts_again_goes_on(nodes: Nodes, crops: hr.Crops, rank: Any) -> None:
    """All workers are killed and start again, as under torchrun: the job needs no checkpoint to find its place."""
    variables = nodes(2)
    first = [rank(script(LOCKSTEP, crops), variables[i]) for i in (0, 2)]
    for _ in range(3):
        assert {r.says()["world"] for r in first} == {2}
        for r in first:
            r.go()
    for r in first:
        r.kill()
    with hr.Loader(crops, batch_size=8, seed=3, rank=0, world_size=1, coord="off") as alone:
        assert alone.view is None and alone.coverage() is None
        plan = [list(b.ids) for b in alone]
    again = [rank(script(LOCKSTEP, crops), variables[i]) for i in (0, 2)]
    parts = sorted((r.says() for r in again), key=lambda p: p["rank"])
    # What all had done is known once half of a lease is used: here that was not so yet.
    assert [p["step"] for p in parts] == [0, 0] and {p["world"] for p in parts} == {2}
    assert [i for p in parts for i in p["ids"]] == plan[0]


def test_a_rank_that_comes_may_answer_the_halt(nodes: Nodes, crops: hr.Crops, rank: Any) -> None:
    """It has a checkpoint, say, and those that are left have nothing, or are lost too: before it was in any view."""
    variables = nodes(2)
    ranks = [rank(script(LOCKSTEP, crops), variables[i]) for i in (0, 2)]
    for _ in range(3):
        assert {r.says()["world"] for r in ranks} == {2}
        for r in ranks:
            r.go()
    ranks[1].kill()
    ranks[0].says()
    ranks[0].go("lost")
    assert ranks[0].says()["told"] and ranks[0].says()["halted"]
    comes = rank(script(COMING, crops), variables[2])
    assert comes.says()["world"] == 2
    ranks[0].go("redo 3")
    assert "the job went back to step 1 of epoch 0" in ranks[0].says()["late"]
    ranks[0].says()
    assert [r.says()["step"] for r in (ranks[0], comes)] == [1, 1]


def test_what_cannot_be(crops: hr.Crops, monkeypatch: pytest.MonkeyPatch, nodes: Nodes) -> None:
    """There is no coordinator, or the loader is not one of those that it can serve."""
    for options in ({"mode": "async"}, {"coord": "require"}):
        with pytest.raises(hr.Unsupported, match="HEADRACE_AGENT is not set"):
            hr.Loader(crops, batch_size=2, **options)  # type: ignore[arg-type]
    wrong = {"tail": "mask", "coord": "off", "restart": True, "replicas": 2, "locality": True, "data_digest": True}
    for name, value in wrong.items():  # the message names the one that is wrong
        with pytest.raises(hr.ConfigError, match=f'mode is "async": {name} must be'):
            hr.Loader(crops, batch_size=2, mode="async", **{name: value})  # type: ignore[arg-type]
    with pytest.raises(hr.ConfigError, match='mode is "async": batch_size must be given'):
        hr.Loader(crops, global_batch_size=2, mode="async")
    with pytest.raises(hr.ConfigError, match='commit is "manual" in mode "lockstep"'):
        hr.Loader(crops, batch_size=2, commit="manual")
    with (
        hr.Loader(crops, batch_size=2, rank=0, world_size=1) as alone,
        pytest.raises(hr.ConfigError, match='commit is for mode "async"'),
    ):
        alone.commit(next(alone))
    for name, value in nodes(1)[0].items():
        monkeypatch.setenv(name, value)
    with hr.Loader(crops, batch_size=2, mode="async", commit="manual") as loader:
        batch = next(loader)
        assert loader.commit(batch) and loader.commit(batch)
        assert loader.view is not None and loader.view.world == 1
        with pytest.raises(hr.Unsupported, match="state in mode async"):
            loader.state_dict()
        with pytest.raises(hr.ConfigError, match="one loader of a rank is in the job"):
            next(hr.Loader(crops, batch_size=2, mode="async"))


@pytest.mark.parametrize("mode", ["lockstep", "async"])
def test_threads_join_once(nodes: Nodes, crops: hr.Crops, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """A loader is used for the first time by several threads at once, such as a monitor beside the loop."""
    for name, value in nodes(1)[0].items():
        monkeypatch.setenv(name, value)
    for _ in range(3):
        with hr.Loader(crops, batch_size=5, mode=mode, epochs=0) as loader:
            seen: list[Any] = []
            together = threading.Barrier(4)

            def use(what: Callable[[], Any], together: threading.Barrier = together, seen: list[Any] = seen) -> None:
                together.wait()
                try:
                    seen.append(what())
                except hr.HeadraceError as e:
                    seen.append(e)

            uses: list[Callable[[], Any]] = [loader.__next__, loader.__iter__, lambda: loader.view, loader.stats]
            threads = [threading.Thread(target=use, args=(what,)) for what in uses]
            for t in threads:
                t.start()
            for t in threads:
                t.join(timeout=60)
            assert {type(x) for x in seen} == {hr.Batch, hr.Loader, hr.View, dict}
            seen.clear()


def test_what_is_committed_counts(nodes: Nodes, crops: hr.Crops, monkeypatch: pytest.MonkeyPatch) -> None:
    """After commit(wait=True) the coordinator has it; what waits for a batch before it is named."""
    for name, value in nodes(1)[0].items():
        monkeypatch.setenv(name, value)
    with hr.Loader(crops, batch_size=50, mode="async", commit="manual") as loader:
        first, second = next(loader), next(loader)
        with pytest.raises(hr.JobWaiting, match=r"positions 50 to 99|positions 50 to 100"):
            loader.commit(second, wait=True, timeout=0.2)
        assert loader.report()["count"] == 0
        assert loader.commit(first, wait=True)
        assert loader.report()["count"] == 100
        assert loader.view is not None and loader.view.waiting == "" and loader.stats()["waiting"] == ""
        del first, second
        for batch in loader:
            assert loader.commit(batch)
            if batch.step == 7:
                break
        loader.commit(wait=True)
        assert loader.report()["count"] == 400


def test_a_job_that_waits_says_why(
    nodes: Nodes, crops: hr.Crops, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ranks that are expected do not come: the reason is logged, and is that of the caller's timeout."""
    for name, value in nodes(2)[0].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.modules["headrace._loader"], "_TELL_S", 0.5)
    with hr.Loader(crops, batch_size=50, mode="async", job_timeout=3.0) as loader:
        view = loader.view  # does not wait, and does not join
        assert view is not None and view[:4] == (-1, -1, 0, False) and "has not asked to join" in view.waiting
        for _ in range(2):  # nothing is lost: it can be asked again
            with pytest.raises(hr.JobWaiting, match="1 rank is there, and more are expected"):
                next(loader)
        view = loader.view
        assert view is not None and view.rank == -1 and "more are expected" in view.waiting
        with pytest.raises(hr.JobWaiting, match="more are expected"):
            loader.enter()
        assert loader.coverage() is None
    assert "waits for its job: 1 rank is there" in caplog.text


def test_a_redo_that_is_not_agreed_ends(
    nodes: Nodes, agents: list[subprocess.Popen[str]], crops: hr.Crops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks for a redo waits no longer than job_timeout: the job may have lost who could agree."""
    env, loaders = nodes(2), []
    with contextlib.ExitStack() as stack:
        for i in (0, 2):  # one on each node
            for name, value in env[i].items():
                monkeypatch.setenv(name, value)
            loaders.append(hr.Loader(crops, global_batch_size=50))
            stack.callback(loaders[-1].close)
        other = threading.Thread(target=next, args=(loaders[0],))
        other.start()
        next(loaders[1])
        other.join(timeout=60)
        agents[0].kill()  # it alone decides, where there are two
        loaders[1]._job_timeout = 1.0
        with pytest.raises(hr.JobWaiting, match="not within 1 s"):
            loaders[1].redo(0)


def test_a_job_that_stands_still_ends_the_wait(nodes: Nodes, crops: hr.Crops, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank holds what it has and does nothing: the other one does the rest, and hears that nothing comes."""
    for name, value in nodes(2)[0].items():
        monkeypatch.setenv(name, value)
    loaders = [
        hr.Loader(crops, batch_size=10, mode="async", commit="manual", rank=i, world_size=4, local_rank=i, job_timeout=t)
        for i, t in enumerate((4.0, 60.0))
    ]
    with contextlib.ExitStack() as stack:
        for loader in loaders:
            stack.callback(loader.close)
        held: list[hr.Batch] = []
        hangs = threading.Thread(target=lambda: held.append(next(loaders[1])))
        hangs.start()
        batch = next(loaders[0])  # both are there
        hangs.join(timeout=60)
        done, began = 0, 0.0
        with pytest.raises(hr.JobWaiting, match="nothing came for 4 s; "):
            while True:
                assert loaders[0].commit(batch)
                done += len(batch.ids)
                began = time.monotonic()
                batch = next(loaders[0])
        assert time.monotonic() - began >= 4
        assert 200 <= done < 400 and loaders[0].stats()["waiting_s"] >= 4
        assert loaders[1].commit(held[0])


def test_an_engine_beside_the_trainer_joins_for_it(
    nodes: Nodes, crops: hr.Crops, monkeypatch: pytest.MonkeyPatch, shared_engine: Path
) -> None:
    monkeypatch.setenv("HEADRACE_ENGINE", str(shared_engine))
    for name, value in nodes(1)[0].items():
        monkeypatch.setenv(name, value)
    with hr.Loader(crops, batch_size=7, mode="async", epochs=2) as loader:
        for epoch in range(2):
            ids = [i for batch in loader for i in batch.ids]
            coverage, expected = loader.coverage(), loader.expected(epoch)
            assert sorted(ids) == list(range(400)) and coverage is not None
            assert coverage == {"epoch": epoch, "count": 400, "digest": expected["digest"]}
        assert list(loader) == []


def test_the_example() -> None:
    """Four processes on two nodes, one killed at random: coverage N of N and the expected digest."""
    example = Path(__file__).resolve().parents[2] / "examples" / "elastic" / "run.py"
    done = subprocess.run([sys.executable, "-P", str(example)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("coverage 288 of 288") == 3 and "results of 288 of 288 crops" in done.stdout
