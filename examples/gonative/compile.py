"""Compile mean.cu to mean.ptx with NVRTC 12.2: compile.py NVRTC_VENV (`make kernels` does it).

The environment holds NVIDIA's wheel. No GPU and no CUDA toolkit is needed.
"""

import ctypes
import hashlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OPTIONS = (b"--gpu-architecture=compute_80", b"--std=c++17", b"--fmad=false")


def compile_ptx(venv: str, source: bytes) -> str:
    (library,) = Path(venv).glob("lib/python3*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
    nvrtc = ctypes.CDLL(str(library))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"mean.cu", 0, None, None)
    failed = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), (ctypes.c_char_p * len(OPTIONS))(*OPTIONS))
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if failed:
        sys.exit(f"nvrtc: {failed}\n{log.value.decode()}")
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.value.decode()


def main() -> None:
    source = (HERE / "mean.cu").read_bytes()
    lines = [line for line in compile_ptx(sys.argv[1], source).splitlines() if line and not line.startswith("//")]
    digest = hashlib.sha256(source).hexdigest()
    (HERE / "mean.ptx").write_text(f"// source: sha256 {digest}\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
