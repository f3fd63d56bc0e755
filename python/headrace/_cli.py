"""The `headrace` command: the program that the package carries."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "_bin" / "headrace"


def main() -> None:
    """Becomes the program, so that signals and the exit code are its own."""
    if not PROGRAM.is_file():
        sys.exit(f"headrace: {PROGRAM} is missing: reinstall headrace from its wheel")
    if sys.stdout is None:
        # Closed. The program's runtime would put /dev/null in its place and what it
        # prints would be lost without an error; to this one it cannot write.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 1)
        os.set_inheritable(1, True)
    os.execv(PROGRAM, [str(PROGRAM), *sys.argv[1:]])
