"""Element types, values and fill values of the generated arrays.

An element type is named as zarr v3 names it; ``numpy_dtype`` is its form in
memory, always little-endian, and ``typestr`` its v2 spelling.
"""

import math

import ml_dtypes
import numpy as np

V2_LETTERS = {
    "bool": "b1",
    "int8": "i1",
    "int16": "i2",
    "int32": "i4",
    "int64": "i8",
    "uint8": "u1",
    "uint16": "u2",
    "uint32": "u4",
    "uint64": "u8",
    "float16": "f2",
    "float32": "f4",
    "float64": "f8",
    "complex64": "c8",
    "complex128": "c16",
    "datetime64": "M8[ms]",
    "timedelta64": "m8[s]",
}
V2_DTYPES = list(V2_LETTERS)
V3_DTYPES = [*V2_DTYPES, "bfloat16"]
INTEGERS = [d for d in V3_DTYPES if d.startswith(("int", "uint"))]
FLOATS = ["float16", "float32", "float64"]


def numpy_dtype(name: str) -> np.dtype:
    if name == "bfloat16":
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype("<" + V2_LETTERS[name])


def typestr(name: str, big: bool) -> str:
    letters = V2_LETTERS[name]
    if letters in ("b1", "i1", "u1"):
        return "|" + letters
    return (">" if big else "<") + letters


def v3_data_type(name: str) -> object:
    if name == "datetime64":
        return {"name": "numpy.datetime64", "configuration": {"unit": "ms", "scale_factor": 1}}
    if name == "timedelta64":
        return {"name": "numpy.timedelta64", "configuration": {"unit": "s", "scale_factor": 1}}
    return name


def values(kind: str, name: str, shape: list[int], rng: np.random.Generator, fill: np.ndarray) -> np.ndarray:
    """Values of one kind: noise does not compress, steps and smooth do, sparse leaves chunks out."""
    dtype = numpy_dtype(name)
    count = math.prod(shape)
    if kind == "sparse":
        array = np.broadcast_to(fill, shape).copy()
        box = tuple(slice(n // 3, n // 3 + max(1, n // 4)) for n in shape)
        array[box] = values("noise", name, list(array[box].shape), rng, fill)
        return array
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if kind == "noise":
        flat = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype)
    elif kind == "smooth":
        flat = whole_numbers(np.arange(count) // 3 % 100, dtype)
    else:
        flat = whole_numbers(rng.integers(0, 4, count) * 17, dtype)
    return flat.reshape(shape).copy()


def whole_numbers(numbers: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype.kind in "mM":
        return numbers.astype(np.int64).view(dtype)
    return numbers.astype(dtype)


def fills(name: str, v3: bool) -> list[tuple[object, object]]:
    """Fill values as (JSON form, value). Both libraries that write must accept the form."""
    if name == "bool":
        return [(False, False), (True, True)]
    if name in INTEGERS:
        info = np.iinfo(name)
        return [(n, n) for n in (0, int(info.max), int(info.min), 7)]
    if name == "complex64" or name == "complex128":
        return [([0.0, 0.0], 0), ([1.5, -2.25], 1.5 - 2.25j), (["NaN", "Infinity"], complex(math.nan, math.inf))]
    if name in ("datetime64", "timedelta64"):
        nat = np.iinfo(np.int64).min
        return [(0, 0), (86_400, 86_400), ("NaT", nat)]
    numbers: list[tuple[object, object]] = [
        (0.0, 0.0),
        ("NaN", math.nan),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        (1.5, 1.5),
        (-0.0, -0.0),
    ]
    if v3 and name == "float16":
        numbers.append((2.0**-24, 2.0**-24))  # the smallest subnormal
    if v3 and name == "float32":
        numbers.append(("0x7fc00000", math.nan))
    return numbers


def fill_array(name: str, value: object) -> np.ndarray:
    dtype = numpy_dtype(name)
    if dtype.kind in "mM":
        return np.array(value, np.int64).view(dtype)
    return np.array(value).astype(dtype)
