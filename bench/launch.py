"""How soon eight workers run: headrace launch beside torchrun and beside a shell loop.

    launch.py [--headrace bin/headrace] [--torchrun torchrun] [--workers 8] [--repeats 5]

Each launcher starts the same small program, which writes one line into a pipe of this
script and stays. Measured is the time from the call to the last line, and
from SIGTERM to the launcher's end; the shortest of the repeats counts. torchrun is
left out, with a line that says so, where it is not installed. Prints JSON.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORKER = 'exec 3<>"$RENDEZVOUS"; echo up >&3; exec sleep 1000'


def launch(command: list[str], fifo: str, workers: int) -> tuple[float, float]:
    """Seconds until all workers run, and until all are gone after SIGTERM."""
    env = {**os.environ, "RENDEZVOUS": fifo, "OMP_NUM_THREADS": "1"}
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    keep = os.open(fifo, os.O_WRONLY)
    os.set_blocking(reader, True)
    try:
        began = time.perf_counter()
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            up = 0
            while up < workers:
                up += os.read(reader, 1 << 12).count(b"\n")
            running = time.perf_counter()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
        return running - began, time.perf_counter() - running
    finally:
        os.close(keep)
        os.close(reader)


def shell(workers: int) -> list[str]:
    """The same programs started by hand, and ended by the shell's own trap."""
    loop = f"for i in $(seq {workers}); do sh -c '{WORKER}' & pids=\"$pids $!\"; done"
    return ["/bin/sh", "-c", f"trap 'kill $pids; exit' TERM; {loop}; wait"]


def free_port() -> str:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--headrace", default=str(Path(__file__).parents[1] / "bin" / "headrace"))
    parser.add_argument("--torchrun", default="torchrun")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()

    program = ["--nproc-per-node", str(args.workers), "--no-python", "/bin/sh", "-c", WORKER]
    launchers = {
        "by_hand": lambda: shell(args.workers),
        "headrace": lambda: [args.headrace, "launch", *program],
    }
    if shutil.which(args.torchrun):
        launchers["torchrun"] = lambda: [args.torchrun, "--master-port", free_port(), *program]
    else:
        print(f"{args.torchrun} is not installed: only headrace is measured", file=sys.stderr)

    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        fifo = f"{folder}/up"
        os.mkfifo(fifo)
        for name, command in launchers.items():
            runs = [launch(command(), fifo, args.workers) for _ in range(args.repeats)]
            figures[name] = {"start_s": round(min(r[0] for r in runs), 4), "stop_s": round(min(r[1] for r in runs), 4)}
    ours = figures["headrace"]
    result = {"workers": args.workers, "cpus": os.cpu_count(), "repeats": args.repeats, "launchers": figures}
    result["above_by_hand_s"] = round(ours["start_s"] - figures["by_hand"]["start_s"], 4)
    if "torchrun" in figures:
        result["torchrun_over_headrace"] = round(figures["torchrun"]["start_s"] / ours["start_s"], 1)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
