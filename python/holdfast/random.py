"""Random numbers, as a function of a key and a position alone.

Each function takes a `key`. Without one, it takes the next key of the process, which `seed`
restarts.
"""

import math
from collections.abc import Sequence

from holdfast import _core
from holdfast._core import Device, Dtype, RandomKey, Stream, array, float32, int32

__all__ = [
    "bernoulli",
    "categorical",
    "gumbel",
    "key",
    "laplace",
    "normal",
    "randint",
    "seed",
    "split",
    "uniform",
]

StreamOrDevice = Stream | Device | str | None


def seed(seed: int) -> None:
    """Restarts the sequence of keys for calls that give none."""
    _core._random_seed(seed)


def key(seed: int) -> RandomKey:
    """A key made from a number."""
    return RandomKey(seed)


def split(key: RandomKey, num: int = 2) -> list[RandomKey]:
    """Keys that are independent of this one and of each other."""
    return [key.split(i) for i in range(num)]


def _key_or_next(key: RandomKey | None) -> RandomKey:
    return _core._next_random_key() if key is None else key


def _shape_for(shape: Sequence[int] | int | None, *args) -> Sequence[int]:
    """The shape asked for, or the one that the arguments broadcast to."""
    if shape is not None:
        return (shape,) if isinstance(shape, int) else tuple(shape)
    made = ()
    for arg in args:
        other = arg.shape if isinstance(arg, array) else ()
        longer, shorter = (made, other) if len(made) >= len(other) else (other, made)
        padded = (1,) * (len(longer) - len(shorter)) + tuple(shorter)
        made = tuple(b if a == 1 else a for a, b in zip(longer, padded, strict=True))
    return made


def uniform(
    low: float | array = 0,
    high: float | array = 1,
    shape: Sequence[int] | int | None = None,
    dtype: Dtype = float32,
    key: RandomKey | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Uniformly distributed in [low, high)."""
    made = _core._random_uniform(
        _shape_for(shape, low, high), dtype, _key_or_next(key), stream=stream
    )
    if _is(low, 0) and _is(high, 1):
        return made
    span = _core.subtract(high, low) if isinstance(low, array) else high - low
    return _core.add(_core.multiply(made, span), low).astype(dtype)


def normal(
    shape: Sequence[int] | int = (),
    dtype: Dtype = float32,
    loc: float | array = 0.0,
    scale: float | array = 1.0,
    key: RandomKey | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Normally distributed, with mean `loc` and standard deviation `scale`."""
    made = _core._random_normal(_shape_for(shape), dtype, _key_or_next(key), stream=stream)
    if not _is(scale, 1):
        made = _core.multiply(made, scale)
    if not _is(loc, 0):
        made = _core.add(made, loc)
    return made.astype(dtype)


def randint(
    low: int | array,
    high: int | array,
    shape: Sequence[int] | int | None = None,
    dtype: Dtype = int32,
    key: RandomKey | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Integers in [low, high). The bias is below (high - low) / 2**63."""
    key = _key_or_next(key)
    shape = _shape_for(shape, low, high)
    # A float32 in [0, 1) has 24 random bits; 16 of each make up 63.
    bits = None
    for i, count in enumerate((15, 16, 16, 16)):
        part = _core._random_uniform(shape, float32, key.split(i), stream=stream)
        part = (part * float(1 << count)).astype(_core.int64)
        bits = part if bits is None else bits * (1 << count) + part
    span = _core.subtract(high, low) if isinstance(low, array) else high - low
    return (bits % span + low).astype(dtype)


def bernoulli(
    p: float | array = 0.5,
    shape: Sequence[int] | int | None = None,
    key: RandomKey | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """True with probability p."""
    made = _core._random_uniform(_shape_for(shape, p), float32, _key_or_next(key), stream=stream)
    return _core.less(made, p)


def gumbel(
    shape: Sequence[int] | int = (),
    dtype: Dtype = float32,
    key: RandomKey | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """The standard Gumbel distribution."""
    made = _positive_uniform(_shape_for(shape), _key_or_next(key), stream)
    return (-_core.log(-_core.log(made))).astype(dtype)


def laplace(
    shape: Sequence[int] | int = (),
    dtype: Dtype = float32,
    loc: float = 0.0,
    scale: float = 1.0,
    key: RandomKey | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """The Laplace distribution."""
    first, second = split(_key_or_next(key))
    size = -_core.log(_positive_uniform(_shape_for(shape), first, stream))
    sign = _core.where(bernoulli(0.5, _shape_for(shape), second, stream), 1.0, -1.0)
    return (size * sign * scale + loc).astype(dtype)


def categorical(
    logits: array,
    axis: int = -1,
    shape: Sequence[int] | None = None,
    num_samples: int | None = None,
    key: RandomKey | None = None,
    stream: StreamOrDevice = None,
) -> array:
    """Positions along `axis`, drawn with probabilities softmax(logits). At most one of `shape` and
    `num_samples` may be given."""
    if shape is not None and num_samples is not None:
        raise ValueError("categorical takes a shape or num_samples, not both")
    axis = axis % logits.ndim
    rest = logits.shape[:axis] + logits.shape[axis + 1 :]
    if num_samples is not None:
        moved = _core.transpose(logits, [i for i in range(logits.ndim) if i != axis] + [axis])
        noise = gumbel((*rest, num_samples, logits.shape[axis]), key=key, stream=stream)
        return _core.argmax(_core.expand_dims(moved, -2) + noise, -1)
    if shape is None:
        noise = gumbel(logits.shape, key=key, stream=stream)
        return _core.argmax(logits + noise, axis)
    moved = _core.transpose(logits, [i for i in range(logits.ndim) if i != axis] + [axis])
    noise = gumbel((*shape, logits.shape[axis]), key=key, stream=stream)
    return _core.argmax(moved + noise, -1)


def _positive_uniform(shape, key: RandomKey, stream: StreamOrDevice) -> array:
    """In (0, 1): logarithms are finite."""
    made = _core._random_uniform(shape, float32, key, stream=stream)
    return _core.maximum(made, math.ldexp(1.0, -25))


def _is(value, number: float) -> bool:
    return isinstance(value, int | float) and value == number
