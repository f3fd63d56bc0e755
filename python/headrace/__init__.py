"""headrace streams crops of large nD arrays (zarr v2 and v3) into batches.

A loader for training:

    import headrace as hr

    crops = hr.random_crops({"image": "a.zarr/0", "mask": "labels.zarr/0"}, shape=(64, 128, 128), count=100_000)
    with hr.Loader(crops, batch_size=8, dtype={"image": "bf16", "mask": "u8"}) as loader:
        for batch in loader:
            x = batch["image"].torch()  # no copy

`Pipeline` is the low-level form, `open` reads single crops as numpy does.

`Config` describes every setting, with its unit and default, and `Dtype` how values
are converted: integers saturate, floats are truncated to integers and NaN becomes 0,
floats round half to even, and bf16 goes through f32.

Importing headrace loads no shared library: that happens on first use. From then
on the engine belongs to the process; a child that is forked later gets a `Forked`
error from every call.

Where there is an NVIDIA GPU, batches are made on that of the local rank, and stay there:
`torch()`, `cupy()` and `jax()` give views of its memory, `numpy()` a copy. A view may be
used and dropped like any tensor: the memory is written again only after the kernels that
were given it. `device="cpu"` makes the same batches on the host.

Where the environment variable HEADRACE_ENGINE names the socket of a running
`headrace engine`, that process does the work and no Go runtime is loaded here. All
classes are the same; `EngineLost` says that it went away.
"""

from __future__ import annotations

from ._array import Array, open
from ._batch import Batch, SampleError
from ._config import Config
from ._dtype import Dtype
from ._errors import (
    IO,
    Budget,
    Bug,
    Cancelled,
    Closed,
    ConfigError,
    Corrupt,
    Device,
    EngineLost,
    Forked,
    HeadraceError,
    JobWaiting,
    NotFound,
    PoolStarved,
    Shape,
    Unsupported,
    ViewChanged,
    Void,
)
from ._loader import Loader, View
from ._pipeline import Pipeline
from ._report import Report, merge_reports
from ._sample import Sample
from ._source import Crops, crop_list, grid_crops, mix, random_crops, weighted
from ._tensor import Tensor
from ._torch import TorchBatch
from ._version import __version__

__all__ = [
    "IO",
    "Array",
    "Batch",
    "Budget",
    "Bug",
    "Cancelled",
    "Closed",
    "Config",
    "ConfigError",
    "Corrupt",
    "Crops",
    "Device",
    "Dtype",
    "EngineLost",
    "Forked",
    "HeadraceError",
    "JobWaiting",
    "Loader",
    "NotFound",
    "Pipeline",
    "PoolStarved",
    "Report",
    "Sample",
    "SampleError",
    "Shape",
    "Tensor",
    "TorchBatch",
    "Unsupported",
    "View",
    "ViewChanged",
    "Void",
    "__version__",
    "crop_list",
    "grid_crops",
    "merge_reports",
    "mix",
    "open",
    "random_crops",
    "weighted",
]
