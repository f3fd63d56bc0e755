"""The runner decodes by every kernel that the engine decodes by."""

from __future__ import annotations

import re

from runner import HERE, ROOT


def test_all_kernels_of_zstd_are_launched() -> None:
    text = (ROOT / "cuda" / "kernels" / "zstd.go").read_text()
    kernels = set(re.findall(r'"(hr_zstd_\w+)"', text))
    assert len(kernels) >= 9
    table = (ROOT / "bench" / "kernels" / "zstd_call.h").read_text()  # which the runner launches from beginning to end
    assert kernels == set(re.findall(r'{"(hr_zstd_\w+)"', table))
    assert "launchZstd(" in (HERE / "decoders.h").read_text()
