"""The example of DDP training, unchanged under both launchers: the same batches, and an exact epoch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import EXAMPLES, LAUNCHERS, Run, environment, lines

TRAIN = EXAMPLES / "torchrun" / "train.py"
SMALL = ("--samples", "50", "--global-batch-size", "8", "--log-every", "1")


def digest(out: str, epoch: int = 0) -> str:
    """The digest of an epoch that is exact."""
    (line,) = [x for x in lines(out, f"epoch {epoch}:") if "digest" in x]
    found = re.fullmatch(rf"epoch {epoch}: 50 of 50 samples, digest (\w{{32}}), exact: True", line)
    assert found, out
    return found[1]


def losses(out: str) -> list[float]:
    return [float(line.rsplit(" ", 1)[1]) for line in lines(out, "epoch 0 step")]


def test_both_launchers_train_on_the_same_batches(run: Run, data: Path) -> None:
    """By torchrun, by ours, and by ours with an engine beside each rank."""
    by = {
        "torchrun": run("torchrun", TRAIN, "--data", data, "--epochs", 1, *SMALL),
        "launch": run("launch", TRAIN, "--data", data, "--epochs", 1, *SMALL),
        "companion": run("launch", "--companion", TRAIN, "--data", data, "--epochs", 1, *SMALL),
    }
    assert len({digest(out) for out in by.values()}) == 1
    assert len({lines(out, "plan ")[0] for out in by.values()}) == 1
    for out in by.values():
        # The sum of floats may come in another order, the batches may not.
        assert losses(out) == pytest.approx(losses(by["torchrun"]), abs=2e-4)


def test_a_checkpoint_goes_on_with_another_number_of_ranks(run: Run, data: Path, tmp_path: Path) -> None:
    """Two ranks under torchrun stop within an epoch, three under ours finish it."""
    whole = run("launch", TRAIN, "--data", data, "--epochs", 1, *SMALL, ranks=1)
    checkpoint = tmp_path / "checkpoint.pt"
    stopped = run("torchrun", TRAIN, "--data", data, *SMALL, "--stop-after", 3, "--checkpoint", checkpoint)
    assert lines(stopped, "stopped in epoch 0 with 24 of 50 samples done")
    resumed = run("launch", TRAIN, "--data", data, *SMALL, "--epochs", 1, "--resume", checkpoint, ranks=3)
    assert digest(resumed) == digest(whole)
    assert losses(stopped) + losses(resumed) == pytest.approx(losses(whole), abs=2e-4)
    assert "26 samples here, no two alike: True" in resumed


DUMP = """
import json, os, sys
mine = {k: v for k, v in os.environ.items() if k.startswith(tuple(sys.argv[2].split(",")))}
json.dump(mine, open(f"{sys.argv[1]}/{os.environ['RANK']}.json", "w"))
"""

# These are made up for each run.
PER_RUN = {"MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"}
# These differ on purpose (docs/launch.md): rank 0 makes the store, since the launcher has
# none, and a job of one node is a static one where torchrun takes it as --standalone.
INTENDED = {"TORCHELASTIC_USE_AGENT_STORE": ("True", "False"), "MASTER_ADDR": ("localhost", "127.0.0.1")}


def test_environments_are_the_same(run: Run, tmp_path: Path) -> None:
    """What a worker finds under ours is what it finds under torchrun, beside HEADRACE_ variables."""
    script = tmp_path / "dump.py"
    script.write_text(DUMP)
    prefixes = "RANK,WORLD_SIZE,LOCAL_,GROUP_,ROLE_,MASTER_,TORCHELASTIC,TORCH_,PET_,OMP_,NCCL_,HEADRACE_"
    found: dict[str, list[dict[str, str]]] = {}
    for launcher in LAUNCHERS:
        folder = tmp_path / launcher
        folder.mkdir()
        run(launcher, "--max-restarts=2", script, folder, prefixes, ranks=3)
        found[launcher] = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(3)]
    for theirs, ours in zip(found["torchrun"], found["launch"], strict=True):
        ours = {k: v for k, v in ours.items() if not k.startswith("HEADRACE_")}
        assert set(ours) == set(theirs)
        differ = {k: (theirs[k], ours[k]) for k in ours if ours[k] != theirs[k]}
        assert {k: v for k, v in differ.items() if k not in PER_RUN} == INTENDED


UNEQUAL = """
import os, sys
import torch.distributed as dist
import headrace as hr

if sys.argv[2] == "group":
    dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
crops = hr.random_crops(f"{sys.argv[1]}/image.zarr", (8, 16, 16), 40)
with hr.Loader(crops, batch_size=4, seed=rank // 2, device="cpu") as loader:
    try:
        next(loader)
    except hr.ConfigError as e:
        sys.stdout.write(f"refused: {e}\\n")  # one write: the ranks share the console
"""


@pytest.mark.parametrize(("launcher", "way"), [("torchrun", "group"), ("launch", "agent")])
def test_a_rank_with_another_plan_is_named(run: Run, data: Path, tmp_path: Path, launcher: str, way: str) -> None:
    """Over torch's process group under torchrun, over the launcher's socket under ours: on every rank."""
    script = tmp_path / "unequal.py"
    script.write_text(UNEQUAL)
    out = run(launcher, script, data, way, ranks=3)
    said = lines(out, "refused:")
    assert len(said) == 3
    for line in said:
        assert "ranks 0 and 2 differ in seed: 0 and 1" in line


SPAWNED = """
import sys
import torch.distributed as dist
import torch.multiprocessing as mp
import headrace as hr

def work(rank, path, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    with hr.Loader(hr.random_crops(path, (8, 16, 16), 40), batch_size=4, device="cpu") as loader:
        assert (loader.rank, loader.world_size) == (rank, 2)
        ids = [i for b in loader for i in b.ids]
        everyone = [None, None]
        dist.all_gather_object(everyone, ids)
        if rank == 0:
            print("each sample once:", sorted(sum(everyone, [])) == [*range(40)], flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, (f"{sys.argv[1]}/image.zarr", sys.argv[2]), nprocs=2)
"""


def test_ranks_of_spawn_are_those_of_the_group(data: Path, tmp_path: Path) -> None:
    """Processes that no launcher started have their rank from init_process_group alone."""
    script = tmp_path / "spawned.py"
    script.write_text(SPAWNED)
    command = [sys.executable, "-P", str(script), str(data), str(tmp_path / "store")]
    out = subprocess.run(command, env=environment(), text=True, capture_output=True, timeout=120)
    assert "each sample once: True" in out.stdout, out.stdout + out.stderr
