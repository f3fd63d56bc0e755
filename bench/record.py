"""How a measurement on a GPU is kept: a file in bench/results that says where it comes from."""

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any


def machine() -> dict:
    query = [
        "nvidia-smi",
        "--query-gpu=name,driver_version,pcie.link.gen.current,pcie.link.width.current",
        "--format=csv,noheader",
    ]
    gpu = subprocess.run(query, capture_output=True, text=True).stdout.strip() if shutil.which(query[0]) else "none"
    return {"gpu": gpu, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}


def save(kind: str, options: argparse.Namespace, rows: list[dict], began: datetime.datetime | None = None, **more: Any) -> None:
    """Writes rows with the command, its commit and the machine into the folder of --out. The file is named by the time,
    or by when the run began: who saves more than once gives that."""
    now = began or datetime.datetime.now(datetime.timezone.utc)
    record = {
        "command": " ".join([f"bench/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "commit": options.commit,
        "date": now.isoformat(timespec="seconds"),
        "machine": machine(),
        **more,
        "rows": rows,
    }
    (Path(options.out) / f"{kind}-{now:%Y%m%d-%H%M%S}.json").write_text(json.dumps(record, indent=1) + "\n")
