"""The bytes of a batch do not depend on how the trainer's thread rounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from conftest import Python
from zarr_writer import write_array

# Sets flush-to-zero and denormals-are-zero on the thread, as torch.set_flush_denormal(True)
# and libraries built with -ffast-math do. 28 is where glibc's fenv_t keeps MXCSR.
FLUSH = """
import ctypes, platform, sys
if platform.machine() != "x86_64":
    sys.exit(3)
libm = ctypes.CDLL("libm.so.6")
env = (ctypes.c_uint8 * 32)()
libm.fegetenv(env)
env[28] |= 0x40
env[29] |= 0x80
libm.fesetenv(env)
"""


def test_subnormals_survive_a_thread_that_flushes_them(tmp_path: Path, python: Python) -> None:
    values = np.array([1e-40, -3e-42, 2e-45, 1.0] * 64)
    path = write_array(tmp_path / "small.zarr", values, (16,))
    script = (
        FLUSH
        + """
import headrace as hr
with hr.Pipeline(hr.Config(shape=(256,), batch_size=1, dtype="f32")) as p:
    p.push([hr.Sample(sys.argv[1], [(0, 256)])])
    sys.stdout.write(p.pop().numpy().tobytes().hex())
libm.fegetenv(env)
assert env[28] & 0x40 and env[29] & 0x80, "the thread's own mode was changed"
"""
    )
    done = python(script, str(path), check=False)
    if done.returncode == 3:
        pytest.skip("the mode is set by an x86-64 register")
    assert done.returncode == 0, done.stderr
    assert done.stdout == values.astype(np.float32).tobytes().hex()
