"""Kernels, and what models spend their time in, under the names that MLX gives them."""

from holdfast._core import _layer_norm as layer_norm
from holdfast._core import _rms_norm as rms_norm
from holdfast._core import _rope as rope
from holdfast._core import _scaled_dot_product_attention as scaled_dot_product_attention
from holdfast._core import kernel as metal_kernel

__all__ = [
    "cuda_kernel",
    "layer_norm",
    "metal_kernel",
    "rms_norm",
    "rope",
    "scaled_dot_product_attention",
]


def __getattr__(name: str):
    # Most programs need none of it.
    if name == "cuda_kernel":
        from holdfast._cuda_kernel import cuda_kernel

        return cuda_kernel
    raise AttributeError(f"module 'holdfast.fast' has no attribute '{name}'")
