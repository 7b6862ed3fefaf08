"""Functions that the array API standard names and NumPy has, too."""

import holdfast as hf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

special = hnp.arrays(
    np.float32,
    hnp.array_shapes(max_dims=2, max_side=4),
    elements=st.sampled_from([0.0, -0.0, 1.5, -2.5, 1000.0, 1e-3, np.inf, -np.inf, np.nan]),
)


def same(ours, theirs, rtol=1e-6):
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=rtol)


@given(x=special)
def test_signs_and_roundings_agree_with_numpy_on_special_values(x):
    same(hf.signbit(hf.array(x)), np.signbit(x))
    same(hf.trunc(hf.array(x)), np.trunc(x))
    same(hf.copysign(hf.array(np.abs(x)), hf.array(x[::-1])), np.copysign(np.abs(x), x[::-1]))
    same(hf.copysign(2.0, hf.array(x)), np.copysign(np.float32(2), x))
    assert hf.count_nonzero(hf.array(x)).item() == np.count_nonzero(x)
    for a, b in zip(hf.nonzero(hf.array(x)), np.nonzero(x), strict=True):
        same(a, b)


@given(x=special)
def test_logarithms_and_lengths_agree_with_numpy_on_special_values(x):
    y = x[::-1]
    with np.errstate(all="ignore"):
        same(hf.log10(hf.array(x)), np.log10(x), 1e-5)
        same(hf.hypot(hf.array(x), hf.array(y)), np.hypot(x, y))
        same(hf.logaddexp(hf.array(x), hf.array(y)), np.logaddexp(x, y), 1e-5)


def test_lengths_do_not_overflow_in_between():
    assert hf.hypot(hf.array([3e30]), 4e30).item() == pytest.approx(5e30)
    assert hf.logaddexp(hf.array([500.0]), 500.0).item() == pytest.approx(500 + np.log(2))


def test_products_over_axes_agree_with_numpy():
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    b = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    x, y = hf.array(a), hf.array(b)
    same(hf.tensordot(x, y, axes=1), np.tensordot(a, b, axes=1))
    same(hf.tensordot(x, y, axes=([1, 2], [1, 0])), np.tensordot(a, b, axes=([1, 2], [1, 0])))
    same(hf.tensordot(x, y, axes=0), np.tensordot(a, b, axes=0))
    none = hf.tensordot(hf.zeros((2, 0)), hf.zeros((0, 3)), axes=1)
    assert none.tolist() == [[0] * 3] * 2


def test_shapes_and_joins_are_those_of_the_standard():
    assert hf.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    with pytest.raises(ValueError):
        hf.broadcast_shapes((2,), (3,))
    assert hf.concat([hf.zeros((1, 2)), hf.ones(2)], axis=None).tolist() == [0, 0, 1, 1]
    assert hf.zeros_like(hf.ones(2), hf.int8).dtype is hf.int8
    assert hf.ones_like(hf.zeros(2)).tolist() == [1, 1]


def test_programs_can_ask_what_there_is():
    info = hf.__array_namespace_info__()
    assert info.capabilities()["max dimensions"] == 8
    assert info.default_dtypes()["integral"] is hf.array([1]).dtype
    assert info.default_device() == hf.default_device()
    assert set(info.dtypes(kind="signed integer")) == {"int8", "int16", "int32", "int64"}
    assert info.devices() == [hf.default_device()]
