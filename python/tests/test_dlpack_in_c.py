"""DLPack as C code sees it: its structs, and deleters that are called directly."""

import ctypes
import threading
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    cast,
    py_object,
    pythonapi,
)

import holdfast as hf
import pytest

on_cpu = pytest.mark.skipif(
    "cpu" not in hf.default_device().name, reason="the host does not reach this device's memory"
)


class Tensor(Structure):
    _fields_ = [
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
        ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
    ]  # fmt: skip


class Managed(Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, POINTER(Managed))
Managed._fields_ = [("tensor", Tensor), ("context", c_void_p), ("deleter", Deleter)]


class Versioned(Structure):
    pass


VersionedDeleter = ctypes.CFUNCTYPE(None, POINTER(Versioned))
Versioned._fields_ = [
    ("major", c_uint32), ("minor", c_uint32), ("context", c_void_p),
    ("deleter", VersionedDeleter), ("flags", c_uint64), ("tensor", Tensor),
]  # fmt: skip

pythonapi.PyCapsule_GetPointer.restype = c_void_p
pythonapi.PyCapsule_GetPointer.argtypes = [py_object, c_char_p]
pythonapi.PyCapsule_SetName.argtypes = [py_object, c_char_p]
pythonapi.PyCapsule_New.restype = py_object
pythonapi.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]

READ_ONLY, COPIED = 1, 2
USED = b"used_dltensor_versioned"


def taken(x, **more):
    """The tensor of x, which the caller then owns."""
    capsule = x.__dlpack__(max_version=(1, 0), **more)
    at = pythonapi.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    pythonapi.PyCapsule_SetName(capsule, USED)
    return cast(at, POINTER(Versioned))


@on_cpu
def test_exported_tensors_say_what_they_are():
    managed = taken(hf.arange(12, dtype=hf.int16).reshape(3, 4)[:, ::-2])
    t = managed.contents.tensor
    assert (managed.contents.major, managed.contents.flags) == (1, READ_ONLY)
    assert (t.device_type, t.device_id, t.ndim) == (1, 0, 2)
    assert (t.code, t.bits, t.lanes) == (0, 16, 1)
    assert (t.shape[0], t.shape[1]) == (3, 2)
    elements = cast(t.data, POINTER(ctypes.c_int16))
    rows = [[elements[i * t.strides[0] + j * t.strides[1]] for j in range(2)] for i in range(3)]
    assert rows == [[3, 1], [7, 5], [11, 9]]
    managed.contents.deleter(managed)
    copied = taken(hf.arange(3), copy=True)
    assert copied.contents.flags == COPIED
    copied.contents.deleter(copied)


@on_cpu
def test_exported_memory_is_held_until_the_deleter_and_that_may_run_on_any_thread():
    hf.synchronize()
    before = hf.get_active_memory()
    x = hf.zeros(1000) + 1
    managed = taken(x)
    del x
    hf.synchronize()
    assert hf.get_active_memory() >= before + 4000
    elements = cast(managed.contents.tensor.data, POINTER(ctypes.c_float))
    hf.eval([hf.zeros(1000) for _ in range(8)])
    assert elements[999] == 1
    # ctypes calls it without the GIL.
    thread = threading.Thread(target=lambda: managed.contents.deleter(managed))
    thread.start()
    thread.join()
    hf.synchronize()
    assert hf.get_active_memory() == before


class Producer:
    """Exports a buffer of ctypes, and notes who gives it back."""

    def __init__(self, count):
        self.memory = (ctypes.c_float * count)(*range(count))
        self.shape = (c_int64 * 1)(count)
        self.given_back_by = []
        self.deleter = Deleter(lambda _: self.given_back_by.append(threading.current_thread()))
        self.managed = Managed(
            Tensor(ctypes.addressof(self.memory), 1, 0, 1, 2, 32, 1, self.shape, None, 0),
            None,
            self.deleter,
        )

    def __dlpack__(self):
        return pythonapi.PyCapsule_New(ctypes.addressof(self.managed), b"dltensor", None)

    def __dlpack_device__(self):
        return (1, 0)


@on_cpu
def test_imported_tensors_are_given_back_once_and_by_a_thread_of_python():
    for _ in range(20):
        producer = Producer(64)
        x = hf.from_dlpack(producer)
        y = hf.sum(hf.exp(x) * 0 + x)
        hf.async_eval(y)
        # Whoever drops the last user does not give the memory back by itself: that needs the GIL.
        del x
        assert y.item() == 2016
        del y
        hf.synchronize()
        while not producer.given_back_by:
            hf.eval()
        assert producer.given_back_by == [threading.main_thread()]


def test_tensors_that_no_array_can_be_are_given_back():
    for change in (
        {"device_type": 2}, {"code": 5, "bits": 64}, {"code": 2, "bits": 8}, {"lanes": 4},
        {"ndim": 9},
    ):  # fmt: skip
        producer = Producer(4)
        for name, value in change.items():
            setattr(producer.managed.tensor, name, value)
        with pytest.raises(BufferError):
            hf.from_dlpack(producer)
        assert len(producer.given_back_by) == 1
