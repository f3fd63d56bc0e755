"""Reports of epochs, and their sum."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

from ._check import integer, shown
from ._errors import ConfigError

Report: TypeAlias = "dict[str, Any]"
"""What a loader returned of an epoch; see Loader.report."""

_COUNTS = ("delivered", "skipped", "filled", "count", "data_count")
_DIGESTS = ("digest", "data_digest")


def merge_reports(reports: Iterable[Mapping[str, Any]]) -> Report:
    """The sum of reports of one epoch: of several ranks, or of the runs before and after a checkpoint.

    Ranks that got the samples of another one (`replicas`) count once. Raises ConfigError
    for reports of different epochs, for none, and for what `Loader.report` did not return.

    >>> empty = {"epoch": 0, "of": 2, "replica": 0, "delivered": 1, "skipped": 0, "filled": 0, "count": 1, "data_count": 0}
    >>> part = empty | {"digest": "0" * 31 + "7", "data_digest": "0" * 32}
    >>> whole = merge_reports([part, part | {"digest": "f" * 32}])
    >>> whole["count"], whole["digest"]
    (2, 'ffffffffffffffff0000000000000006')
    """
    parts = [_checked(r) for r in reports]
    if not parts:
        raise ConfigError("there is no report to merge")
    total: Report = {"epoch": parts[0]["epoch"], "of": parts[0]["of"], "replica": 0}
    for part in parts:
        if (part["epoch"], part["of"]) != (total["epoch"], total["of"]):
            raise ConfigError(
                f"reports of epoch {total['epoch']} with {total['of']} positions and of epoch {part['epoch']} "
                f"with {part['of']} do not add up"
            )
    firsts = [p for p in parts if p["replica"] == 0]
    total |= {name: sum(p[name] for p in firsts) for name in _COUNTS}
    return total | {name: _sum(p[name] for p in firsts) for name in _DIGESTS}


def _checked(report: Any) -> Report:
    """The report, if it is one: a rank whose report was lost or edited must not pass for exact."""
    if not isinstance(report, Mapping):
        raise ConfigError(f"a report is {shown(report)}: report() returns them")
    part = dict(cast("Mapping[str, Any]", report))
    for name in ("epoch", "of", "replica", *_COUNTS):
        part[name] = integer(f"{name} of a report", part.get(name), 0)
    for name in _DIGESTS:
        if not isinstance(part.get(name), str) or re.fullmatch("[0-9a-f]{32}", part[name]) is None:
            raise ConfigError(f"{name} of a report is {shown(part.get(name))}, must be 32 hex digits")
    return part


def _sum(digests: Iterable[str]) -> str:
    """Lane by lane, modulo 2**64."""
    lanes = [0, 0]
    for text in digests:
        lanes = [(lane + int(text[16 * i : 16 * i + 16], 16)) % 2**64 for i, lane in enumerate(lanes)]
    return "".join(f"{lane:016x}" for lane in lanes)
