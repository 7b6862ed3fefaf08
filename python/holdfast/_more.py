"""What needs no compiled code."""

import functools
from typing import Any

from holdfast import _core
from holdfast._core import Dtype, array

__all__ = ["aeval", "finfo", "from_numpy", "iinfo", "isdtype", "result_type"]


async def aeval(*arrays: Any, timeout: float | None = None) -> None:
    """Computes arrays without blocking the event loop: `await hf.aeval(x)`.

    A task that is cancelled stops waiting; what was recorded still runs."""
    import asyncio  # most programs need none of it

    loop = asyncio.get_running_loop()
    call = functools.partial(_core.eval, *arrays, timeout=timeout)
    await loop.run_in_executor(None, call)


def from_numpy(a: Any) -> array:
    """An array in the memory of a NumPy array. Nobody may write to it any more."""
    return _core.asarray(a, copy=False)


def _rebuild(data: bytes, dtype: Dtype, shape: tuple[int, ...]) -> array:
    """What pickles call."""
    return _core._from_bytes(data, dtype, shape)


_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_FLOATING = ("float16", "bfloat16", "float32", "float64")
_KINDS = {
    "bool": ("bool",),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": _SIGNED + _UNSIGNED,
    "real floating": _FLOATING,
    "complex floating": (),
    "numeric": _SIGNED + _UNSIGNED + _FLOATING,
}


def isdtype(dtype: Dtype, kind: Dtype | str | tuple[Dtype | str, ...]) -> bool:
    """Whether a dtype is another, of a kind ("real floating"), or one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, Dtype):
        return dtype is kind
    if kind not in _KINDS:
        raise ValueError(f"no kind of dtype is called '{kind}'")
    return dtype.name in _KINDS[kind]


def result_type(*arrays_and_dtypes: array | Dtype | bool | int | float) -> Dtype:
    """The dtype of a result that is computed from all of these."""
    dtypes = [
        a if isinstance(a, Dtype) else a.dtype
        for a in arrays_and_dtypes
        if isinstance(a, array | Dtype)
    ]
    numbers = [a for a in arrays_and_dtypes if not isinstance(a, array | Dtype)]
    if not dtypes:
        raise ValueError("result_type needs an array or a dtype")
    made = functools.reduce(_core.promote_types, dtypes)
    for number in numbers:
        made = _core.add(_core.zeros((), made), number).dtype
    return made


class iinfo:
    """The limits of an integer dtype."""

    def __init__(self, dtype: Dtype):
        if dtype.name not in _SIGNED + _UNSIGNED:
            raise ValueError(f"{dtype} is not of integers")
        signed = dtype.name in _SIGNED
        self.dtype = dtype
        self.bits: int = dtype.size * 8
        self.min: int = -(1 << (self.bits - 1)) if signed else 0
        self.max: int = (1 << (self.bits - 1 if signed else self.bits)) - 1

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


# Bits of the mantissa that are stored, and the largest exponent.
_FLOATS = {"float16": (10, 15), "bfloat16": (7, 127), "float32": (23, 127), "float64": (52, 1023)}


class finfo:
    """The limits of a floating-point dtype."""

    def __init__(self, dtype: Dtype):
        if dtype.name not in _FLOATS:
            raise ValueError(f"{dtype} is not of floats")
        mantissa, exponent = _FLOATS[dtype.name]
        self.dtype = dtype
        self.bits: int = dtype.size * 8
        self.eps: float = 2.0**-mantissa
        self.max: float = (2.0 - 2.0**-mantissa) * 2.0**exponent
        self.min: float = -self.max
        self.smallest_normal: float = 2.0 ** (1 - exponent)

    def __repr__(self) -> str:
        return f"finfo(min={self.min}, max={self.max}, eps={self.eps}, dtype={self.dtype})"
