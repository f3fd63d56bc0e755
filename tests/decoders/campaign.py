"""The campaign of the GPU decoders: what encoders write they decode, what is damaged they refuse as the libraries do,
and nothing else is written.

    campaign.py gpu                  on the first GPU, by cuda/kernels/kernels.ptx; then some of it under compute-sanitizer
    campaign.py host [--fibers]      on this processor, by the host build of the kernels, under sanitizers
    campaign.py writers FILE         chunks by the encoders of Go, and out of arrays, for a machine that has neither
    campaign.py again FILE           the chunks of a file on this processor, one by one: what failed elsewhere

It prints a summary as JSON; exit 0 if nothing failed. The summary, and chunks that failed, are kept in a folder.
Needs Python with numpy, numcodecs and zstandard; g++, or nvcc where the GPU is; for writers, Go and zarr-python,
tensorstore and zarrs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import Pool
from pathlib import Path

import damage
import frames
import modes
import reasons
import record
import sanitizers
from record import Method, Record
from runner import ROOT, Runner, Tally, build

SANITIZERS = ("memcheck", "racecheck", "initcheck")
DEATHS = 6  # of the program, before a part of the campaign is given up
# Differences to the reference that may have a reason.
EXPLAINED = {
    "corrupt, the reference decodes it": reasons.explain,
    "decoded, the reference refuses it": reasons.lenient,
}


def say(*words: object) -> None:
    print("==", *words, file=sys.stderr, flush=True)


@dataclass
class Campaign:
    args: argparse.Namespace
    folder: Path
    summary: dict = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def command(self, program: Path, kept: str, *more: str) -> list[str]:
        return [str(program), str(self.args.image), str(self.args.keep / kept), *more]

    def save(self) -> str:
        """Also between the parts: of a run that is cut off, what was done is told."""
        text = json.dumps(self.summary | {"seed": self.args.seed, "problems": self.problems}, indent=1)
        (self.args.keep / "summary.json").write_text(text + "\n")
        return text

    def run(self, name: str, command: list[str], files: Callable[[], Iterable[Path]], remove: bool) -> Tally:
        """Decodes files. What is behind a chunk that ends the program goes to another one: it is to be known too."""
        began, tally, left, deaths = time.monotonic(), Tally(), iter(files()), 0
        while True:
            runner = Runner(command, remove, tally)
            for path in left:
                if not runner.feed(path):
                    break
            problem = runner.finish()
            self.summary["device"] = runner.about
            if not problem:
                break
            deaths += 1
            self.problems.append(f"{name}: {problem}")
            kept = Path(command[2])
            if kept.exists():
                kept.replace(kept.with_suffix(f".{deaths}.corpus"))
            if deaths == DEATHS:
                self.problems.append(f"{name}: given up, {len(runner.left()) + sum(1 for _ in left)} files are not decoded")
                break
            left = itertools.chain(runner.left(), left)
        self.summary[name] = {"seconds": round(time.monotonic() - began, 1), **tally.report()}
        say(name, f"{tally.chunks} chunks, {self.summary[name]['seconds']} s,", dict(tally.failures), f"{deaths} deaths")
        return tally

    def frames(self, program: Path, *more: str) -> list[Path]:
        """Makes the corpus, and decodes it while it is made."""
        folder, paths, reached = self.folder / "frames", [], Counter[str]()

        def files() -> Iterator[Path]:
            for path, seen in frames.make(folder, self.args.most, self.args.every, self.args.processes):
                reached.update(seen)
                paths.append(path)
                yield path
            if self.args.writers:
                reached.update(frames.reached(record.read(self.args.writers)))
                paths.append(self.args.writers)
                yield self.args.writers

        tally = self.run("frames", self.command(program, "frames.corpus", *more), files, remove=False)
        self.problems += [f"frames: {n} x {kind}" for kind, n in tally.failures.items()]
        self.summary["frames"]["bytes"] = sum(path.stat().st_size for path in paths)
        self.summary["modes"] = dict(sorted(reached.items()))
        missing = modes.missing(reached)
        if missing and self.args.every == 1:
            self.problems.append(f"modes that no chunk has: {', '.join(missing)}")
        return paths

    def damage(self, program: Path, paths: list[Path], *more: str) -> None:
        seeds, count = self.folder / "seeds", self.args.damaged
        record.write(seeds, damage.seeds(paths, random.Random(self.args.seed), 1500))
        each = max(min(count // (2 * self.args.processes), 20_000), 1)

        def files() -> Iterator[Path]:
            jobs = [(self.args.seed, number, each, seeds, self.folder) for number in range(-(-count // each))]
            with Pool(self.args.processes) as pool:
                yield from pool.imap_unordered(damage.some, jobs, 1)

        tally = self.run("damage", self.command(program, "damage.corpus", *more), files, remove=True)
        self.summary["damage"]["shares"] = tally.shares()
        self.problems += [f"damage: {n} x {kind}" for kind, n in tally.failures.items() if kind not in EXPLAINED]
        found: Counter[str] = Counter()
        for kept in self.args.keep.glob("damage*.corpus"):
            found.update(self.explain(kept))
        self.summary["damage"]["reasons"] = dict(found)

    def explain(self, kept: Path) -> dict[str, int]:
        """Where kernels and reference differ, each chunk must have a reason that reasons.py knows."""
        found: Counter[str] = Counter()
        for one in record.read(kept):
            kind = one.label.split(": ")[0]
            if kind in EXPLAINED:
                found[EXPLAINED[kind](one) or f"not known: {kind}"] += 1
        unknown = sum(n for why, n in found.items() if why.startswith("not known"))
        if unknown:
            self.problems.append(f"of {unknown} chunks it is not known why kernels and reference differ, see {kept}")
        return dict(found)

    def sample(self, paths: list[Path], each: int) -> tuple[Path, int]:
        """Chunks of each method, some of them long, and each of them damaged in two ways."""
        r = random.Random(self.args.seed + 1)
        whole = damage.seeds(paths, r, each)
        by_method: dict[Method, list[Record]] = {}
        for one in whole:
            by_method.setdefault(one.method, []).append(one)
        broken = [damage.damaged(r, one, r.choice(by_method[one.method])) for one in whole * 2]
        path = self.folder / "sample"
        return path, record.write(path, [*whole, *broken])

    def fill(self, program: Path, paths: list[Path], *more: str) -> None:
        """What the work memory holds before decides nothing."""
        path, _ = self.sample(paths, 8 * self.args.sample)
        digests = {}
        for byte in (0x00, 0xFF):
            name = f"work memory of {byte:#04x}"
            command = self.command(program, f"fill{byte:02x}.corpus", *more, f"fill={byte}")
            tally = self.run(name, command, lambda: [path], remove=False)
            digests[name] = tally.digest
            self.problems += [f"{name}: {n} x {kind}" for kind, n in tally.failures.items() if kind not in EXPLAINED]
        if len(set(digests.values())) > 1:
            self.problems.append(f"what comes of chunks depends on what the work memory held: {digests}")

    def sanitize(self, program: Path, paths: list[Path]) -> None:
        """Each chunk in memory of its own, so that a byte too much shows."""
        path, n = self.sample(paths, self.args.sample)
        for tool in SANITIZERS:
            began = time.monotonic()
            command = ["compute-sanitizer", "--tool", tool, "--print-limit", "1000"]
            command += self.command(program, f"{tool}.corpus", "apart", "cap=600")
            command[command.index(str(self.args.image))] = str(self.args.sanitizer_image or self.args.image)
            try:
                done = subprocess.run(
                    command, input=f"{path}\n", capture_output=True, text=True, timeout=self.args.sanitizer_cap, check=False
                )
                said, code = done.stdout + done.stderr, done.returncode
            except subprocess.TimeoutExpired:
                said, code = f"it took more than {self.args.sanitizer_cap} s", -1
            found = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", said)
            self.summary[tool] = {"chunks": n, "seconds": round(time.monotonic() - began, 1), "found": found}
            say(tool, self.summary[tool])
            (self.args.keep / f"{tool}.txt").write_text(said)
            wrong = sanitizers.unknown(tool, said)
            if code or wrong:
                self.problems.append(f"{tool}: exit {code}, {found}\n" + "\n".join(wrong)[:3000])
            self.save()


def campaign(args: argparse.Namespace) -> int:
    began = time.monotonic()
    for old in (*args.keep.glob("*.corpus"), *args.keep.glob("*.txt")):
        old.unlink()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="campaign") as name:
        c = Campaign(args, Path(name))
        gpu = args.what == "gpu"
        more = () if gpu else ("apart",)
        program = build("gpu" if gpu else "fibers" if args.fibers else "thread", c.folder)
        paths = c.frames(program, *more)
        c.save()
        c.damage(program, paths, *more)
        c.save()
        if args.sample:
            c.fill(program, paths, *more)
            c.save()
        if gpu and args.sample and shutil.which("compute-sanitizer"):
            c.sanitize(program, paths)
    c.summary["seconds"] = round(time.monotonic() - began, 1)
    print(c.save())
    say(f"{len(c.problems)} problems, see {args.keep}")
    return 1 if c.problems else 0


def writers(args: argparse.Namespace) -> int:
    import write_arrays
    import write_go

    made = [frames.checked(one) for one in (*write_go.made(args.go), *write_arrays.made())]
    say(f"{record.write(args.file, made)} chunks, {args.file.stat().st_size} bytes")
    return 0


def again(args: argparse.Namespace) -> int:
    """Each chunk alone, so that a sanitizer's report is of that one."""
    program, single = build("fibers" if args.fibers else "thread", args.keep), args.keep / "single"
    for i, one in enumerate(record.read(args.file)):
        record.write(single, [one])
        runner = Runner([str(program), "-", str(args.keep / "single.kept"), "apart"])
        runner.feed(single)
        problem = runner.finish()
        why = reasons.explain(one) or reasons.lenient(one) or ""
        print(i, one.label, f"{len(one.encoded)} bytes to {one.decoded},", dict(runner.tally.failures), problem, why)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("gpu", "host", "writers", "again"))
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--image", type=Path, default=ROOT / "cuda" / "kernels" / "kernels.ptx")
    parser.add_argument(
        "--keep", type=Path, default=ROOT / "build" / "decoders", help="folder of the summary and of what failed"
    )
    parser.add_argument("--writers", type=Path, help="what campaign.py writers made")
    parser.add_argument("--go", default="go")
    parser.add_argument("--fibers", action="store_true", help="the host build with all threads of a block")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=64 << 20, help="bytes that a chunk decodes to, at most")
    parser.add_argument("--every", type=int, default=1, help="make one of so many chunks of the corpus")
    parser.add_argument("--damaged", type=int, default=1_000_000, help="number of damaged chunks")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--sample", type=int, default=50, help="chunks of each method for compute-sanitizer; 0: none")
    parser.add_argument("--sanitizer-image", type=Path, help="the image that they see: one with line numbers")
    parser.add_argument("--sanitizer-cap", type=float, default=300, help="seconds")
    args = parser.parse_args()
    if args.what in ("writers", "again") and not args.file:
        parser.error(f"{args.what} needs a file")
    args.keep.mkdir(parents=True, exist_ok=True)
    return {"writers": writers, "again": again}.get(args.what, campaign)(args)


if __name__ == "__main__":
    sys.exit(main())
