#!/usr/bin/env python3
"""binding.py LIBRARY: a binding in a few lines, over the C functions of the shared library alone.

Handles, structs by value, texts, codes and statuses, as a foreign language passes them.
"""

import ctypes
import sys
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)


class Text(Structure):
    _fields_ = [("data", c_char_p), ("length", c_size_t)]


class Scalar(Structure):
    _fields_ = [("bits", c_uint64), ("dtype", c_int32)]


class Term(Structure):
    _fields_ = [("array", c_void_p), ("number", Scalar)]


INT32, ADD, SUM, FOREVER, USAGE = 5, 0, 0, -1, 1

hf = ctypes.CDLL(sys.argv[1])
hf.hf_last_error.restype = c_char_p
hf.hf_abi_version.restype = c_uint32
hf.hf_arange.argtypes = [c_double, c_double, c_double, c_int32, c_void_p, POINTER(c_void_p)]
hf.hf_binary.argtypes = [c_int32, Term, Term, c_void_p, POINTER(c_void_p)]
hf.hf_reduce.argtypes = [
    c_int32, c_void_p, POINTER(c_int64), c_size_t, c_int32, c_void_p, POINTER(c_void_p),
]  # fmt: skip
hf.hf_array_item.argtypes = [c_void_p, c_int64, POINTER(Scalar)]
hf.hf_array_release.argtypes = [c_void_p]
hf.hf_array_release.restype = None
hf.hf_device_get.argtypes = [Text, POINTER(c_void_p)]


class Array:
    """Owns one handle."""

    def __init__(self, function, *arguments):
        self.handle = c_void_p()
        if function(*arguments, byref(self.handle)) != 0:
            raise RuntimeError(hf.hf_last_error().decode())

    def __del__(self):
        hf.hf_array_release(self.handle)

    def __add__(self, number):
        me = Term(self.handle, Scalar(0, -1))
        return Array(hf.hf_binary, ADD, me, Term(None, Scalar(number, INT32)), None)

    def sum(self):
        return Array(hf.hf_reduce, SUM, self.handle, None, 0, 0, None)

    def item(self):
        value = Scalar()
        if hf.hf_array_item(self.handle, FOREVER, byref(value)) != 0:
            raise RuntimeError(hf.hf_last_error().decode())
        return value.bits


total = (Array(hf.hf_arange, 0, 1000, 1, INT32, None) + 2).sum().item()
nobody = c_void_p(7)
status = hf.hf_device_get(Text(b"nobody and more", 6), byref(nobody))
refused = status == USAGE and nobody.value == 7 and b"'nobody'" in hf.hf_last_error()
print(f"C interface {hf.hf_abi_version()}, the sum is {total}; {hf.hf_last_error().decode()}")
print("ok" if total == 501500 and refused else "wrong")
sys.exit(0 if total == 501500 and refused else 1)
