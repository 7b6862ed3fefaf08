"""Kernels, and what models spend their time in, under the names that MLX gives them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast._core import _layer_norm as layer_norm
from holdfast._core import _rms_norm as rms_norm
from holdfast._core import _rope as rope
from holdfast._core import _scaled_dot_product_attention as scaled_dot_product_attention
from holdfast._core import kernel as metal_kernel

if TYPE_CHECKING:
    from holdfast._cuda_kernel import CudaKernel

__all__ = [
    "cuda_kernel",
    "layer_norm",
    "metal_kernel",
    "rms_norm",
    "rope",
    "scaled_dot_product_attention",
]


def cuda_kernel(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    ensure_row_contiguous: bool = True,
    shared_memory: int = 0,
) -> "CudaKernel":
    """A kernel written as the body of a CUDA function; its signature is made for each call.

    The body sees each input and output as a pointer, and `x_shape`, `x_strides` and `x_ndim` of an
    input if it uses them. Includes belong into the header. shared_memory: bytes of `extern
    __shared__` memory of each block."""
    from holdfast._cuda_kernel import CudaKernel  # most programs need none of it

    return CudaKernel(
        name, input_names, output_names, source, header, ensure_row_contiguous, shared_memory
    )
