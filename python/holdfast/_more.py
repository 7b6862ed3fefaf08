"""What needs no compiled code."""

import functools
from typing import Any

from holdfast import _core
from holdfast._core import Dtype, array

__all__ = [
    "aeval",
    "allclose",
    "array_equal",
    "broadcast_arrays",
    "can_cast",
    "empty",
    "empty_like",
    "finfo",
    "from_numpy",
    "full_like",
    "iinfo",
    "isclose",
    "isdtype",
    "matrix_transpose",
    "result_type",
    "unstack",
    "vecdot",
]


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


def isclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False
) -> array:
    """Whether a and b differ by at most atol + rtol * abs(b)."""
    a, b = _core.asarray(a), _core.asarray(b)
    near = _core.abs(a - b) <= _core.abs(b) * rtol + atol
    # Infinities are close to themselves alone; their distance is NaN.
    same = (near & _core.isfinite(a) & _core.isfinite(b)) | (a == b)
    return same | (_core.isnan(a) & _core.isnan(b)) if equal_nan else same


def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False
) -> array:
    """Whether isclose holds for all elements, as an array without axes."""
    return _core.all(isclose(a, b, rtol, atol, equal_nan=equal_nan))


def array_equal(a: Any, b: Any, equal_nan: bool = False) -> array:
    """Whether both have the same shape and elements, as an array without axes."""
    a, b = _core.asarray(a), _core.asarray(b)
    if a.shape != b.shape:
        return array(False)
    same = a == b
    return _core.all(same | ((a != a) & (b != b)) if equal_nan else same)


def broadcast_arrays(*arrays: array) -> list[array]:
    """The arrays, stretched to one shape."""
    from holdfast._standard import broadcast_shapes

    shape = broadcast_shapes(*(a.shape for a in arrays))
    return [_core.broadcast_to(a, shape) for a in arrays]


def empty(shape: Any, dtype: Dtype = _core.float32, *, stream: Any = None) -> array:
    """An array of zeros: uninitialized memory would show what others left there."""
    return _core.zeros(shape, dtype, stream=stream)


def empty_like(a: array, dtype: Dtype | None = None, *, stream: Any = None) -> array:
    """Zeros of the array's shape."""
    return _core.zeros(a.shape, a.dtype if dtype is None else dtype, stream=stream)


def full_like(a: array, value: Any, dtype: Dtype | None = None, *, stream: Any = None) -> array:
    """One number in the array's shape."""
    return _core.full(a.shape, value, a.dtype if dtype is None else dtype, stream=stream)


def matrix_transpose(a: array) -> array:
    """The last two axes exchanged."""
    return a.mT


def unstack(a: array, axis: int = 0) -> tuple[array, ...]:
    """The parts along an axis, which they lack."""
    return tuple(_core.moveaxis(a, axis, 0))


def vecdot(a: array, b: array, axis: int = -1) -> array:
    """Sums of products along an axis."""
    return _core.sum(_core.multiply(a, b), axis)


def can_cast(from_: Dtype | array, to: Dtype) -> bool:
    """Whether promotion leads from one dtype to the other."""
    dtype = from_.dtype if isinstance(from_, array) else from_
    return _core.promote_types(dtype, to) is to


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

    def __init__(self, dtype: Dtype | array):
        dtype = dtype.dtype if isinstance(dtype, array) else dtype
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

    def __init__(self, dtype: Dtype | array):
        dtype = dtype.dtype if isinstance(dtype, array) else dtype
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
