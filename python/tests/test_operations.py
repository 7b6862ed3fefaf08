"""Every operation against NumPy."""

import math

import holdfast as hf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

FLOATS = (np.float16, np.float32, np.float64)
INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)

shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


def small(dtype, shape):
    """Elements on which both sides agree to the last digits."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        return hnp.arrays(dtype, shape, elements=st.sampled_from([-2.5, -1, -0.5, 0, 0.25, 1, 3]))
    if kind == "b":
        return hnp.arrays(dtype, shape)
    low = 0 if kind == "u" else -5
    return hnp.arrays(dtype, shape, elements=st.integers(low, 5))


def close(ours, theirs, dtype=None):
    theirs = np.asarray(theirs)
    got = np.asarray(ours)
    assert got.shape == theirs.shape
    tolerance = 2e-3 if ours.dtype in (hf.float16, hf.bfloat16) else 2e-6
    np.testing.assert_allclose(
        got.astype(np.float64), theirs.astype(np.float64), rtol=tolerance, atol=tolerance
    )
    if dtype is not None:
        assert ours.dtype is dtype


UNARY = {
    "negative": np.negative, "abs": np.abs, "sign": np.sign, "square": np.square, "exp": np.exp,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "erf": np.vectorize(math.erf, "f"),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "reciprocal": lambda x: 1 / x, "floor": np.floor,
    "ceil": np.ceil, "round": np.round, "logical_not": np.logical_not, "isnan": np.isnan,
    "arctan": np.arctan, "arcsinh": np.arcsinh, "isfinite": np.isfinite, "isinf": np.isinf,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary_operations_agree_with_numpy(name):
    for dtype in (np.float16, np.float32):
        x = np.array([[0.25, 1.5, 2.0], [0.5, 1.0, 3.75]], dtype)
        close(getattr(hf, name)(hf.array(x)), UNARY[name](x.astype(np.float32)))
    x = np.array([0.25, 1.5], np.float32)
    close(getattr(hf, name)(x), UNARY[name](x))
    method = getattr(hf.array(x), name, None)
    if method is not None:
        close(method(), UNARY[name](x))


BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "power": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "arctan2": np.arctan2,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
@given(data=st.data())
def test_binary_operations_agree_with_numpy(name, data):
    dtype = data.draw(st.sampled_from((np.float32, np.int32, np.float16)))
    pair = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4)
    ).input_shapes
    a = data.draw(small(dtype, pair[0]))
    b = data.draw(small(dtype, pair[1]))
    if name in ("divide", "floor_divide", "remainder"):
        b = np.where(b == 0, dtype(2), b)
    if name == "power":
        a, b = np.abs(a) + dtype(1), np.abs(b)
    close(getattr(hf, name)(hf.array(a), hf.array(b)), BINARY[name](a, b))


OPERATORS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b, "//": lambda a, b: a // b, "%": lambda a, b: a % b,
    "**": lambda a, b: a**b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("symbol", OPERATORS)
def test_operators_take_arrays_and_numbers_on_either_side(symbol):
    apply = OPERATORS[symbol]
    x = np.array([1.0, 2.0, 4.0], np.float32)
    ours = hf.array(x)
    close(apply(ours, ours), apply(x, x))
    for number in (2, 2.5, True):
        close(apply(ours, number), apply(x, np.float32(number)))
        close(apply(number, ours), apply(np.float32(number), x))
    # NumPy's arrays leave the operator to ours.
    assert isinstance(apply(x, ours), hf.array)
    close(apply(x, ours), apply(x, x))


def test_operators_refuse_what_is_no_number():
    for bad in ("a", None, object(), 1j):
        with pytest.raises(TypeError):
            hf.zeros(2) + bad
    assert (hf.zeros(2) == None) is False  # noqa: E711


def test_python_numbers_take_the_dtype_of_the_arrays_beside_them():
    assert (hf.zeros(2, hf.float16) * 2.5).dtype is hf.float16
    assert (hf.zeros(2, hf.int8) + 1).dtype is hf.int8
    assert (hf.zeros(2, hf.int8) + 1.5).dtype is hf.float32
    assert (hf.zeros(2, hf.bool_) + 1).dtype is hf.int32
    assert (hf.zeros(2, hf.uint64) < (1 << 64) - 1).tolist() == [True, True]
    assert hf.add(1, 2).item() == 3
    assert hf.add(1, 2.5).item() == 3.5


BITS = {
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
}  # fmt: skip


@pytest.mark.parametrize("symbol", BITS)
def test_operators_of_bits_agree_with_numpy(symbol):
    apply = BITS[symbol]
    a, b = np.array([5, 12, 255], np.int32), np.array([3, 1, 7], np.int32)
    close(apply(hf.array(a), hf.array(b)), apply(a, b), hf.int32)
    close(apply(hf.array(a), 2), apply(a, 2), hf.int32)
    close(apply(2, hf.array(b)), apply(2, b), hf.int32)
    if symbol in "&|^":
        p, q = np.array([True, True, False]), np.array([True, False, False])
        close(apply(hf.array(p), hf.array(q)), apply(p, q), hf.bool)
    with pytest.raises(ValueError):
        apply(hf.array([1.5]), 1)


def test_bits_are_inverted():
    assert (~hf.array([0, 5])).tolist() == [-1, -6]
    assert (~hf.array([True, False])).tolist() == [False, True]
    x = hf.array([6])
    x &= 3
    x <<= 2
    assert x.tolist() == [8]


@given(data=st.data())
def test_promotion_is_commutative_and_gives_what_operations_give(data):
    names = st.sampled_from([d.__name__ for d in (*FLOATS, *INTEGERS)])
    a, b = getattr(hf, data.draw(names)), getattr(hf, data.draw(names))
    assert hf.promote_types(a, b) is hf.promote_types(b, a)
    assert (hf.zeros(1, a) + hf.zeros(1, b)).dtype is hf.promote_types(a, b)


REDUCTIONS = {
    "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "all": np.all,
    "any": np.any, "var": np.var, "std": np.std,
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
@given(data=st.data())
def test_reductions_agree_with_numpy(name, data):
    dtype = data.draw(st.sampled_from((np.float32, np.int32)))
    x = data.draw(small(dtype, hnp.array_shapes(min_dims=1, max_dims=4, max_side=5)))
    axis = data.draw(
        st.none() | st.integers(-x.ndim, x.ndim - 1) | hnp.valid_tuple_axes(x.ndim, min_size=1)
    )
    keep = data.draw(st.booleans())
    close(
        getattr(hf, name)(hf.array(x), axis=axis, keepdims=keep),
        REDUCTIONS[name](x, axis=axis, keepdims=keep),
    )
    close(getattr(hf.array(x), name)(axis, keep), REDUCTIONS[name](x, axis=axis, keepdims=keep))


def test_reductions_over_no_axes_change_nothing():
    assert hf.sum(hf.array([1, 2]), axis=()).tolist() == [1, 2]


@given(data=st.data())
def test_argmax_and_softmax_agree_with_numpy(data):
    x = data.draw(small(np.float32, hnp.array_shapes(min_dims=1, max_dims=3, max_side=6)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    assert np.array_equal(np.asarray(hf.argmax(hf.array(x), axis)), np.argmax(x, axis))
    assert hf.argmax(hf.array(x)).item() == np.argmax(x)
    e = np.exp(x - x.max(axis, keepdims=True))
    close(hf.softmax(x, axis), e / e.sum(axis, keepdims=True))


@given(data=st.data())
def test_matrix_products_agree_with_numpy(data):
    shapes = data.draw(hnp.mutually_broadcastable_shapes(signature=np.matmul.signature))
    a, b = (data.draw(small(np.float32, s)) for s in shapes.input_shapes)
    close(hf.array(a) @ hf.array(b), a @ b)
    close(a @ hf.array(b), a @ b)


@given(data=st.data())
def test_views_agree_with_numpy(data):
    x = data.draw(small(np.int32, shapes))
    ours = hf.array(x)
    axes = data.draw(st.permutations(range(x.ndim)))
    close(hf.transpose(ours, axes), np.transpose(x, axes))
    close(ours.transpose(), x.T)
    close(ours.flatten(), x.flatten())
    close(ours.reshape(-1), x.reshape(-1)) if x.size else None
    close(hf.reshape(ours, x.shape[::-1]), x.reshape(x.shape[::-1]))
    close(ours.reshape(*x.shape, 1), x.reshape(*x.shape, 1))
    axis = data.draw(st.integers(-x.ndim - 1, x.ndim))
    close(hf.expand_dims(ours, axis), np.expand_dims(x, axis))
    close(hf.squeeze(hf.expand_dims(ours, axis), axis), x)
    close(hf.broadcast_to(ours, (2, *x.shape)), np.broadcast_to(x, (2, *x.shape)))
    if x.ndim >= 2:
        close(ours.swapaxes(0, -1), x.swapaxes(0, -1))


def test_axes_that_do_not_exist_are_refused():
    x = hf.zeros((2, 1))
    for bad in (
        lambda: hf.squeeze(x, 0), lambda: hf.squeeze(x, 5), lambda: hf.expand_dims(x, 7),
        lambda: hf.sum(x, 3), lambda: hf.transpose(x, (0, 0)), lambda: x.reshape(3),
        lambda: hf.expand_dims(x, (0, 0)),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            bad()


def test_arrays_are_joined_and_chosen_from():
    a, b = np.arange(6).reshape(2, 3), np.arange(6, 12).reshape(2, 3)
    x, y = hf.array(a), hf.array(b)
    close(hf.concatenate([x, y], axis=1), np.concatenate([a, b], axis=1))
    close(hf.stack([x, y], axis=-1), np.stack([a, b], axis=-1))
    close(hf.where(x % 2 == 0, x, -1), np.where(a % 2 == 0, a, -1))
    close(hf.where(hf.array([True, False]), 1, 2), np.where([True, False], 1, 2))
    close(hf.clip(x, 1, 3), np.clip(a, 1, 3))
    close(hf.clip(x, 2), np.clip(a, 2, None))
    close(hf.take(x, [2, 0], axis=1), np.take(a, [2, 0], axis=1))
    close(hf.take(x, -1), a.flatten()[-1])
    at = np.array([[2], [0]])
    close(hf.take_along_axis(x, at, 1), np.take_along_axis(a, at, 1))
    np.put_along_axis(a, at, 9, 1)
    close(hf.put_along_axis(x, at, 9, 1), a)
    close(hf.as_strided(hf.arange(5), (3, 2), (1, 2)), [[0, 2], [1, 3], [2, 4]])


def test_arrays_are_filled():
    close(hf.zeros((2, 3)), np.zeros((2, 3)), hf.float32)
    close(hf.ones(3, hf.int8), np.ones(3), hf.int8)
    close(hf.full((2, 2), 7), np.full((2, 2), 7), hf.int32)
    close(hf.full(2, 1.5), [1.5, 1.5], hf.float32)
    close(hf.full((2, 2), hf.array([1, 2])), [[1, 2], [1, 2]], hf.int32)
    assert hf.full(1, (1 << 60) + 1, hf.int64).tolist() == [(1 << 60) + 1]
    close(hf.zeros_like(hf.ones((2,), hf.int16)), [0, 0], hf.int16)
    close(hf.arange(5), np.arange(5), hf.int32)
    close(hf.arange(1, 2, 0.25), np.arange(1, 2, 0.25), hf.float32)
    close(hf.arange(5, 0, -2), np.arange(5, 0, -2), hf.int32)
    close(hf.eye(3), np.eye(3), hf.float32)


@given(data=st.data())
def test_sorts_and_scans_agree_with_numpy(data):
    x = data.draw(small(np.float32, hnp.array_shapes(min_dims=1, max_dims=3, max_side=6)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    ours = hf.array(x)
    close(hf.sort(ours, axis), np.sort(x, axis))
    close(hf.argsort(ours, axis), np.argsort(x, axis, kind="stable"))
    close(hf.sort(ours, None), np.sort(x, None))
    k = data.draw(st.integers(1, x.shape[axis]))
    close(hf.topk(ours, k, axis), np.flip(np.sort(x, axis), axis).take(range(k), axis))
    close(hf.cumsum(ours, axis), np.cumsum(x, axis))
    close(ours.cumprod(axis), np.cumprod(x, axis))
    close(hf.cumsum(ours), np.cumsum(x))
    close(hf.cumsum(ours, axis, reverse=True), np.flip(np.cumsum(np.flip(x, axis), axis), axis))
    close(hf.argmin(ours, axis), np.argmin(x, axis))


@given(data=st.data())
def test_arrangements_agree_with_numpy(data):
    x = data.draw(small(np.int32, hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    other = data.draw(st.integers(-x.ndim, x.ndim - 1))
    shift = data.draw(st.integers(-5, 5))
    ours = hf.array(x)
    close(hf.moveaxis(ours, axis, other), np.moveaxis(x, axis, other))
    close(hf.flip(ours, axis), np.flip(x, axis))
    close(hf.flip(ours), np.flip(x))
    close(hf.roll(ours, shift, axis), np.roll(x, shift, axis))
    close(hf.roll(ours, shift), np.roll(x, shift))
    close(hf.tile(ours, (2, 1)), np.tile(x, (2, 1)))
    close(hf.repeat(ours, 2, axis), np.repeat(x, 2, axis))
    close(hf.diff(ours, axis=axis), np.diff(x, axis=axis))
    cuts = sorted(data.draw(st.lists(st.integers(0, x.shape[axis]), max_size=3)))
    for mine, theirs in zip(hf.split(ours, cuts, axis), np.split(x, cuts, axis), strict=True):
        close(mine, theirs)
    if x.ndim >= 2:
        close(hf.tril(ours, shift), np.tril(x, shift))
        close(hf.triu(ours, shift), np.triu(x, shift))


def test_more_arrays_are_made_and_found():
    close(hf.linspace(0, 1, 5), np.linspace(0, 1, 5), hf.float32)
    close(hf.outer(hf.arange(3), [1, 2]), np.outer(range(3), [1, 2]))
    close(hf.searchsorted(hf.array([1, 3, 5]), [0, 3, 9]), [0, 1, 3])
    close(hf.searchsorted(hf.array([1, 3, 5]), 3, "right"), 2)
    for indexing in ("xy", "ij"):
        theirs = np.meshgrid([1, 2, 3], [4, 5], indexing=indexing)
        ours = hf.meshgrid(hf.array([1, 2, 3]), hf.array([4, 5]), indexing=indexing)
        for a, b in zip(ours, theirs, strict=True):
            close(a, b)
    assert hf.allclose(hf.array([1.0, hf.inf]), [1.0 + 1e-7, hf.inf]).item()
    assert not hf.allclose(hf.array([1.0, hf.nan]), [1.0, hf.nan]).item()
    assert hf.allclose(hf.array([1.0, hf.nan]), [1.0, hf.nan], equal_nan=True).item()
    assert hf.array_equal(hf.arange(3), [0, 1, 2]).item()
    assert not hf.array_equal(hf.arange(3), [0, 1]).item()
    assert [a.shape for a in hf.broadcast_arrays(hf.zeros((2, 1)), hf.zeros(3))] == [(2, 3)] * 2
    assert [a.tolist() for a in hf.unstack(hf.array([[1, 2], [3, 4]]), 1)] == [[1, 3], [2, 4]]
    close(hf.full_like(hf.zeros(2, hf.int8), 3), [3, 3], hf.int8)
    assert hf.can_cast(hf.int8, hf.int32) and not hf.can_cast(hf.float32, hf.int32)
    close(hf.vecdot(hf.arange(3), hf.arange(3)), 5)


def test_what_models_use_agrees_with_numpy():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 8)).astype(np.float32)
    w, b = rng.standard_normal((2, 8)).astype(np.float32)
    ours, mean = hf.array(x), x.mean(-1, keepdims=True)
    rms = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    close(hf.fast.rms_norm(ours, hf.array(w), 1e-5), rms * w)
    close(hf.fast.rms_norm(ours, None, 1e-5), rms)
    norm = (x - mean) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    close(hf.fast.layer_norm(ours, hf.array(w), hf.array(b), 1e-5), norm * w + b)
    angle = np.arange(3)[:, None] * 10000.0 ** (-np.arange(4) / 4)
    c, s = np.cos(angle), np.sin(angle)
    turned = np.concatenate([x[..., :4] * c - x[..., 4:] * s, x[..., :4] * s + x[..., 4:] * c], -1)
    close(hf.fast.rope(ours, 8, traditional=False, base=10000.0, scale=1.0, offset=0), turned)
    with pytest.raises(ValueError):
        hf.fast.rope(ours, 8, traditional=False, base=None, scale=1.0, offset=0)
    q, k, v = (rng.standard_normal((1, 2, 4, 8)).astype(np.float32) for _ in range(3))
    scores = q @ k.swapaxes(-1, -2) * 0.5
    scores = np.where(np.tri(4, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = p / p.sum(-1, keepdims=True) @ v
    args = [hf.array(a) for a in (q, k, v)]
    close(hf.fast.scaled_dot_product_attention(*args, scale=0.5, mask="causal"), wanted)
    mask = hf.array(np.tri(4, dtype=bool))
    close(hf.fast.scaled_dot_product_attention(*args, scale=0.5, mask=mask), wanted)
    with pytest.raises(ValueError, match="causal"):
        hf.fast.scaled_dot_product_attention(*args, scale=0.5, mask="diagonal")


def test_quantized_products_are_near_the_whole_ones():
    rng = np.random.default_rng(0)
    w = rng.standard_normal((16, 64)).astype(np.float32)
    x = rng.standard_normal((3, 64)).astype(np.float32)
    packed, scales, biases = hf.quantize(hf.array(w))
    assert packed.dtype is hf.uint32
    got = np.asarray(hf.quantized_matmul(hf.array(x), packed, scales, biases))
    assert np.abs(got - x @ w.T).max() < 6


def test_operations_go_to_the_stream_they_name():
    s = hf.new_stream(name="side")
    x = hf.add(hf.zeros(3), 1, stream=s)
    assert x.stream == s
    with hf.stream(s):
        assert hf.zeros(1).stream == s
    assert hf.zeros(1).stream != s
    assert hf.exp(x, stream=hf.default_device()).stream == hf.default_stream()
    assert (x + 1).tolist() == [2, 2, 2]
