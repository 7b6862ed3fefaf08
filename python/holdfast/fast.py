"""Kernels under the names that MLX gives them."""

from holdfast._core import kernel as metal_kernel

__all__ = ["metal_kernel"]
