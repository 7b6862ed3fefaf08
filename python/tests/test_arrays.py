import copy
import math
import pickle
import weakref

import holdfast as hf
import numpy as np
import pytest

DTYPES = [
    "bool_", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
    "bfloat16", "float32", "float64",
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (True, hf.bool_, ()),
        (3, hf.int32, ()),
        (1 << 40, hf.int64, ()),
        ((1 << 64) - 1, hf.uint64, ()),
        (2.5, hf.float32, ()),
        ([], hf.float32, (0,)),
        ([[], []], hf.float32, (2, 0)),
        ([1, 2, 3], hf.int32, (3,)),
        ([1, True], hf.int32, (2,)),
        ([[1, 2.5], [3, 4]], hf.float32, (2, 2)),
        (((1,), (2,)), hf.int32, (2, 1)),
        ([False, True], hf.bool_, (2,)),
        (np.float16([1, 2]), hf.float16, (2,)),
        (np.arange(6.0).reshape(2, 3).T, hf.float64, (3, 2)),
        (np.int8(4), hf.int8, ()),
        ([np.arange(3), np.arange(3)], hf.int64, (2, 3)),
    ],
)
def test_python_values_become_arrays_of_the_dtype_that_fits(value, dtype, shape):
    x = hf.array(value)
    assert x.dtype is dtype
    assert x.shape == shape
    np.testing.assert_array_equal(np.array(x), np.array(value))


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_goes_in_and_comes_out(name):
    dtype = getattr(hf, name)
    x = hf.array([[0, 1], [1, 0]], dtype)
    assert x.dtype is dtype
    assert x.tolist() == [[0, 1], [1, 0]]
    assert x[0, 1].item() == 1
    assert x.nbytes == 4 * dtype.size
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(dtype)) is dtype


def test_dtypes_can_be_named_as_numpy_and_python_name_them():
    for named in ("float16", np.float16, np.dtype("float16"), hf.float16):
        assert hf.zeros(2, named).dtype is hf.float16
    assert hf.zeros(1, float).dtype is hf.float32
    assert hf.zeros(1, int).dtype is hf.int32
    assert hf.zeros(1, bool).dtype is hf.bool
    assert str(hf.float16) == "holdfast.float16"
    with pytest.raises(TypeError):
        hf.zeros(1, "complex64")


def test_values_that_no_array_can_hold_are_refused():
    with pytest.raises(ValueError, match="equal length"):
        hf.array([[1, 2], [3]])
    with pytest.raises(ValueError, match="equal depth"):
        hf.array([1, [2]])
    with pytest.raises(OverflowError, match="int8"):
        hf.array([1, 300], hf.int8)
    with pytest.raises(OverflowError):
        hf.array(1 << 70)
    with pytest.raises(TypeError):
        hf.array("text")
    with pytest.raises(TypeError):
        hf.array(np.array([1j]))
    with pytest.raises(TypeError):
        hf.array(object())


def test_properties_say_what_an_array_is():
    x = hf.zeros((2, 3, 4), hf.float16)
    assert (x.shape, x.ndim, x.size, x.itemsize, x.nbytes) == ((2, 3, 4), 3, 24, 2, 48)
    assert x.strides == (12, 4, 1)
    assert x.T.shape == (4, 3, 2)
    assert x.mT.shape == (2, 4, 3)
    assert x.device == hf.default_device()
    assert len(x) == 2
    assert not x.is_recorded
    x.eval()
    assert x.is_recorded
    with pytest.raises(TypeError):
        len(hf.array(1))


def test_arrays_convert_to_python_numbers():
    assert float(hf.array(2.5)) == 2.5
    assert int(hf.array([7])) == 7
    assert bool(hf.array(0)) is False
    assert list(range(10))[hf.array(3)] == 3
    assert math.isnan(hf.array(float("nan")).item())
    with pytest.raises(ValueError, match=r"\(2,\)"):
        hf.zeros(2).item()
    with pytest.raises(ValueError):
        bool(hf.zeros(2))
    with pytest.raises(TypeError):
        [0][hf.array(0.0)]


def test_iteration_gives_rows():
    rows = list(hf.array([[1, 2], [3, 4]]))
    assert [r.tolist() for r in rows] == [[1, 2], [3, 4]]
    a, b = hf.array([5, 6])
    assert (a.item(), b.item()) == (5, 6)
    with pytest.raises(TypeError):
        iter(hf.array(1))


def test_printing_shows_the_elements():
    assert repr(hf.array([1.5, 2])) == "array([1.5, 2], dtype=float32)"
    assert str(hf.array(3)) == "array(3, dtype=int32)"
    assert f"{hf.array([True])}" == "array([True], dtype=bool)"


def test_copies_are_equal_and_apart():
    x = hf.array([1, 2, 3])
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), hf.array(x)):
        y[0] = 9
        assert y.tolist() == [9, 2, 3]
        assert x.tolist() == [1, 2, 3]


def test_in_place_operators_change_the_object_and_not_its_neighbours():
    x = hf.array([1.0, 2.0])
    same, before = x, x + 0
    x += 1
    x *= 2
    assert same is x
    assert x.tolist() == [4, 6]
    assert before.tolist() == [1, 2]


def test_arrays_are_not_hashable_and_can_be_weakly_referenced():
    x = hf.array(1)
    with pytest.raises(TypeError):
        hash(x)
    seen = weakref.ref(x)
    assert seen() is x
    del x
    assert seen() is None


@pytest.mark.filterwarnings("ignore:nanobind")
def test_an_array_whose_init_was_not_called_is_refused():
    class Forgetful(hf.array):
        def __init__(self):
            pass

    bad = Forgetful()
    for use in (
        lambda: bad.shape, lambda: hf.zeros(2) + bad, lambda: memoryview(bad), lambda: hf.eval(bad),
        lambda: hf.zeros(2)[bad], lambda: hf.array(bad),
    ):  # fmt: skip
        with pytest.raises((TypeError, BufferError)):
            use()


def test_names_and_labels_reach_errors():
    x = hf.zeros(3)
    x.name = "weights"
    assert x.name == "weights"


def test_limits_of_dtypes_are_those_of_numpy():
    for name in ("int8", "uint16", "int64"):
        ours, theirs = hf.iinfo(getattr(hf, name)), np.iinfo(name)
        assert (ours.bits, ours.min, ours.max) == (theirs.bits, theirs.min, theirs.max)
    for name in ("float16", "float32", "float64"):
        ours, theirs = hf.finfo(getattr(hf, name)), np.finfo(name)
        assert (ours.bits, ours.max, ours.eps) == (theirs.bits, theirs.max, theirs.eps)
        assert ours.smallest_normal == theirs.smallest_normal
    assert hf.isdtype(hf.int8, "integral")
    assert not hf.isdtype(hf.int8, ("bool", "real floating"))
    assert hf.result_type(hf.int8, hf.float16, 3.0) is hf.float16


def test_errors_are_python_exceptions_of_their_kind():
    assert issubclass(hf.UsageError, ValueError)
    assert issubclass(hf.OutOfMemoryError, MemoryError)
    assert issubclass(hf.TimeoutError, TimeoutError)
    assert issubclass(hf.EnvironmentError, OSError)
    for name in ("UsageError", "UnsupportedError", "ExecutionError", "ClosedError"):
        assert issubclass(getattr(hf, name), hf.Error)
    with pytest.raises(hf.UsageError, match="do not fit"):
        hf.zeros(2) + hf.zeros(3)
