"""runner.cc: how it is compiled, fed and read."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXPECTED = ("decoded", "refused", "either", "host")  # as Expect of corpus.h


def sequences_shared() -> str:
    """What decoders.h is to know of a launch, as the Go side knows it."""
    text = (ROOT / "cuda" / "kernels" / "zstd.go").read_text()
    return "-DZSTD_SEQUENCES_SHARED=" + re.findall(r"^const ZstdSequencesShared = (\d+)", text, re.M)[0]


# The host builds have the sanitizers that the tests of cuda/kernels give them.
COMMANDS = {
    "gpu": ["nvcc", "-O2"],
    "thread": ["g++", "-DON_HOST", "-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "fibers": ["g++", "-DON_HOST", "-O1", "-g1", "-fsanitize=address", "-DHR_FIBERS"],
}


def build(kind: str, folder: Path) -> Path:
    out = folder / f"runner-{kind}"
    last = ["-lcuda"] if kind == "gpu" else ["-ffp-contract=off", "-pthread"]
    command = [*COMMANDS[kind], "-std=c++17", sequences_shared(), str(HERE / "runner.cc"), "-o", str(out), *last]
    subprocess.run(command, check=True)
    return out


@dataclass
class Tally:
    """What came of chunks. labels: for each group, by what was expected, how many were OK, corrupt, unsupported."""

    chunks: int = 0
    skipped: int = 0
    decoded_bytes: int = 0
    kernel_seconds: float = 0.0
    digest: int = 0
    labels: dict[str, list[list[int]]] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, answer: dict) -> None:
        self.chunks += answer["chunks"]
        self.skipped += answer["skipped"]
        self.decoded_bytes += answer["decoded_bytes"]
        self.kernel_seconds += answer["kernel_seconds"]
        self.digest = (self.digest * 31 + answer["digest"]) % (1 << 64)
        self.failures.update(answer["failures"])
        for label, rows in answer["labels"].items():
            mine = self.labels.setdefault(label, [[0] * 3 for _ in EXPECTED])
            for row, more in zip(mine, rows, strict=True):
                row[:] = [a + b for a, b in zip(row, more, strict=True)]

    def report(self) -> dict:
        return {
            "chunks": self.chunks,
            "skipped": self.skipped,
            "decoded_bytes": self.decoded_bytes,
            "kernel_seconds": round(self.kernel_seconds, 3),
            "labels, as OK, corrupt, unsupported": {
                label: {name: row for name, row in zip(EXPECTED, rows, strict=True) if any(row)}
                for label, rows in sorted(self.labels.items())
            },
            "failures": dict(self.failures),
        }

    def shares(self) -> dict:
        """Of damaged chunks: what the reference decodes, and what the kernels leave to the host."""
        table = {}
        for label, (_, refused, accepted, _) in sorted(self.labels.items()):
            n, left = sum(accepted) + sum(refused), accepted[2] + refused[2]
            table[label] = {
                "chunks": n,
                "reference decodes": sum(accepted),
                "both decode": accepted[0],
                "both refuse": refused[1],
                "left to the host": left,
                "left to the host, %": round(100 * left / max(n, 1), 2),
            }
        return table


class Runner:
    """The program as it runs. It answers for the files that are fed to it in their order; then they may be removed."""

    def __init__(self, command: list[str], remove: bool = False, tally: Tally | None = None) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self.tally, self.problem, self.errors, self.remove = tally or Tally(), "", "", remove
        self.fed: list[Path] = []
        self.answered = 0
        self.about = json.loads(self.process.stdout.readline() or '{"device": "none: the runner did not start"}')
        self.threads = [threading.Thread(target=self.listen), threading.Thread(target=self.hear)]
        for thread in self.threads:
            thread.start()

    def listen(self) -> None:
        for line in self.process.stdout:
            answer = json.loads(line)
            if "endless" in answer or "died" in answer:
                how, n = next(iter(answer.items()))
                self.problem = f"{how}: a launch of {n} chunks. "
                return
            self.tally.add(answer)
            self.answered += 1
            if self.remove:
                os.unlink(answer["file"])

    def hear(self) -> None:
        self.errors = self.process.stderr.read()

    def feed(self, path: Path) -> bool:
        """False if the program is gone."""
        self.fed.append(path)
        try:
            self.process.stdin.write(f"{path}\n")
            self.process.stdin.flush()
            return True
        except BrokenPipeError:
            return False

    def left(self) -> list[Path]:
        """Of a program that has ended before its time: the files behind the one that it ended with."""
        return self.fed[self.answered + 1 :]

    def finish(self) -> str:
        """What went wrong with the program itself; empty if nothing did."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        for thread in self.threads:
            thread.join()
        code = self.process.wait()
        if code:
            self.problem += f"the runner ended with {code}: {self.errors[-3000:]}"
        return self.problem
