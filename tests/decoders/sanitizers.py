"""What compute-sanitizer may find in the kernels: what is listed here, with the reason why it is right, and nothing else.

What a reason says of bytes that are read and not used is proven elsewhere: the host build for races (cuda/kernels/races.h)
reads no other bytes than are used, and the campaign decodes with the work memory filled in two ways.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    tool: str
    kind: str  # in the first line of a finding
    function: str  # of one of its first frames, and the file of that
    file: str
    reason: str


WORDS = (
    "Output is read by whole words that hold a wanted byte. Where it does not begin at a multiple of four, the first word "
    "has bytes of the stream before, which another warp may not have written yet; they are not used."
)
KNOWN = (
    Known("initcheck", "Uninitialized __global__ memory read of size 4", "Memory::word", "zstd_history.h", WORDS),
    Known("initcheck", "Uninitialized __global__ memory read of size 4", "Batch::fetch", "sequences.h", WORDS),
)
BEGIN = re.compile(r"^========= (?:Error|Warning|Uninitialized|Invalid|Race|Potential|Program hit|Fatal|Leaked|Unused|Barrier)")


def findings(text: str) -> list[str]:
    """A finding is its first line and those behind it, to an empty one."""
    found: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if BEGIN.match(line):
            found.append([])
            inside = True
        inside = inside and line.removeprefix("=========").strip() != ""
        if inside:
            found[-1].append(line)
    return ["\n".join(lines) for lines in found]


def known(tool: str, finding: str) -> Known | None:
    head, *lines = finding.splitlines()
    near = lines[:6]  # where it is, the thread, the address, and the first frames
    for k in KNOWN:
        if k.tool == tool and k.kind in head and any(k.function in line and f" in {k.file}:" in line for line in near):
            return k
    return None


def unknown(tool: str, text: str) -> list[str]:
    """The findings that have no reason. A summary must stand at the end, which counts as many as there are."""
    all_of_them = findings(text)
    wrong = [finding for finding in all_of_them if not known(tool, finding)]
    summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", text)
    if not summary or int(summary[-1]) != len(all_of_them):
        wrong.append(f"the summary says {summary}, {len(all_of_them)} are printed\n" + "\n".join(text.splitlines()[-20:]))
    return wrong
