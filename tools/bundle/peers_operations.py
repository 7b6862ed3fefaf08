#!/usr/bin/env python3
"""Measures other libraries on the operations that holdfast_bench measured, and prints one table.

usage: holdfast_bench --filter operation/ --json ROWS.json
       peers_operations.py ROWS.json [--json PEERS.json] [--filter REGEX]        torch and CuPy
       peers_operations.py --bench PROGRAM [--json PEERS.json] [--filter REGEX]  NumPy, on the CPU

The rows' names say what to do: operation/NAME/DTYPE/SHAPE. A library without such an operation has
no time for it. The method is the same as holdfast_bench's: many evaluations submitted one after the
other, one wait at the end, the median of nine rounds. "copy" is Holdfast's copy of as many bytes.
With --bench, PROGRAM is holdfast_bench, which runs for one kind of operation at a time, and NumPy
right after it, so that both meet the same machine. PEERS.json has the format of holdfast_bench: a
row for each library, which is the device; reference: Holdfast.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time


def torch_case(torch, operation, dtype, shape):
    """A function that does the operation once; None: there is none."""
    kind = getattr(torch, dtype)
    device = "cuda"

    def numbers(*dims):
        return torch.rand(dims, device=device, dtype=torch.float32).to(kind)

    if operation in ("matmul", "quantized_matmul"):
        m, n, k = shape
        if operation == "matmul":
            a, b = numbers(m, k), numbers(k, n)
            return lambda: torch.matmul(a, b)
        return torch_quantized(torch, numbers(m, k), n, k)

    a = numbers(*shape)
    rows = shape[0]
    if operation in ("add", "where", "concatenate_rows", "concatenate_columns"):
        b = numbers(*shape)
        condition = torch.rand(shape, device=device) < 0.5 if operation == "where" else None
        return {
            "add": lambda: a + b,
            "where": lambda: torch.where(condition, a, b),
            "concatenate_rows": lambda: torch.cat((a, b), 0),
            "concatenate_columns": lambda: torch.cat((a, b), 1),
        }[operation]
    if operation in ("take_rows", "take", "scatter_rows", "scatter_add_rows"):
        positions = torch.randperm(rows, device=device)[: rows // 2].to(torch.int32)
        if operation.startswith("take"):
            return lambda: torch.index_select(a, 0, positions)
        updates = numbers(rows // 2, shape[1])
        if operation == "scatter_rows":
            positions = positions.to(torch.int64)  # index_copy_ takes no other
            return lambda: a.index_copy_(0, positions, updates)
        return lambda: a.index_add_(0, positions, updates)
    row = numbers(shape[1])
    column = numbers(rows, 1)
    calls = {
        "multiply_scalar": lambda: a * 1.5,
        "exp": lambda: torch.exp(a),
        "add_row": lambda: a + row,
        "add_column": lambda: a + column,
        "add_transposed": lambda: a + a.T,
        "transpose": lambda: a.T.contiguous(),
        "slice": lambda: a[:, 64:].contiguous(),
        "slice_odd": lambda: a[:, 1:-2].contiguous(),
        "astype_float16": lambda: a.to(torch.float16),
        "sum_all": lambda: a.sum(),
        "sum_rows": lambda: a.sum(1),
        "sum_columns": lambda: a.sum(0),
        "max_all": lambda: a.amax(),
        "max_rows": lambda: a.amax(1),
        "argmax_all": lambda: a.argmax(),
        "argmax_rows": lambda: a.argmax(1),
        "softmax": lambda: torch.softmax(a, -1),
        "softmax_columns": lambda: torch.softmax(a, 0),
    }
    return calls.get(operation)


def torch_quantized(torch, x, n, k):
    """What torch has for 4-bit weights in groups of 64: dequantize, then multiply."""
    count = max(2, min(16, (256 << 20) // (n * k // 2)))
    weights = []
    for _ in range(count):
        packed = torch.randint(0, 256, (n, k // 2), device="cuda", dtype=torch.uint8)
        scales = torch.rand((n, k // 64, 1), device="cuda").to(x.dtype)
        biases = torch.rand((n, k // 64, 1), device="cuda").to(x.dtype)
        weights.append((packed, scales, biases))
    turn = [0]

    def call():
        packed, scales, biases = weights[turn[0] % count]
        turn[0] += 1
        values = torch.stack((packed & 15, packed >> 4), -1).view(n, k // 64, 64).to(x.dtype)
        return x @ (values * scales + biases).view(n, k).T

    return call


def numpy_case(numpy, operation, dtype, shape):
    if dtype == "bfloat16" or (operation, dtype) == ("matmul", "float16"):
        return None  # NumPy has none, or takes 14 seconds for 1024 x 1024
    random = numpy.random.default_rng(1)
    if operation in ("softmax", "softmax_columns"):
        a = random.random(shape, dtype=numpy.float32).astype(dtype)
        axis = -1 if operation == "softmax" else 0

        def softmax():
            powers = numpy.exp(a - a.max(axis, keepdims=True))
            return powers / powers.sum(axis, keepdims=True)

        return softmax
    if operation in ("scatter_rows", "scatter_add_rows"):
        a = random.random(shape, dtype=numpy.float32).astype(dtype)
        positions = random.permutation(shape[0])[: shape[0] // 2]
        updates = random.random((shape[0] // 2, shape[1]), dtype=numpy.float32).astype(dtype)
        if operation == "scatter_rows":
            return lambda: a.__setitem__(positions, updates)
        return lambda: numpy.add.at(a, positions, updates)
    return cupy_case(numpy, operation, dtype, shape, random)


def cupy_case(cupy, operation, dtype, shape, random=None):
    """Of CuPy or NumPy, whose interfaces are the same here."""
    random = random or cupy.random

    def numbers(*dims):
        return random.random(dims, dtype=cupy.float32).astype(dtype)

    if operation in ("matmul", "quantized_matmul"):
        if operation == "quantized_matmul":
            return None
        m, n, k = shape
        left, right = numbers(m, k), numbers(k, n)
        return lambda: left @ right
    a = numbers(*shape)
    rows = shape[0]
    if operation in ("add", "where", "concatenate_rows", "concatenate_columns"):
        b = numbers(*shape)
        condition = random.random(shape, dtype=cupy.float32) < 0.5
        return {
            "add": lambda: a + b,
            "where": lambda: cupy.where(condition, a, b),
            "concatenate_rows": lambda: cupy.concatenate((a, b), 0),
            "concatenate_columns": lambda: cupy.concatenate((a, b), 1),
        }[operation]
    if operation in ("take_rows", "take"):
        positions = random.permutation(rows)[: rows // 2].astype(cupy.int32)
        return lambda: cupy.take(a, positions, 0)
    row = numbers(shape[1])
    column = numbers(rows, 1)
    scalar = a.dtype.type(1.5)
    calls = {
        "multiply_scalar": lambda: a * scalar,
        "exp": lambda: cupy.exp(a),
        "add_row": lambda: a + row,
        "add_column": lambda: a + column,
        "add_transposed": lambda: a + a.T,
        "transpose": lambda: cupy.ascontiguousarray(a.T),
        "slice": lambda: cupy.ascontiguousarray(a[:, 64:]),
        "slice_odd": lambda: cupy.ascontiguousarray(a[:, 1:-2]),
        "astype_float16": lambda: a.astype(cupy.float16),
        "sum_all": lambda: a.sum(),
        "sum_rows": lambda: a.sum(1),
        "sum_columns": lambda: a.sum(0),
        "max_all": lambda: a.max(),
        "max_rows": lambda: a.max(1),
        "argmax_all": lambda: a.argmax(),
        "argmax_rows": lambda: a.argmax(1),
    }
    return calls.get(operation)


def timed(call, wait, times):
    wait()
    start = time.perf_counter()
    for _ in range(times):
        call()
    wait()
    return (time.perf_counter() - start) / times


def times_of(call, wait, seconds=0.02):
    timed(call, wait, 2)
    return max(1, min(2000, int(seconds / timed(call, wait, 2))))


def measure(call, wait):
    """Nanoseconds of the median round."""
    times = times_of(call, wait)
    return statistics.median(timed(call, wait, times) for _ in range(9)) * 1e9


class Table:
    """The rows of Holdfast beside those of libraries; collects the libraries' own."""

    def __init__(self, libraries, width):
        self.libraries = libraries  # names and modules
        self.width = width
        self.peers = []
        print(f"{'name':<{width}} {'holdfast':>9} {'copy':>9} {'share':>6} " +
              " ".join(f"{name:>9} {name + '/hf':>8}" for name in libraries))

    def add(self, row, found):
        ours, copy = row["ours"], row["reference"]
        cells = [f"{ours / 1e3:9.1f}", f"{copy / 1e3:9.1f}" if copy else f"{'-':>9}",
                 f"{copy / ours:6.2f}" if copy else f"{'-':>6}"]
        for library, module in self.libraries.items():
            ns = found.get(library)
            cells += [f"{ns / 1e3:9.1f}", f"{ns / ours:8.2f}"] if ns else [f"{'-':>9}", f"{'-':>8}"]
            if ns:
                self.peers.append({"name": row["name"], "device": library,
                                   "build": module.__version__, "unit": "ns", "ours": ns,
                                   "reference": ours, "ratio": ns / ours, "spread": 0})
        print(f"{row['name']:<{self.width}} " + " ".join(cells), flush=True)


def parts_of(name):
    _, operation, dtype, dims = name.split("/")
    return operation, dtype, tuple(int(d) for d in dims.split("x"))


def beside_gpu_libraries(rows):
    import torch

    try:
        import cupy
    except ImportError:
        cupy = None
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"torch {torch.__version__}, CuPy {cupy.__version__ if cupy else 'none'}, "
          f"{torch.cuda.get_device_name()}; times in microseconds")
    table = Table({"torch": torch, "cupy": cupy}, max([len(r["name"]) for r in rows] + [4]))
    for row in rows:
        operation, dtype, shape = parts_of(row["name"])
        found = {}
        for library, module, case in (("torch", torch, torch_case), ("cupy", cupy, cupy_case)):
            if module is None:
                continue
            try:
                made = case(module, operation, dtype, shape)
                if made is None:
                    continue
                wait = (torch.cuda.synchronize if library == "torch"
                        else module.cuda.Device().synchronize)
                found[library] = measure(made, wait)
            except Exception as error:  # one operation of one library, not all of them
                print(f"{row['name']}: {library}: {type(error).__name__}: {error}", file=sys.stderr)
            finally:
                made = None
                torch.cuda.empty_cache()
                if cupy is not None:
                    cupy.get_default_memory_pool().free_all_blocks()
        table.add(row, found)
    return table.peers


def rows_by(program, pattern):
    """What holdfast_bench measures now, on the CPU."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([program, "--filter", pattern, "--json", file.name], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, "HOLDFAST_DEVICE": "cpu"})
        return json.load(file)


# What NumPy has, and users of arrays on a CPU wait for.
FAMILIES = ["add", "multiply_scalar", "exp", "add_row", "add_transposed", "transpose", "sum_all",
            "sum_rows", "max_rows", "softmax", "astype_float16", "matmul"]


def beside_numpy(program, pattern):
    try:
        import numpy
    except ImportError:
        sys.exit("error: this Python has no NumPy; install it (pip install numpy), or set "
                 "PYTHONPATH to where it is")
    print(f"NumPy {numpy.__version__}, {os.cpu_count()} processors; times in microseconds")
    table = Table({"numpy": numpy}, 46)
    for family in FAMILIES:
        for dtype in ("float32", "float16"):
            name = f"operation/{family}/{dtype}"
            if not re.search(pattern, name):
                continue
            for row in rows_by(program, f"^{name}$"):
                made = numpy_case(numpy, *parts_of(row["name"]))
                table.add(row, {"numpy": measure(made, lambda: None)} if made else {})
    return table.peers


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="?", help="what holdfast_bench --json wrote")
    parser.add_argument("--bench", help="holdfast_bench itself, to measure it beside NumPy")
    parser.add_argument("--json", help="also write the peers' rows to this file")
    parser.add_argument("--filter", default="operation/", help="only rows whose name matches this")
    options = parser.parse_args()
    if (options.rows is None) == (options.bench is None):
        parser.error("give either the rows or --bench")
    if options.bench:
        peers = beside_numpy(options.bench, options.filter)
    else:
        with open(options.rows) as file:
            rows = [r for r in json.load(file) if re.search(options.filter, r["name"])]
        peers = beside_gpu_libraries([r for r in rows if r["name"].startswith("operation/")])
    if options.json:
        with open(options.json, "w") as file:
            json.dump(peers, file, indent=2)


if __name__ == "__main__":
    main()
