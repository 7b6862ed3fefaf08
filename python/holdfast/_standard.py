"""Functions of the array API standard that are made of others."""

import math
from typing import Any

from holdfast import _core
from holdfast._core import Device, Dtype, array

__all__ = [
    "__array_namespace_info__",
    "broadcast_shapes",
    "concat",
    "copysign",
    "count_nonzero",
    "hypot",
    "log10",
    "logaddexp",
    "nonzero",
    "ones_like",
    "positive",
    "signbit",
    "tensordot",
    "trunc",
    "zeros_like",
]


def positive(x: array) -> array:
    """x itself."""
    return x


def log10(x: array) -> array:
    """The logarithm to base 10."""
    return _core.log2(x) * math.log10(2.0)


def hypot(x1: Any, x2: Any) -> array:
    """sqrt(x1 * x1 + x2 * x2), without overflow in between."""
    a, b = _core.abs(x1), _core.abs(x2)
    large, small = _core.maximum(a, b), _core.minimum(a, b)
    ratio = _core.where(large == 0, 0.0, small / _core.where(large == 0, 1.0, large))
    made = large * _core.sqrt(ratio * ratio + 1.0)
    # An infinity wins, also over NaN.
    infinite = _core.isinf(a) | _core.isinf(b)
    return _core.where(infinite, math.inf, made)


def logaddexp(x1: Any, x2: Any) -> array:
    """log(exp(x1) + exp(x2)), without overflow in between."""
    large, small = _core.maximum(x1, x2), _core.minimum(x1, x2)
    made = large + _core.log1p(_core.exp(small - large))
    return _core.where(_core.isinf(large) & (large == small), large, made)


def signbit(x: array) -> array:
    """Whether the sign is negative, that of zero and of NaN, too."""
    bits = {2: _core.uint16, 4: _core.uint32, 8: _core.uint64}[x.dtype.size]
    width = x.dtype.size * 8 - 1
    return (_bits(x, bits) >> width) != 0


def _bits(x: array, dtype: Dtype) -> array:
    # The elements themselves, seen as integers by a kernel that changes nothing else.
    (made,) = _same_bits(
        inputs=[x.reshape(-1)],
        output_shapes=[(x.size,)],
        output_dtypes=[dtype],
        grid=(max(x.size, 1), 1, 1),
        threadgroup=(256, 1, 1),
        template=[("T", dtype)],
        params={"n": x.size},
    )
    return made.reshape(x.shape)


_same_bits = _core.kernel(
    "same_bits",
    ["x"],
    ["y"],
    "uint i = thread_position_in_grid.x; if (i < n) y[i] = as_type<T>(x[i]);",
)


def copysign(x1: Any, x2: Any) -> array:
    """x1 with the sign of x2."""
    sign = signbit(x2) if isinstance(x2, array) else math.copysign(1.0, x2) < 0
    size = _core.abs(x1 if isinstance(x1, array) else _core.full(x2.shape, x1, x2.dtype))
    return _core.where(_core.asarray(sign), -size, size)


def trunc(x: array) -> array:
    """Rounded toward zero."""
    if x.dtype.name not in ("float16", "bfloat16", "float32", "float64"):
        return x
    return copysign(_core.floor(_core.abs(x)), x)


def count_nonzero(x: array, *, axis: Any = None, keepdims: bool = False) -> array:
    """How many elements are not zero."""
    return _core.sum((x != 0).astype(_core.int32), axis, keepdims)


def nonzero(x: array) -> tuple[array, ...]:
    """The positions of elements that are not zero, by axis. Waits: the shape depends on them."""
    flat = _core.arange(x.size)[(x != 0).reshape(-1)]
    made = []
    for n in reversed(x.shape):
        made.append(flat % n)
        flat = flat // n
    return tuple(reversed(made))


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays of these shapes are stretched to."""
    made: tuple[int, ...] = ()
    for shape in shapes:
        made = _core.add(_core.zeros(made), _core.zeros(shape)).shape
    return made


def tensordot(x1: array, x2: array, /, *, axes: Any = 2) -> array:
    """Sums of products over pairs of axes: the last of x1 with the first of x2, or those given."""
    if isinstance(axes, int):
        first = list(range(x1.ndim - axes, x1.ndim))
        second = list(range(axes))
    else:
        first = [a % x1.ndim for a in axes[0]]
        second = [a % x2.ndim for a in axes[1]]
    rest1 = [i for i in range(x1.ndim) if i not in first]
    rest2 = [i for i in range(x2.ndim) if i not in second]
    shape = [x1.shape[i] for i in rest1] + [x2.shape[i] for i in rest2]
    inner = math.prod(x1.shape[i] for i in first)
    left = _core.transpose(x1, rest1 + first).reshape(-1 if inner else 0, inner)
    right = _core.transpose(x2, second + rest2).reshape(inner, -1 if inner else 0)
    if not inner:
        return _core.zeros(shape, _core.promote_types(x1.dtype, x2.dtype))
    return _core.matmul(left, right).reshape(shape)


def concat(arrays: Any, /, *, axis: int | None = 0) -> array:
    """Joined along an axis; without one, all of them flattened."""
    if axis is None:
        return _core.concatenate([_core.asarray(a).reshape(-1) for a in arrays])
    return _core.concatenate(list(arrays), axis)


def zeros_like(a: array, dtype: Dtype | None = None, *, device: Any = None, stream: Any = None):
    """Zeros of the array's shape and dtype, or of another dtype."""
    where = device if stream is None else stream
    return _core.zeros(a.shape, a.dtype if dtype is None else dtype, stream=where or a.device)


def ones_like(a: array, dtype: Dtype | None = None, *, device: Any = None, stream: Any = None):
    """Ones of the array's shape and dtype, or of another dtype."""
    where = device if stream is None else stream
    return _core.ones(a.shape, a.dtype if dtype is None else dtype, stream=where or a.device)


class __array_namespace_info__:
    """What the standard lets programs ask."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> Device:
        return _core.default_device()

    def devices(self) -> list[Device]:
        return [_core.default_device()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Dtype]:
        return {
            "real floating": _core.float32,
            "integral": _core.int32,
            "indexing": _core.int32,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Dtype]:
        from holdfast._more import isdtype

        found = {v.name: v for v in vars(_core).values() if isinstance(v, Dtype)}
        del found["bfloat16"], found["float16"]  # the standard does not know them
        return {n: d for n, d in found.items() if kind is None or isdtype(d, kind)}
