"""The loader of one rank: which batch is mine, in which order, from where on."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ._batch import Batch
from ._check import choice, flag, integer, shown, spelled_with, text
from ._client import AGAIN, END, STEP_MS
from ._config import DEFAULT_SLOTS, Config, DtypeLike, Options, PerField, count, describe
from ._engine import Engine, Starvation, device_name, environment, patience
from ._errors import ConfigError, JobWaiting, ViewChanged, Void
from ._report import Report
from ._source import Crops
from ._torch import ProcessGroup, process_group

if TYPE_CHECKING:
    from typing_extensions import Unpack

TAILS = ("short", "drop", "mask")

_log = logging.getLogger("headrace")
_TELL_S = 5.0  # a wait for the job that takes longer is logged with its reason
_LONG_S = 3600.0  # one request to the engine waits no longer


class View(NamedTuple):
    """Where a rank is in a job whose ranks come and go.

    number
        Of the view: it grows with every change of the ranks; -1 before the first one.
    rank
        Of this process in the view; -1 if it is not in it, or not yet.
    world
        Number of ranks.
    halted
        A rank was lost, and `Loader.redo` has not said where to go on (mode "lockstep").
    waiting
        Why nothing new is decided now, such as a lost majority, or why this process is in no
        view; "" if nothing is known to be wrong.
    turn
        In lockstep: another one after each change of the ranks and after each `Loader.redo`, the
        same on all ranks of a step. The trainer's collectives are known by it.
    """

    number: int
    rank: int
    world: int
    halted: bool
    waiting: str
    turn: int


@spelled_with(Options.__annotations__)
class Loader(Engine):
    """This rank's batches of a source, epoch after epoch; an iterator.

    Rank and number of ranks come from the environment (torchrun, `headrace launch`, Slurm,
    MPI, Kubernetes), or from torch's process group where the environment has none. All
    ranks make the same loader and get the same number of batches.

    crops
        What `random_crops`, `grid_crops` or `crop_list` returned.
    batch_size, global_batch_size
        Samples in a batch of this rank, or of all ranks together; give one.
    dtype
        Element type of the tensors, or of each field's; None keeps the arrays' own.
    seed, shuffle
        The order of an epoch follows from the seed, the epoch and the source alone.
        Without shuffle it is the order of the source.
    device
        "cpu", "cuda:N", N or a GPU's UUID; None is the GPU of the local rank if there is one, else
        "cpu". `stats()` tells which it is, and why.
    tail
        The last batch of an epoch may be "short", on some ranks empty with weight 0, or
        is left out ("drop"). With "mask" every batch of every rank has the same shape:
        rows that only fill it up have id -1 and weight 0 in `Batch.weights`, which suits
        DDP and compiled models.
    block, window
        Shuffle by blocks, so that what is read at a time lies together in storage: blocks of
        `block` samples in a row are shuffled as wholes, then the samples of each `window`
        blocks. `window` alone takes the blocks of the source, which are the shards of
        `grid_crops(by_shard=True)`; `block` alone means a window of 256. `quality()` tells
        what that costs.
    locality
        Gives each node the samples of the same blocks in every epoch, as far as equal shares
        allow, so that what it has cached stays useful; needs block or window. The global
        batches stay the same.
    replicas
        Neighbouring ranks that get the same samples, as tensor or sequence parallel ranks
        need. The batch sizes are those of a world of one rank for each such group.
    rank, world_size, local_rank, local_world_size
        Win over the environment. Rank and world size come together.
    check
        "auto" compares the plans of all ranks before the first batch, and again after a
        state was loaded: through the launcher's agent, or else through torch's process
        group. A rank with another seed, source, state or batch size raises ConfigError,
        which names two ranks and what differs. "off" is for a loader that not all ranks
        open.
    name
        Of the loader where plans are compared. Default: its number in the process.
    restart
        Whether iterating again after a loop that was left early begins the epoch anew, as a
        torch DataLoader does: for validation, which some trainers try out with a few batches.
    data_digest
        Whether `report()` has a digest of all bytes. It reads every batch once more.
    coord, mode
        Whether this rank joins a job whose ranks come and go (docs/elastic.md): "auto" does
        where the agent that HEADRACE_AGENT names takes ranks in (`headrace agent`), "require"
        raises Unsupported where none does, "off" is for a loader beside the job's, such as
        one for validation. An agent that does not answer is an error (IO), but with "off".
        In mode "lockstep" all ranks return the same step, and a
        change of the ranks raises ViewChanged. In mode "async", for evaluation and
        embedding, each goes at its own pace through positions that the coordinator hands
        out, what a lost rank has not committed comes to others, and len() is an estimate.
    commit
        In mode async: a batch is done with when it is released ("release"), the last ones
        of a rank when it asks for more; or when `commit` says so ("manual"), where results
        must be stored first. In lockstep "manual" is refused.
    epochs
        Of an async job; 0 goes on for ever.
    timeout
        Seconds that `next` waits while every slot is a batch that is still held,
        None for ever. Slow storage is waited for in any case.
    job_timeout
        Seconds that `next` and `enter` wait for the job while it gives this rank nothing to
        deliver: no majority of the agents, ranks that are expected, a redo, or another rank
        that has not committed what it has. JobWaiting has the reason then, if the job gives
        one. Slow storage does not count. None waits for ever, or until the agent gives up.
        After a few seconds the reason is logged. In mode async choose more than the slowest
        rank takes for what it has in hand, and than half a minute: at the end of an epoch the
        others wait for it, and get what it has if it stands still.
    options
        axes, pad, scale, on_error, lookahead, slots, host_bytes and so on: see Config.

    Iteration ends with each epoch, and iterating again goes on with the next one, also for
    a caller who counts batches and never asks for one too many; a loop that was left early
    goes on where it stopped, unless `restart` is set. A bad sample raises in place
    of its batch unless on_error says otherwise, and iteration can go on after that.

    Raises ConfigError (a ValueError) for settings that cannot work, NotFound,
    Corrupt or Unsupported for arrays that cannot be read, Shape for crops that do
    not fit them, Budget if host_bytes is too little.

    >>> import headrace as hr
    >>> crops = hr.grid_crops("demo.zarr", shape=(4, 4))
    >>> with hr.Loader(crops, batch_size=4, dtype="f32", shuffle=False) as loader:
    ...     print(len(crops), len(loader), [batch.shape for batch in loader])
    6 2 [(4, 4, 4), (2, 4, 4)]
    """

    def __init__(
        self,
        crops: Crops,
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        dtype: PerField[DtypeLike | None] = None,
        seed: int = 0,
        shuffle: bool = True,
        device: str | int | None = None,
        tail: str = "short",
        block: int | None = None,
        window: int | None = None,
        locality: bool = False,
        replicas: int = 1,
        rank: int | None = None,
        world_size: int | None = None,
        local_rank: int | None = None,
        local_world_size: int | None = None,
        check: str = "auto",
        name: str = "",
        restart: bool = False,
        data_digest: bool = False,
        coord: str = "auto",
        mode: str = "lockstep",
        commit: str = "release",
        epochs: int = 1,
        timeout: float | None = 30.0,
        job_timeout: float | None = None,
        **options: Unpack[Options],
    ) -> None:
        if not isinstance(crops, Crops):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"crops is {shown(crops)}: random_crops, grid_crops and crop_list make them")
        if (batch_size is None) == (global_batch_size is None):
            raise ConfigError("give one of batch_size and global_batch_size")
        seed = integer("seed", seed, 0, 2**64 - 1)
        shuffle = flag("shuffle", shuffle)
        tail = choice("tail", tail, TAILS)
        self._async = choice("mode", mode, ("lockstep", "async")) == "async"
        coord, commit = choice("coord", coord, ("auto", "off", "require")), choice("commit", commit, ("release", "manual"))
        if self._async:
            _fits_async(batch_size, tail, restart, coord, replicas, locality, data_digest)
        elif commit == "manual":
            raise ConfigError(
                'commit is "manual" in mode "lockstep": a step is done when the next one is asked for, leave it out'
            )
        self._check = choice("check", check, ("auto", "off"))
        who = _who(rank, world_size, local_rank, local_world_size)
        names = crops.fields
        size = count("batch_size", batch_size) if batch_size is not None else count("global_batch_size", global_batch_size)
        # A rank's part of a global batch is known once the number of ranks is.
        own = 1 if batch_size is None else size
        config = Config(shape=crops.shape, batch_size=own, dtype=dtype, **options)
        if config.slots == 1:
            raise ConfigError(
                "slots is 1, must be at least 2: a loop holds one batch while it asks for the next, which needs a slot too"
            )
        self._timeout = patience(timeout)
        self._job_timeout, self._told = patience(job_timeout), ""
        what = describe(config, names) | {
            "open": "loader",
            "device": device_name(device),
            "source": crops.describe(),
            "loader": {
                "batch_size": 0 if batch_size is None else size,
                "global_batch_size": 0 if global_batch_size is None else size,
                "seed": seed,
                "shuffle": shuffle,
                "tail": tail,
                "block": 0 if block is None else count("block", block),
                "window": 0 if window is None else count("window", window),
                "locality": flag("locality", locality),
                "replicas": count("replicas", replicas, 2**31 - 1),
                "data_digest": flag("data_digest", data_digest),
                "name": text("name", name),
                "no_check": self._check == "off",
                "coord": coord,
                "mode": "async" if self._async else "lockstep",
                "epochs": integer("epochs", epochs, 0, 2**31 - 1),
                "manual_commit": commit == "manual",
            },
            "who": who,
            "env": environment(),
        }
        super().__init__(what)
        self._padded = tail == "mask"
        self._given = rank is not None
        self._unchecked = True
        self._last_epoch: int | None = None
        self._end_is_due = False
        self._restart = flag("restart", restart)
        self._begun = False  # a loop returned batches and not their end
        self.crops = crops
        self.config = dataclasses.replace(config, batch_size=self.batch_size)
        self.fields = names
        if self._about["note"]:
            warnings.warn(self._about["note"], RuntimeWarning, stacklevel=3)
        if len(self) == 0:
            reason = "there are no crops"
            if len(crops) > 0:
                reason = (
                    f"the {len(crops)} crops are fewer than the {self.global_batch_size} of a batch over all ranks, "
                    'and tail is "drop"'
                )
            warnings.warn(f"an epoch has no batch: {reason}", stacklevel=3)  # beyond the check of the keywords

    def __enter__(self) -> Loader:
        self._open_handle()
        return self

    def __iter__(self) -> Loader:
        self._join()
        if self._end_is_due:
            # The last batch was returned and its end was not asked for: who begins anew
            # wants the next epoch, not an empty one.
            with contextlib.suppress(StopIteration):
                next(self)
        elif self._restart and self._begun:
            self._ask("restart")
        self._begun = False
        return self

    def __next__(self) -> Batch:
        """The next batch; StopIteration once at the end of each epoch.

        Raises Closed if the loader is closed meanwhile, and PoolStarved if for
        `timeout` seconds every slot has been a batch that is still held, or looked at. In a
        job whose ranks come and go the first call waits until all are there that the job
        expects; ViewChanged says that they are others now.
        """
        self._join()
        if self._unchecked:
            self._compare_plans()
        room = self._library.room(len(self.fields), self.batch_size)
        starvation = Starvation(self.config.slots or DEFAULT_SLOTS, self._timeout)
        began = time.monotonic()
        try:
            while (status := self._library.next(self._open_handle(), room, STEP_MS)) == AGAIN:
                stats = self.stats()
                starvation.check(stats["batches_held"])
                self._tell_waiting(stats["waiting"], min(stats["waiting_s"], time.monotonic() - began))
        except ViewChanged as e:
            self._describe(e)
            raise
        self._end_is_due = self._begun = False
        if status == END:
            raise StopIteration
        batch = Batch(self._library, room, self.fields, self._padded)
        self._last_epoch = batch.epoch
        self._end_is_due = not self._async and batch.step == len(self) - 1
        self._begun = True
        return batch

    def _tell_waiting(self, why: str, seconds: float) -> None:
        """Logs why the job waits, once for each reason; raises after the caller's timeout, also where no reason is known."""
        if self._job_timeout is not None and seconds >= self._job_timeout:
            raise JobWaiting(f"nothing came for {self._job_timeout:g} s; {why or 'the job gives no reason'}")
        if not why or not seconds:
            self._told = ""
        elif seconds >= _TELL_S and why != self._told:
            self._told = why
            _log.warning("rank %d waits for its job: %s", self.rank, why)

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return (
            f"<headrace.Loader of {self.crops!r}: {len(self)} batches of {self.batch_size}, "
            f"rank {self.rank} of {self.world_size}, on {self.device}{state}>"
        )

    def __len__(self) -> int:
        """Batches of an epoch, the same on every rank; in mode async an estimate."""
        return int(self._about["len"])

    @property
    def device(self) -> str:
        """Where batches are made: "cpu" or "cuda:N"."""
        return str(self._about["device"])

    @property
    def batch_size(self) -> int:
        """The most samples that a batch of this rank has."""
        return int(self._about["batch_size"])

    @property
    def global_batch_size(self) -> int:
        """Samples of a batch over all ranks."""
        return int(self._about["global_batch_size"])

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return int(self._about["rank"])

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return int(self._about["world"])

    @property
    def fingerprint(self) -> str:
        """A hex hash of the source's kind, parameters and arrays' metadata; no path and no time enters it."""
        return str(self._about["fingerprint"])

    @property
    def plan_hash(self) -> str:
        """A hex hash of all that decides which sample is in which batch; the number of ranks is not in it."""
        return str(self._about["plan"])

    @property
    def epoch(self) -> int:
        """The epoch of the batch that comes next."""
        return int(self._ask("epoch"))

    def set_epoch(self, epoch: int) -> None:
        """Makes an epoch the current one, from its first batch on; nothing changes if it is already.

        Raises ConfigError for an epoch outside [0, 2**62].
        """
        self._ask("set_epoch", integer("epoch", epoch, 0))
        self._end_is_due = self._end_is_due and self._last_epoch == epoch

    def state_dict(self) -> dict[str, Any]:
        """The place after the batches that were returned so far: the same on all ranks, valid for any number of them."""
        return self._ask("state")

    def load_state_dict(self, state: Mapping[str, Any], *, accept_drift: bool = False) -> None:
        """Goes to the place of a state. Seed and global batch are then the state's.

        Raises ConfigError for what is no state, or one of another order of samples (other
        crops, arrays, shuffle, tail), with every difference by name; nothing changes then.
        `accept_drift` goes on regardless, with the order of this loader.
        """
        load = {"state": _state(state), "accept_drift": flag("accept_drift", accept_drift)}
        self._about = self._ask("load_state", load)
        self._unchecked = True
        self._end_is_due = self._begun = False

    def redo(self, step: int, *, epoch: int | None = None) -> None:
        """Goes back to a step of the current epoch, one of the last 256: its batch and those after it come again.

        They are counted once in the report. Raises ConfigError for a step that is not
        known any more: `load_state_dict` goes anywhere.

        In a job whose ranks come and go it is for all ranks, and of any epoch: they get
        ViewChanged, and go on from there when they `enter`. So it is after a rank was lost:
        each of the others may call it, with the step that the model's newest state belongs
        to. The first one holds, and for the others it raises ViewChanged, as it does where
        this rank has missed another redo: the job goes on already, `enter` it.
        A step is refused (ConfigError) that this rank has not come to, for it would leave
        steps out; a rank that had no batch yet may name any that was ever leased. It may be
        the one that answers the halt in which it has come, too. Raises JobWaiting after
        `job_timeout`: it may be agreed later all the same.
        """
        self._join(halted=True)
        where = None if epoch is None else integer("epoch", epoch, 0)
        request = {"step": integer("step", step, 0), "epoch": where}
        if self._about["job"] and self._job_timeout is not None:
            request["wait"] = max(1, int(self._job_timeout * 1000))  # milliseconds
        try:
            if waits := self._ask("redo", request):
                raise JobWaiting(f"{waits}: not within {self._job_timeout:g} s")
        except ViewChanged as e:
            self._describe(e)
            raise
        self._end_is_due = self._end_is_due and step == len(self)

    @property
    def view(self) -> View | None:
        """The newest view, and this process's rank in it; None in no job whose ranks come and go.

        It never waits, and does not join: before this process is in a view, `rank` is -1 and
        `waiting` says why. The first batch joins, and so does `enter`, for who needs its rank
        before that.
        """
        return self._view() if self._about["job"] else None

    def enter(self) -> View:
        """Enters the newest view after a ViewChanged: this rank goes on there, at the step that all go on from.

        Waits while the job is halted, for a `redo` of any rank. `rank`, `world_size` and
        `batch_size` may be others then, the global batches are the same; `state_dict` says
        where the rank is. The model must be what it was before that step. Before the first
        batch it joins the job. Returns the view that was entered, which may not be the newest
        any more. Raises JobWaiting after `job_timeout`, and ViewChanged where a rank was lost of
        which this one has not heard: perhaps no other one is left that could `redo`.
        """
        self._join()
        began = time.monotonic()
        try:
            while not (about := self._ask("enter", 1000))["entered"]:  # milliseconds
                self._tell_waiting(about["waits"], time.monotonic() - began)
        except ViewChanged as e:
            self._describe(e)
            raise
        self._about = at = about
        self._end_is_due = self._begun = False
        return View(at["view"], at["rank"], at["world"], halted=False, waiting="", turn=at["turn"])

    def commit(self, batch: Batch | None = None, *, wait: bool = False, timeout: float | None = 30.0) -> bool:
        """In mode async, says that this process is done with a batch; held or released.

        False if it is void: another rank has its samples by now, and what was made of
        them here should not count. True means that it is on its way: should this rank
        be given up before the agents have it, it is done again elsewhere, so that results
        are best stored under their epoch and id.

        With `wait` it returns when all that was committed counts, for good; without a batch
        it only waits, which is what the end of a rank's work needs. Raises Void for what
        does not count, with the positions, each told once; and JobWaiting after `timeout`
        seconds (None waits for ever), with the reason. Batches are decided in the order in
        which they came: one that is not committed holds up those after it.

        In mode lockstep a step is done when the next one is asked for: raises ConfigError.
        """
        if not self._async:
            raise ConfigError('commit is for mode "async": in lockstep a step is done when the next one is asked for')
        ok = batch is None or bool(self._ask("commit", {"epoch": batch.epoch, "step": batch.step}))
        if flag("wait", wait) or batch is None:
            self._flush(patience(timeout))
        return ok

    def _flush(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LONG_S if deadline is None else max(0.0, deadline - time.monotonic())
            said = self._ask("flush", int(min(left, _LONG_S) * 1000))
            if said["void"] or said["unknown"]:
                e = Void(said["text"])
                e.spans = tuple((a, b, c) for a, b, c in said["void"])
                e.unknown = tuple((a, b, c) for a, b, c in said["unknown"])
                raise e
            if not said["waits"]:
                return
            if left <= _LONG_S and deadline is not None:
                raise JobWaiting(f"{said['waits']}: not within {timeout} s")

    def coverage(self) -> dict[str, Any] | None:
        """What the coordinator holds of the last epoch that was completed: `epoch`, `count` and `digest`.

        They cover the positions of all ranks, those that were lost too, and in mode async are
        what `expected` says. None before the end of an epoch, and in no job. In lockstep there
        is no digest (None), and the epoch may be an older one: the agents know what all ranks
        have done up to half a lease (128 steps) late.
        """
        closed = self._ask("closed") if self._about["job"] else None
        return closed if closed is None or self._async else closed | {"digest": None}

    def _join(self, *, halted: bool = False) -> None:
        """Takes this rank's seat in the job, at the first use; `halted`: a view that waits for a redo will do."""
        self._open_handle()
        began = time.monotonic()
        while self._about["job"] and not self._about["joined"]:
            about = self._ask("join", 1000)  # milliseconds
            if not self._about["joined"]:  # else another thread is further
                self._about = about
            if halted and (view := self._view()).halted and view.rank >= 0:
                return
            self._tell_waiting(about["waits"], time.monotonic() - began)

    def _view(self) -> View:
        return View(**self._ask("view"))

    def _describe(self, e: ViewChanged) -> None:
        view = self._view()
        e.view, e.world, e.halted, e.turn = view.number, view.world, view.halted, view.turn

    def report(self, epoch: int | None = None) -> Report:
        """What was returned of an epoch: by default that of the last batch.

        A dict: `delivered`, `skipped` and `filled` samples, and `count` and `digest` of the
        positions that are done with. `merge_reports` adds those of all ranks, and of the
        runs before and after a checkpoint; `expected` is what the sum must be for an epoch
        that is exact. Raises ConfigError for an epoch that is neither the current one nor
        the one before it.
        """
        if epoch is None:
            epoch = self.epoch if self._last_epoch is None else self._last_epoch
        report = self._ask("report", integer("epoch", epoch, 0))
        if report is None:
            raise ConfigError(f"epoch is {epoch}: a loader has the reports of the current epoch and of the one before it")
        return report

    def expected(self, epoch: int | None = None) -> dict[str, Any]:
        """`count` and `digest` that the merged reports of an epoch must have, from the plan alone.

        `headrace order verify` computes the same. It takes tens of nanoseconds a sample.
        """
        if epoch is None:
            epoch = self.epoch if self._last_epoch is None else self._last_epoch
        return self._ask("expected", integer("epoch", epoch, 0))

    def origin(self, batch: Batch) -> list[tuple[int, int]]:
        """Where the samples of a batch are from: for `mix` the part and the place in it.

        For `weighted` it is 0 and the place in the source, for others 0 and the id.
        """
        found = self._ask("origin", {"epoch": batch.epoch, "ids": batch.ids})
        return [(part, index) for part, index in found]

    def quality(self) -> dict[str, Any]:
        """How well the loader shuffles: expectations for a global batch.

        `distinct_blocks` of storage that its samples come from, `full_shuffle` of them
        without a window, and `neighbours`, the share of samples that come from the same
        block as the one before.
        """
        return self._ask("quality")

    def stats(self) -> dict[str, Any]:
        """What the engine has done so far: counters, and `stages` in the order of the data.

        On a GPU `chunks_on_host` counts the chunks that the host decoded for it, and
        `chunks_refused` those that the GPU's decoders refused: odd ones, or broken.
        """
        return self._ask("stats")

    def _compare_plans(self) -> None:
        """Compares the ranks' plans over torch's process group, unless the engine does it over the agent."""
        group = process_group()
        if group is not None and not self._about["job"] and self._comparable(group):
            self._ask("compare", group.gather(self._ask("plan")))
        self._unchecked = False

    def _comparable(self, group: ProcessGroup) -> bool:
        if self._check == "off" or self._about["checks"] or group.world_size == 1:
            return False
        # Who names a rank may mean one of a part of the job, such as a data parallel group.
        return not self._given or self.world_size == group.world_size


def _fits_async(
    batch_size: int | None, tail: str, restart: bool, coord: str, replicas: int, locality: bool, data_digest: bool
) -> None:
    """Raises ConfigError for the first option that only ranks which keep step can have."""
    wrong = {
        "batch_size must be given, not global_batch_size: each rank has batches of its own": batch_size is None,
        f'tail must be "short", not "{tail}"': tail != "short",
        "restart must be False: what is done is not begun again": bool(restart),
        'coord must be "auto" or "require", not "off"': coord == "off",
        f"replicas must be 1, not {replicas}": replicas != 1,
        "locality must be False": bool(locality),
        "data_digest must be False": bool(data_digest),
    }
    for what, is_so in wrong.items():
        if is_so:
            raise ConfigError(f'mode is "async": {what}')


def _who(rank: int | None, world: int | None, local: int | None, local_world: int | None) -> dict[str, int]:
    """What is known of this process's place in its job beyond the environment."""
    who: dict[str, int | None] = {"rank": rank, "world": world, "local_rank": local, "local_world": local_world}
    if rank is None and world is None:
        group = process_group()
        if group is not None and not os.environ.get("RANK"):
            # mp.spawn and the like: init_process_group was told, the environment was not.
            who |= {"rank": group.rank, "world": group.world_size}
    return {name: integer(name, n, 0) for name, n in who.items() if n is not None}


_STATE = {"format": int, "fingerprint": str, "seed": int, "epoch": int, "next_position": int, "global": int}


def _state(state: Any) -> dict[str, Any]:
    """A state in which every entry has its type; the engine checks what it says."""
    if not isinstance(state, Mapping):
        raise ConfigError(f"state is {state!r}: it must be a dict that state_dict() returned")
    known = dict(cast("Mapping[str, Any]", state))
    for name, kind in _STATE.items():
        value = known.get(name, kind())
        most = 2**64 if name == "seed" else 2**63
        if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, int) and not 0 <= value < most):
            raise ConfigError(f"state[{name!r}] is {value!r}: it must be as state_dict() returned it")
    try:
        json.dumps(known, allow_nan=False)
    except (TypeError, ValueError) as e:
        raise ConfigError(f"state: {e}; it must be a dict that state_dict() returned") from None
    return known
