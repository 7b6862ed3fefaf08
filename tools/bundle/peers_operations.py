#!/usr/bin/env python3
"""Measures torch and CuPy on the operations that holdfast_bench measured, and prints one table.

usage: holdfast_bench --filter operation/ --json ROWS.json
       peers_operations.py ROWS.json [--json PEERS.json] [--filter REGEX]

The rows' names say what to do: operation/NAME/DTYPE/SHAPE. A library without such an operation has
no time for it. The method is the same as holdfast_bench's: many evaluations submitted one after the
other, one wait at the end, the median of nine rounds. "copy" is Holdfast's copy of as many bytes.
PEERS.json has the format of holdfast_bench: a row for each library, which is the device; reference:
Holdfast.
"""

import argparse
import json
import re
import statistics
import sys
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


def cupy_case(cupy, operation, dtype, shape):
    def numbers(*dims):
        return cupy.random.random(dims, dtype=cupy.float32).astype(dtype)

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
        condition = cupy.random.random(shape, dtype=cupy.float32) < 0.5
        return {
            "add": lambda: a + b,
            "where": lambda: cupy.where(condition, a, b),
            "concatenate_rows": lambda: cupy.concatenate((a, b), 0),
            "concatenate_columns": lambda: cupy.concatenate((a, b), 1),
        }[operation]
    if operation in ("take_rows", "take"):
        positions = cupy.random.permutation(rows)[: rows // 2].astype(cupy.int32)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", help="what holdfast_bench --json wrote")
    parser.add_argument("--json", help="also write the peers' rows to this file")
    parser.add_argument("--filter", default="operation/", help="only rows whose name matches this")
    options = parser.parse_args()
    with open(options.rows) as file:
        rows = [r for r in json.load(file) if re.search(options.filter, r["name"])]
    rows = [r for r in rows if r["name"].startswith("operation/")]

    import torch

    try:
        import cupy
    except ImportError:
        cupy = None
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"torch {torch.__version__}, CuPy {cupy.__version__ if cupy else 'none'}, "
          f"{torch.cuda.get_device_name()}; times in microseconds")
    width = max([len(r["name"]) for r in rows] + [4])
    print(f"{'name':<{width}} {'holdfast':>9} {'copy':>9} {'share':>6} {'torch':>9} {'torch/hf':>8} "
          f"{'cupy':>9} {'cupy/hf':>8}")
    peers = []
    for row in rows:
        _, operation, dtype, dims = row["name"].split("/")
        shape = tuple(int(d) for d in dims.split("x"))
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
                ns = measure(made, wait)
            except Exception as error:  # one operation of one library, not all of them
                print(f"{row['name']}: {library}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            finally:
                made = None
                torch.cuda.empty_cache()
                if cupy is not None:
                    cupy.get_default_memory_pool().free_all_blocks()
            found[library] = ns
            peers.append({"name": row["name"], "device": library, "build": module.__version__,
                          "unit": "ns", "ours": ns, "reference": row["ours"],
                          "ratio": ns / row["ours"], "spread": 0})
        ours = row["ours"]
        copy = row["reference"]
        cells = [f"{ours / 1e3:9.1f}", f"{copy / 1e3:9.1f}" if copy else f"{'-':>9}",
                 f"{copy / ours:6.2f}" if copy else f"{'-':>6}"]
        for library in ("torch", "cupy"):
            ns = found.get(library)
            cells += [f"{ns / 1e3:9.1f}", f"{ns / ours:8.2f}"] if ns else [f"{'-':>9}", f"{'-':>8}"]
        print(f"{row['name']:<{width}} " + " ".join(cells), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(peers, file, indent=2)


if __name__ == "__main__":
    main()
