"""CUDA's driver by ctypes, as another library in the process uses it: here the stub."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

_library = ctypes.CDLL(os.environ["HOLDFAST_CUDA_DRIVER"])
_SIGNATURES = {
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxPushCurrent": (c_void_p,),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamQuery": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitValue64": (c_void_p, c_uint64, c_uint64, c_uint),
    "cuMemHostAlloc": (POINTER(c_void_p), c_size_t, c_uint),
    "cuMemHostGetDevicePointer": (POINTER(c_uint64), c_void_p, c_uint),
    "cuMemcpyAsync": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemsetD32Async": (c_uint64, c_uint, c_size_t, c_void_p),
    "cuMemPoolCreate": (POINTER(c_void_p), c_void_p),
    "cuMemAllocFromPoolAsync": (POINTER(c_uint64), c_size_t, c_void_p, c_void_p),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
}
_library.cuGetProcAddress_v2.argtypes = (
    c_char_p, POINTER(c_void_p), c_int, c_uint64, POINTER(c_int))  # fmt: skip
NOT_READY = 600


def _found(name):
    address, status = c_void_p(), c_int()
    _library.cuGetProcAddress_v2(name.encode(), byref(address), 12080, 0, byref(status))
    assert address.value, name
    return ctypes.CFUNCTYPE(c_int, *_SIGNATURES[name])(address.value)


def call(name, *arguments):
    result = _found(name)(*arguments)
    assert result == 0, (name, result)


_library.cuInit(0)
_context = c_void_p()
call("cuDevicePrimaryCtxRetain", byref(_context), 0)


def enter():
    """Makes the GPU's context current on this thread."""
    call("cuCtxPushCurrent", _context)


enter()


class Stream:
    """A stream that Holdfast knows nothing of."""

    def __init__(self, handle=None):
        self.handle = c_void_p(handle)
        if handle is None:
            call("cuStreamCreate", byref(self.handle), 1)

    def __int__(self):
        return self.handle.value

    @property
    def done(self):
        result = _found("cuStreamQuery")(self.handle)
        assert result in (0, NOT_READY)
        return result == 0

    def wait(self):
        call("cuStreamSynchronize", self.handle)

    def follow(self, other):
        """What comes later here waits for what the other stream has by now."""
        event = c_void_p()
        call("cuEventCreate", byref(event), 2)
        call("cuEventRecord", event, other.handle)
        call("cuStreamWaitEvent", self.handle, event, 0)


class Pinned:
    """Host memory that the GPU reaches."""

    def __init__(self, count, kind=ctypes.c_float):
        host, address = c_void_p(), c_uint64()
        call("cuMemHostAlloc", byref(host), count * ctypes.sizeof(kind), 3)
        call("cuMemHostGetDevicePointer", byref(address), host, 0)
        self.values = (kind * count).from_address(host.value)
        self.address = address.value


class Gate:
    """Streams wait here until it is opened."""

    def __init__(self):
        self.flag = Pinned(1, c_uint64)
        self.flag.values[0] = 0

    def hold(self, stream):
        call("cuStreamWaitValue64", stream.handle, self.flag.address, 1, 0)

    def open(self):
        self.flag.values[0] = 1


class _Pool(ctypes.Structure):
    _fields_ = [("kind", c_int), ("handles", c_int), ("location", c_int * 2),
                ("rest", ctypes.c_char * 72)]  # fmt: skip


def allocate(count):
    """Floats in memory of the GPU; never freed."""
    pool, stream, address = c_void_p(), Stream(), c_uint64()
    call("cuMemPoolCreate", byref(pool), byref(_Pool(1, 0, (1, 0))))
    call("cuMemAllocFromPoolAsync", byref(address), count * 4, pool, stream.handle)
    stream.wait()
    return address.value


def copy(stream, target, source, count):
    call("cuMemcpyAsync", target, source, count * 4, stream.handle)


def fill(stream, target, value, count):
    bits = ctypes.c_uint.from_buffer(ctypes.c_float(value)).value
    call("cuMemsetD32Async", target, bits, count, stream.handle)
