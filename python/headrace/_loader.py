"""The loader of one rank: which batch is mine, in which order, from where on."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ._batch import Batch
from ._check import choice, flag, integer, shown, spelled_with
from ._client import AGAIN, END, STEP_MS
from ._config import DEFAULT_SLOTS, Config, DtypeLike, Options, PerField, count, describe
from ._engine import Engine, Starvation, device_name, environment, patience
from ._errors import ConfigError, Unsupported
from ._source import Crops

if TYPE_CHECKING:
    from typing_extensions import Unpack

TAILS = ("short", "drop")


@spelled_with(Options.__annotations__)
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
        "cpu", "cuda:N", N or a GPU's UUID; None is the GPU of the local rank if there is one, else
        "cpu". `stats()` tells which it is, and why.
    tail
        The last batch of an epoch may be "short", on some ranks empty with weight 0,
        or is left out ("drop").
    coord, mode
        "auto" joins a coordinator if there is one. In this version there is none,
        and mode "lockstep" is the only one.
    timeout
        Seconds that `next` waits while every slot is a batch that is still held,
        None for ever. Slow storage is waited for in any case.
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
        timeout: float | None = 30.0,
        **options: Unpack[Options],
    ) -> None:
        if not isinstance(crops, Crops):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"crops is {shown(crops)}: random_crops, grid_crops and crop_list make them")
        if (batch_size is None) == (global_batch_size is None):
            raise ConfigError("give one of batch_size and global_batch_size")
        seed = integer("seed", seed, 0, 2**64 - 1)
        shuffle = flag("shuffle", shuffle)
        _check_mode(tail, coord, mode)
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
        what = describe(config, names) | {
            "open": "loader",
            "device": device_name(device),
            "source": crops.describe(),
            "loader": {
                "batch_size": 0 if batch_size is None else size,
                "global_batch_size": 0 if global_batch_size is None else size,
                "seed": seed,
                "shuffle": shuffle,
                "tail": tail.lower(),
            },
            "env": environment(),
        }
        super().__init__(what)
        self.crops = crops
        self.config = dataclasses.replace(config, batch_size=self.batch_size)
        self.fields = names
        if len(self) == 0:
            warnings.warn(
                f"an epoch has no batch: the {len(crops)} crops are fewer than the {self.global_batch_size} of a batch "
                'over all ranks, and tail is "drop"',
                stacklevel=3,  # beyond the check of the keywords
            )

    def __enter__(self) -> Loader:
        self._open_handle()
        return self

    def __iter__(self) -> Loader:
        self._open_handle()
        return self

    def __next__(self) -> Batch:
        """The next batch; StopIteration once at the end of each epoch.

        Raises Closed if the loader is closed meanwhile, and PoolStarved if for
        `timeout` seconds every slot has been a batch that is still held, or looked at.
        """
        room = self._library.room(len(self.fields), self.batch_size)
        starvation = Starvation(self.config.slots or DEFAULT_SLOTS, self._timeout)
        while (status := self._library.next(self._open_handle(), room, STEP_MS)) == AGAIN:
            starvation.check(self.stats()["batches_held"])
        if status == END:
            raise StopIteration
        return Batch(self._library, room, self.fields)

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return (
            f"<headrace.Loader of {self.crops!r}: {len(self)} batches of {self.batch_size}, "
            f"rank {self.rank} of {self.world_size}, on {self.device}{state}>"
        )

    def __len__(self) -> int:
        """Batches of an epoch, the same on every rank."""
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
    def epoch(self) -> int:
        """The epoch of the batch that comes next."""
        return int(self._ask("epoch"))

    def set_epoch(self, epoch: int) -> None:
        """Makes an epoch the current one, from its first batch on; nothing changes if it is already.

        Raises ConfigError for an epoch outside [0, 2**63).
        """
        self._ask("set_epoch", integer("epoch", epoch, 0))

    def state_dict(self) -> dict[str, Any]:
        """The place after the batches that were returned so far: the same on all ranks, valid for any number of them."""
        return self._ask("state")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to the place of a state. Seed and global batch are then the state's.

        Raises ConfigError for what is no state, or one of another source, and nothing changes.
        """
        self._about = self._ask("load_state", _state(state))

    def stats(self) -> dict[str, Any]:
        """What the engine has done so far: counters, and `stages` in the order of the data."""
        return self._ask("stats")


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


def _check_mode(tail: str, coord: str, mode: str) -> None:
    if tail == "mask" or mode == "async":
        raise Unsupported(f"{tail if tail == 'mask' else mode!r} comes with a later version")
    choice("tail", tail, TAILS)
    choice("coord", coord, ("auto", "off"))
    choice("mode", mode, ("lockstep",))
