"""The runner decodes by every kernel that the engine decodes by."""

from __future__ import annotations

import re

from runner import HERE, ROOT


def test_all_kernels_of_zstd_are_launched() -> None:
    text = (ROOT / "cuda" / "kernels" / "zstd.go").read_text()
    kernels = set(re.findall(r'"(hr_zstd_\w+)"', text))
    assert len(kernels) >= 9
    launched = set(re.findall(r'launch\("(\w+)"', (HERE / "decoders.h").read_text()))
    assert kernels <= launched
