"""Kernels, and what models spend their time in, under the names that MLX gives them."""

from holdfast._core import _layer_norm as layer_norm
from holdfast._core import _rms_norm as rms_norm
from holdfast._core import _rope as rope
from holdfast._core import _scaled_dot_product_attention as scaled_dot_product_attention
from holdfast._core import kernel as metal_kernel

__all__ = ["layer_norm", "metal_kernel", "rms_norm", "rope", "scaled_dot_product_attention"]
