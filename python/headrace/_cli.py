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
    os.execv(PROGRAM, [str(PROGRAM), *sys.argv[1:]])
