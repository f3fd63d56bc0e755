"""The loader of one rank: which batch is mine, in which order, from where on."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._batch import Batch
from ._config import DEFAULT_SLOTS, Config, DtypeLike, Options, PerField, count, describe
from ._engine import Engine, device_name, environment
from ._errors import ConfigError, PoolStarved, Unsupported
from ._library import AGAIN, END, STEP_MS
from ._source import Crops

if TYPE_CHECKING:
    from typing_extensions import Unpack

STARVED_S = 30.0

TAILS = ("short", "drop")


class Loader(Engine):
    """This rank's batches of a source, epoch after epoch; an iterator.

    Rank and number of ranks come from the environment (torchrun's variables). All
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
        "cpu", "cuda:N" or N; None is the rank's GPU if there is one.
    tail
        The last batch of an epoch may be "short", on some ranks empty with weight 0,
        or is left out ("drop").
    coord, mode
        "auto" joins a coordinator if there is one. In this version there is none,
        and mode "lockstep" is the only one.
    options
        axes, pad, scale, on_error, lookahead, slots, host_bytes and so on: see Config.

    Iteration ends with each epoch, and iterating again goes on with the next one; a
    loop that was left early goes on where it stopped. A bad sample raises in place
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
        coord: str = "auto",
        mode: str = "lockstep",
        **options: Unpack[Options],
    ) -> None:
        if not isinstance(crops, Crops):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"crops is {crops!r}: random_crops, grid_crops and crop_list make them")
        if (batch_size is None) == (global_batch_size is None):
            raise ConfigError("give one of batch_size and global_batch_size")
        if not 0 <= seed < 2**64:
            raise ConfigError(f"seed is {seed}, must be in [0, 2**64)")
        _check_mode(tail, coord, mode)
        names = crops.fields
        size = count("batch_size", batch_size) if batch_size is not None else count("global_batch_size", global_batch_size)
        # A rank's part of a global batch is known once the number of ranks is.
        own = 1 if batch_size is None else size
        config = Config(shape=crops.shape, batch_size=own, dtype=dtype, **options)
        what = describe(config, names) | {
            "open": "loader",
            "device": device_name(device),
            "source": crops.describe(),
            "loader": {
                "batch_size": 0 if batch_size is None else size,
                "global_batch_size": 0 if global_batch_size is None else size,
                "seed": seed,
                "shuffle": bool(shuffle),
                "tail": tail,
            },
            "env": environment(),
        }
        super().__init__(what)
        self.crops = crops
        self.config = dataclasses.replace(config, batch_size=self.batch_size)
        self.fields = names

    def __enter__(self) -> Loader:
        self._open_handle()
        return self

    def __iter__(self) -> Loader:
        self._open_handle()
        return self

    def __next__(self) -> Batch:
        """The next batch; StopIteration once at the end of each epoch.

        Raises Closed if the loader is closed meanwhile, and PoolStarved if for 30 s
        every slot has been taken by batches that are still held, or looked at.
        """
        room = self._library.room(len(self.fields), self.batch_size)
        patience = time.monotonic() + STARVED_S
        while (status := self._library.next(self._open_handle(), room, STEP_MS)) == AGAIN:
            if time.monotonic() >= patience:
                self._check_held()
        if status == END:
            raise StopIteration
        return Batch(self._library, room, self.fields)

    def _check_held(self) -> None:
        held, slots = self.stats()["batches_held"], self.config.slots or DEFAULT_SLOTS
        if held >= slots:
            raise PoolStarved(
                f"all {slots} slots are held, so no batch can be made: drop or release batches and what was made of "
                "them without a copy, or raise slots"
            )

    def __len__(self) -> int:
        """Batches of an epoch, the same on every rank."""
        return int(self._about["len"])

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
    def epoch(self) -> int:
        """The epoch of the batch that comes next."""
        return int(self._ask("epoch"))

    def set_epoch(self, epoch: int) -> None:
        """Makes an epoch the current one, from its first batch on; nothing changes if it is already.

        Raises ConfigError for a negative epoch.
        """
        self._ask("set_epoch", int(epoch))

    def state_dict(self) -> dict[str, Any]:
        """The place after the batches that were returned so far: the same on all ranks, valid for any number of them."""
        return self._ask("state")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to the place of a state. Seed and global batch are then the state's.

        Raises ConfigError for a state of another source, and nothing changes.
        """
        self._about = self._ask("load_state", dict(state))

    def stats(self) -> dict[str, Any]:
        """What the engine has done so far: counters, and `stages` in the order of the data."""
        return self._ask("stats")


def _check_mode(tail: str, coord: str, mode: str) -> None:
    if tail == "mask" or mode == "async":
        raise Unsupported(f"{tail if tail == 'mask' else mode!r} comes with a later version")
    if tail not in TAILS:
        raise ConfigError(f"tail is {tail!r}: one of {', '.join(TAILS)}")
    if coord not in ("auto", "off"):
        raise ConfigError(f'coord is {coord!r}: "auto" or "off"')
    if mode != "lockstep":
        raise ConfigError(f'mode is {mode!r}: "lockstep"')
