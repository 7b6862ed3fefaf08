"""Lazy arrays and custom GPU kernels whose memory is never lost in flight.

    import holdfast as hf

    x = hf.arange(6, dtype=hf.float32)
    print(hf.sum(x * 2))

docs/python.md is the guide.
"""

import math as _math

from holdfast import _compilers, _core, fast, random
from holdfast._compile import compile
from holdfast._core import *
from holdfast._io import load, save, save_safetensors, savez
from holdfast._more import *
from holdfast._standard import *
from holdfast._warm_up import warm_up

_compilers.add_all()

__version__ = "{}.{}.{}".format(*_core._version)

# Names that are built-in types, too, come by their short name from the module alone.
bool = _core.bool_
newaxis = None

# What the array API standard calls them.
acos, acosh, asin, asinh = _core.arccos, _core.arccosh, _core.arcsin, _core.arcsinh
atan, atan2, atanh = _core.arctan, _core.arctan2, _core.arctanh
bitwise_left_shift, bitwise_right_shift = _core.left_shift, _core.right_shift
permute_dims, pow = _core.transpose, _core.power
cumulative_sum, cumulative_prod = _core.cumsum, _core.cumprod
pi = _math.pi
e = _math.e
inf = _math.inf
nan = _math.nan

# Users see them as holdfast.array, holdfast.UsageError and so on.
for _type in vars(_core).values():
    if isinstance(_type, type):
        _type.__module__ = "holdfast"
del _type


def __getattr__(name: str):
    # Devices are opened when they are first asked for.
    if name == "cpu":
        return _core.device("cpu")
    if name == "gpu":
        return _core.default_device()
    raise AttributeError(f"module 'holdfast' has no attribute '{name}'")


_core.array.__array_namespace__ = lambda self, /, *, api_version=None: _namespace()


def _namespace():
    import holdfast

    return holdfast
