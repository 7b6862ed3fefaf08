"""hf.fast.cuda_kernel: the body of a CUDA kernel; each call makes the function around it."""

import re
from collections.abc import Sequence
from typing import Any

from holdfast import _core
from holdfast._core import Dtype, Kernel, Native, array

_TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned int",
    "int64": "long",
    "uint64": "unsigned long",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float32": "float",
    "float64": "double",
}
_HEADERS = {
    r"__half": "cuda_fp16.h",
    r"__nv_bfloat16": "cuda_bf16.h",
    r"cooperative_groups|cg": "cooperative_groups.h",
}
# NVRTC has no <cstdint> of its own.
_INTEGERS = """\
#if __has_include(<cuda/std/cstdint>)
#include <cuda/std/cstdint>
#else
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
#endif
"""
# What shapes and strides are in the body, and what finds an element by them.
_PREAMBLE = """\
template <typename hf_T, int hf_N>
struct hf_dims {
  hf_T hf_values[hf_N];
  __device__ const hf_T& operator[](int i) const { return hf_values[i]; }
  __device__ const hf_T* data() const { return hf_values; }
  __device__ static constexpr int size() { return hf_N; }
};
template <typename hf_I = long>
__device__ hf_I elem_to_loc(hf_I elem, const int* shape, const long* strides, int ndim) {
  hf_I location = 0;
  for (int i = ndim - 1; i >= 0 && elem > 0; --i) {
    location += (elem % shape[i]) * hf_I(strides[i]);
    elem /= shape[i];
  }
  return location;
}
"""


def _dtype(given: Any) -> Dtype:
    return given if isinstance(given, Dtype) else _core.zeros((), given).dtype


def _declared(name: str, value: bool | int | Dtype) -> str:
    if isinstance(value, bool):
        return f"  constexpr bool {name} = {'true' if value else 'false'};\n"
    if isinstance(value, int):
        return f"  constexpr int {name} = {value};\n"
    return f"  using {name} = {_TYPES[_dtype(value).name]};\n"


class CudaKernel:
    """A kernel written as the body of a CUDA function. Call it with arrays on an NVIDIA GPU."""

    def __init__(
        self,
        name: str,
        input_names: Sequence[str],
        output_names: Sequence[str],
        source: str,
        header: str,
        ensure_row_contiguous: bool,
        shared_memory: int,
    ):
        self.name = name
        self._inputs = tuple(input_names)
        self._outputs = tuple(output_names)
        self._source = source
        self._header = header
        self._ensure_row_contiguous = ensure_row_contiguous
        self._shared_memory = shared_memory
        words = set(re.findall(r"\w+", source))
        # (input, "shape" or "strides"), for those that the body uses.
        self._dims = [
            (i, part)
            for i, n in enumerate(self._inputs)
            for part in ("shape", "strides")
            if f"{n}_{part}" in words
        ]
        self._ranks = [i for i, n in enumerate(self._inputs) if f"{n}_ndim" in words]
        self._kernels: dict[tuple, Kernel] = {}
        # Names, counts and text are checked where the kernel is defined, as for other kernels.
        self._made((), (), ())

    def __repr__(self) -> str:
        return f"CudaKernel('{self.name}')"

    def _text(self, inputs: tuple, outputs: tuple, template: Sequence) -> str:
        """The whole text for inputs of (dtype, rank), outputs of dtypes and these constants."""
        arguments = [
            f"const {_TYPES[dtype.name]}* {n}"
            for n, (dtype, _) in zip(self._inputs, inputs, strict=False)
        ]
        arguments += [
            f"{_TYPES[dtype.name]}* {n}" for n, dtype in zip(self._outputs, outputs, strict=False)
        ]
        members, body = "", ""
        for i, part in self._dims if inputs else ():
            rank = inputs[i][1]
            if rank == 0:
                continue
            kind = "int" if part == "shape" else "long"
            name = f"{self._inputs[i]}_{part}"
            numbers = [f"{name}_{axis}" for axis in range(rank)]
            members += "".join(f"  {kind} {number};\n" for number in numbers)
            values = ", ".join(f"hf_p.{number}" for number in numbers)
            body += f"  const hf_dims<{kind}, {rank}> {name}{{{{{values}}}}};\n"
        for i in self._ranks if inputs else ():
            body += f"  constexpr int {self._inputs[i]}_ndim = {inputs[i][1]};\n"
        if members:
            arguments.append("const __grid_constant__ hf_parameters hf_p")
        for name, value in template:
            body += _declared(name, value)
        signature = ", ".join(arguments)
        used = signature + body + self._header + self._source
        headers = "".join(
            f"#include <{file}>\n"
            for pattern, file in _HEADERS.items()
            if re.search(rf"\b({pattern})\b", used)
        )
        if "<cooperative_groups.h>" in headers:
            headers += "namespace cg = cooperative_groups;\n"
        if re.search(r"\bu?int(8|16|32|64)_t\b", used):
            headers += _INTEGERS
        return (
            f'#line 1 "holdfast"\n{headers}{_PREAMBLE}'
            f'#line 1 "header of {self.name}"\n{self._header}\n'
            f'#line 1 "holdfast, around {self.name}"\nstruct hf_parameters {{\n{members}}};\n'
            f'extern "C" __global__ void custom_kernel_{self.name}({signature}) {{\n{body}'
            f'#line 1 "{self.name}"\n{self._source}\n}}\n'
        )

    def _made(self, inputs: tuple, outputs: tuple, template: tuple) -> Kernel:
        key = (inputs, outputs, template)
        found = self._kernels.get(key)
        if found is None:
            native = Native(
                "cuda",
                self._text(inputs, outputs, template),
                entry_point=f"custom_kernel_{self.name}",
                shared_memory=self._shared_memory,
            )
            found = self._kernels[key] = _core.kernel(
                self.name,
                self._inputs,
                self._outputs,
                ensure_row_contiguous=self._ensure_row_contiguous,
                natives=[native],
            )
        return found

    def __call__(
        self,
        *,
        inputs: Sequence[array | bool | int | float],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[Dtype],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        template: Sequence[tuple[str, bool | int | Dtype]] | None = None,
        init_value: float | None = None,
        verbose: bool = False,
        stream: Any = None,
    ) -> list[array]:
        """Builds one node and returns its outputs.

        The grid counts threads. As in CUDA, blocks are whole: threads beyond the grid run, too,
        where the threadgroup does not divide it. template: compiled in. verbose: print the text."""
        if stream is None:
            stream = next((a.device for a in inputs if isinstance(a, array)), None)
        given = [a if isinstance(a, array) else array(a, stream=stream) for a in inputs]
        if self._ensure_row_contiguous and any(part == "strides" for _, part in self._dims):
            given = [_core.contiguous(a) for a in given]
        key = (
            tuple((a.dtype, a.ndim) for a in given),
            tuple(_dtype(d) for d in output_dtypes),
            tuple(template.items() if isinstance(template, dict) else template or ()),
        )
        kernel = self._made(*key)
        if verbose:
            print(self._text(*key))
        params = {}
        if self._dims and len(given) == len(self._inputs):
            from ctypes import c_int, c_long  # numbers of one type, whatever their value

            for i, part in self._dims:
                kind = c_int if part == "shape" else c_long
                for axis, value in enumerate(getattr(given[i], part)):
                    params[f"{self._inputs[i]}_{part}_{axis}"] = kind(value)
        return kernel(
            inputs=given,
            output_shapes=output_shapes,
            output_dtypes=output_dtypes,
            grid=grid,
            threadgroup=threadgroup,
            init_value=init_value,
            stream=stream,
            params=params,
        )
