"""Element types."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np


class Dtype(enum.IntEnum):
    """Element type of a tensor.

    The number in a name counts bits. Wherever a dtype is asked for, its short and
    full names in any case will do, and what numpy and torch have for it: "bf16",
    "BFLOAT16", `Dtype.BF16`, `np.dtype("uint16")`, `np.float32`, `torch.bfloat16`.
    It prints as its short name, and is equal to the number of the type in the
    engine.

    How a value becomes one of another type:

    - with `scale` or `offset` it first becomes `float64(v) * scale + offset`, where
      product and sum are rounded one after the other;
    - integer to integer: saturates, that is, takes the nearest value that the type has;
    - float to integer: truncates towards zero, then saturates; NaN becomes 0;
    - to f32, f64 and f16: is rounded once, half to even; beyond the range is infinity;
    - to bf16: is rounded to f32 first, then to bf16, half to even both times;
    - NaN stays NaN between float types;
    - a bool becomes 0 or 1; nothing else becomes a bool, and a complex type only itself.
    """

    F32 = 0
    BF16 = 1
    U8 = 2
    U16 = 3
    U32 = 4
    U64 = 5
    I8 = 6
    I16 = 7
    I32 = 8
    I64 = 9
    F16 = 10
    F64 = 11
    BOOL = 12
    C64 = 13
    C128 = 14

    @classmethod
    def of(cls, value: object) -> Dtype:
        """The type of a name, a number, a member, or a type of numpy or torch.

        >>> Dtype.of("Float32"), Dtype.of("bf16"), Dtype.of(1)
        (Dtype('f32'), Dtype('bf16'), Dtype('bf16'))

        Raises ValueError for a name or number that is none, TypeError for anything else.
        """
        if isinstance(value, str):
            try:
                return _BY_NAME[value.lower()]
            except KeyError:
                raise ValueError(_unknown(value)) from None
        if isinstance(value, int) and not isinstance(value, bool):
            return cls(value)
        if value is float or value is int or value is complex:
            raise TypeError(f"Python's {value.__name__} does not tell how many bits: {_SIZES[value.__name__]}")
        name = _foreign_name(value)
        if name is not None:
            return cls.of(name)
        raise TypeError(f'a dtype is a name such as "f32", a type of numpy or torch, or a Dtype, not {value!r}')

    @classmethod
    def _missing_(cls, value: object) -> Dtype | None:
        return cls.of(value) if isinstance(value, str) else None

    def __str__(self) -> str:
        return self.short

    def __repr__(self) -> str:
        return f"Dtype({self.short!r})"

    def __format__(self, spec: str) -> str:
        return format(self.short, spec)

    @property
    def short(self) -> str:
        """The short name, "f32"."""
        return self.name.lower()

    @property
    def full(self) -> str:
        """The full name as numpy spells it, "float32"."""
        return _FACTS[self].full

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _FACTS[self].bits // 8


class _Facts(NamedTuple):
    full: str
    code: int  # DLDataTypeCode
    bits: int
    typestr: str  # of numpy's array interface; bf16 has none


_FACTS: dict[Dtype, _Facts] = {
    Dtype.F32: _Facts("float32", 2, 32, "<f4"),
    Dtype.BF16: _Facts("bfloat16", 4, 16, "<u2"),
    Dtype.U8: _Facts("uint8", 1, 8, "|u1"),
    Dtype.U16: _Facts("uint16", 1, 16, "<u2"),
    Dtype.U32: _Facts("uint32", 1, 32, "<u4"),
    Dtype.U64: _Facts("uint64", 1, 64, "<u8"),
    Dtype.I8: _Facts("int8", 0, 8, "|i1"),
    Dtype.I16: _Facts("int16", 0, 16, "<i2"),
    Dtype.I32: _Facts("int32", 0, 32, "<i4"),
    Dtype.I64: _Facts("int64", 0, 64, "<i8"),
    Dtype.F16: _Facts("float16", 2, 16, "<f2"),
    Dtype.F64: _Facts("float64", 2, 64, "<f8"),
    Dtype.BOOL: _Facts("bool", 6, 8, "|b1"),
    Dtype.C64: _Facts("complex64", 5, 64, "<c8"),
    Dtype.C128: _Facts("complex128", 5, 128, "<c16"),
}

_BY_NAME: dict[str, Dtype] = {d.short: d for d in Dtype} | {d.full: d for d in Dtype}


_SIZES = {"float": '"f32" or "f64"', "int": '"i32", "i64" or another', "complex": '"c64" or "c128"'}

_NUMPY_CODE = re.compile(r"[<>=|]?([fiucb])(\d+)")


def _unknown(name: str) -> str:
    """What to write in place of a name that is none: numpy's codes count bytes, ours bits."""
    code = _NUMPY_CODE.fullmatch(name.lower())
    if code:
        short = "bool" if code[1] == "b" else f"{code[1]}{8 * int(code[2])}"
        if short in _BY_NAME:
            return f"unknown dtype {name!r}: numpy's code counts bytes, here the number counts bits: {short!r}"
    short = ", ".join(d.short for d in Dtype)
    return f"unknown dtype {name!r}: one of {short}"


def _foreign_name(value: object) -> str | None:
    """The name of a type of numpy or torch: np.dtype("uint16"), np.float32, torch.bfloat16."""
    if isinstance(value, type):
        return "bool" if value.__name__ == "bool_" else value.__name__
    text = str(value) if type(value).__module__ == "torch" else ""
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else None


def dlpack_code(dtype: Dtype) -> tuple[int, int]:
    """DLPack's type code and the bits of an element."""
    facts = _FACTS[dtype]
    return facts.code, facts.bits


def typestr(dtype: Dtype) -> str:
    """The type in numpy's array interface: that of the bits for bf16, which has none."""
    return _FACTS[dtype].typestr


def numpy_dtype(dtype: Dtype) -> np.dtype[Any]:
    """numpy's dtype; for bf16 that of the ml_dtypes package, or uint16 without it."""
    import numpy as np

    if dtype is not Dtype.BF16:
        return np.dtype(typestr(dtype))
    try:
        import ml_dtypes  # pyright: ignore
    except ImportError:
        return np.dtype(np.uint16)
    return np.dtype(ml_dtypes.bfloat16)  # pyright: ignore
