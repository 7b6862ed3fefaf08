"""NumPy and DLPack."""

import gc
import threading
import weakref

import holdfast as hf
import numpy as np
import pytest

on_cpu = pytest.mark.skipif(
    "cpu" not in hf.default_device().name, reason="the host does not reach this device's memory"
)

FORMATS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
           "float16", "float32", "float64"]  # fmt: skip


@on_cpu
@pytest.mark.parametrize("name", FORMATS)
def test_numpy_shares_an_arrays_memory_read_only(name):
    x = hf.array(np.arange(6).reshape(2, 3).astype(name))
    view = np.asarray(x)
    assert view.dtype == np.dtype(name)
    assert not view.flags.writeable
    assert np.shares_memory(view, np.asarray(x))
    np.testing.assert_array_equal(view, np.arange(6).reshape(2, 3).astype(name))


@on_cpu
def test_numpys_view_keeps_the_memory_when_the_array_is_dropped():
    x = hf.arange(1000) + 1
    view = np.asarray(x)
    del x
    for _ in range(10):
        hf.eval(hf.arange(1000) * 0)
    assert view[999] == 1000


@on_cpu
def test_numpy_sees_strided_views_without_a_copy():
    x = hf.arange(24).reshape(4, 6)
    whole = np.asarray(x)
    for key in ((slice(None, None, -1), slice(1, None, 2)), (2,), (Ellipsis, None)):
        view = np.asarray(x[key])
        assert np.shares_memory(view, whole)
        np.testing.assert_array_equal(view, whole[key])
    stretched = np.asarray(hf.broadcast_to(x[0], (3, 6)))
    assert stretched.strides[0] == 0


@on_cpu
def test_operations_do_not_write_to_memory_that_numpy_sees():
    x = hf.zeros(100)
    view = np.asarray(x)
    x[0] = 7
    hf.eval(x)
    assert x[0].item() == 7
    assert view[0] == 0


def test_conversions_to_numpy_take_dtype_and_copy():
    x = hf.array([1, 2])
    assert np.array(x, np.float64).dtype == np.float64
    assert np.array(x, copy=True).flags.writeable
    assert x.__array__(np.int8).dtype == np.int8
    with pytest.raises(ValueError):
        x.__array__(np.int8, copy=False)
    assert np.exp(x).shape == (2,)


def test_bfloat16_goes_to_numpy_as_float32():
    x = hf.array([1.0, 1 / 3], hf.bfloat16)
    assert np.asarray(x).dtype == np.float32
    np.testing.assert_allclose(np.asarray(x), [1, 1 / 3], rtol=1e-2)
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(x)


def test_buffers_are_read_only_and_say_their_shape():
    view = memoryview(hf.array([[1, 2], [3, 4]], hf.int16))
    assert (view.format, view.shape, view.readonly) == ("h", (2, 2), True)
    assert view.tolist() == [[1, 2], [3, 4]]
    assert bytes(hf.array([[1, 2], [3, 4]], hf.uint8).T) == bytes([1, 3, 2, 4])
    assert memoryview(hf.zeros((0, 3))).shape == (0, 3)


def test_arrays_copy_memory_that_may_still_be_written():
    a = np.arange(4, dtype=np.float32)
    x, y = hf.array(a), hf.asarray(a)
    a[0] = 99
    assert x.tolist() == y.tolist() == [0, 1, 2, 3]


@on_cpu
def test_asarray_shares_memory_that_is_read_only():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    a.flags.writeable = False
    assert np.shares_memory(np.asarray(hf.asarray(a)), a)
    flipped = hf.asarray(a[::-1, ::2])
    assert np.shares_memory(np.asarray(flipped), a)
    np.testing.assert_array_equal(np.asarray(flipped + 1), a[::-1, ::2] + 1)
    assert not np.shares_memory(np.asarray(hf.asarray(a, copy=True)), a)
    with pytest.raises(ValueError):
        hf.asarray([1, 2], copy=False)
    with pytest.raises(ValueError):
        hf.asarray(a, hf.int32, copy=False)


def owner_of(n):
    """An array of NumPy, and a weak reference to what owns its memory."""

    class Owner(np.ndarray):
        pass

    a = np.zeros(n, np.float32).view(Owner)
    return a, weakref.ref(a)


def is_given_back(seen):
    """Whether the owner goes once the device is done; hf.eval() gives back what was put off."""
    hf.synchronize()
    for _ in range(1000):
        hf.eval()
        if seen() is None:
            return True
    return False


@on_cpu
def test_imported_memory_lives_as_long_as_work_needs_it_and_no_longer():
    a, seen = owner_of(1000)
    x = hf.from_numpy(a)
    del a
    y = x + 1
    del x
    gc.collect()
    assert seen() is not None
    assert y[0].item() == 1
    del y
    assert is_given_back(seen)


@on_cpu
def test_dlpack_goes_to_numpy_and_back_without_a_copy():
    x = hf.arange(6, dtype=hf.float32).reshape(2, 3)
    a = np.from_dlpack(x)
    assert not a.flags.writeable
    assert np.shares_memory(a, np.asarray(x))
    back = hf.from_dlpack(a)
    assert np.shares_memory(np.asarray(back), a)
    assert hf.from_dlpack(x.T).tolist() == x.T.tolist()
    assert np.from_dlpack(x[:, ::-1]).tolist() == x[:, ::-1].tolist()


@on_cpu
@pytest.mark.parametrize("name", FORMATS)
def test_every_dtype_goes_through_dlpack(name):
    a = np.arange(6).reshape(2, 3).astype(name)
    x = hf.from_dlpack(a)
    assert x.dtype.name == name
    np.testing.assert_array_equal(np.from_dlpack(x), a)


@on_cpu
def test_dlpack_follows_its_protocol():
    x = hf.arange(4)
    assert x.__dlpack_device__() == (1, 0)
    old = x.__dlpack__()
    new = x.__dlpack__(stream=None, max_version=(1, 1), dl_device=(1, 0), copy=True)
    assert '"dltensor"' in repr(old)
    assert '"dltensor_versioned"' in repr(new)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    b = hf.array([1.0], hf.bfloat16)
    assert hf.from_dlpack(b).dtype is hf.bfloat16
    assert hf.from_dlpack(np.zeros((0, 3))).shape == (0, 3)
    with pytest.raises((BufferError, TypeError)):
        hf.from_dlpack(np.zeros(2, np.complex64))
    with pytest.raises(AttributeError):
        hf.from_dlpack(3)


def test_memory_that_cannot_be_shared_is_copied():
    fields = np.zeros(3, np.dtype([("a", "u1"), ("b", "<f4")]))
    fields["b"] = [1, 2, 3]
    assert hf.array(fields["b"]).tolist() == [1, 2, 3]
    odd = np.frombuffer(b"\0" + np.float32([4, 5]).tobytes(), np.uint8)[1:].view(np.float32)
    assert hf.asarray(odd).tolist() == [4, 5]
    assert hf.from_dlpack(np.float32([1]), copy=True).tolist() == [1]
    with pytest.raises(ValueError):
        hf.asarray(odd, copy=False)


class Producer:
    """Counts what becomes of its capsules."""

    def __init__(self, a):
        self.a = a

    def __dlpack__(self, *, max_version=None):
        return self.a.__dlpack__(max_version=max_version)

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


@on_cpu
def test_dlpack_capsules_are_given_back_whether_taken_or_not():
    a, seen = owner_of(10)
    capsule = a.__dlpack__(max_version=(1, 0))
    del capsule
    x = hf.from_dlpack(Producer(a))
    x.eval()
    y = hf.arange(3)
    del y
    assert seen() is not None
    del a, x
    assert is_given_back(seen)


@on_cpu
def test_imported_memory_can_be_dropped_on_a_thread_that_is_not_pythons():
    # The device's own thread drops the last user while this thread has the GIL.
    a, seen = owner_of(100_000)
    x = hf.from_numpy(a)
    y = hf.sum(hf.exp(x))
    hf.async_eval(y)
    del a, x
    assert y.item() == 100_000
    assert is_given_back(seen)


@on_cpu
def test_threads_export_and_import_at_once():
    failures = []

    def work():
        try:
            for i in range(50):
                a = np.full(64, i, np.float32)
                b = np.from_dlpack(hf.from_dlpack(a) + 1)
                assert b[63] == i + 1
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
