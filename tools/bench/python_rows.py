#!/usr/bin/env python3
"""What calls from Python cost, beside MLX on the CPU and NumPy; runs what is installed.

  per node     a chain of additions of 16 floats, built, and built and evaluated
  kernel call  a custom kernel's call, built, and built and evaluated
  DLPack       to NumPy and back
  tail         what a transformer block does around its products (bias, GELU, residual, RMS norm) on
               512 rows of 4,096 floats: as it stands, and by the package's compile()
  import       a process that imports the package, less one that imports nothing

Each row is the fastest of several rounds. --json FILE writes them for scripts."""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time

ROUNDS = 15
NODES = 1000


def best(call, count, rounds=ROUNDS):
    """Seconds for each of `count` things that a call does; the fastest round."""
    call()
    fastest = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        fastest = min(fastest, time.perf_counter() - begin)
    return fastest / count


def chain_rows(xp, evaluate):
    x = xp.ones((16,), dtype=xp.float32)
    evaluate(x)

    def build():
        y = x
        for _ in range(NODES):
            y = y + x
        return y

    def build_and_evaluate():
        evaluate(build())

    return {
        "node, built": best(build, NODES),
        "node, built and evaluated": best(build_and_evaluate, NODES),
    }


def lazy_rows(xp, device):
    """Of Holdfast, or of MLX under the same names."""
    if device is not None:
        xp.set_default_device(device)
    rows = chain_rows(xp, xp.eval)

    x = xp.ones((16,), dtype=xp.float32)
    xp.eval(x)

    def one():
        xp.eval(x + x)

    rows["one node, evaluated at once"] = best(lambda: [one() for _ in range(200)], 200)
    return rows


def kernel_rows(hf):
    kernel = hf.kernel(
        "bench_axpy", ["x", "y"], ["z"],
        "uint i = thread_position_in_grid.x; z[i] = T(a) * x[i] + y[i];",
    )  # fmt: skip
    x, y = hf.ones(16), hf.ones(16)
    hf.eval(x, y)
    shapes, dtypes, template, params = [(16,)], [hf.float32], [("T", hf.float32)], {"a": 2.0}

    def call():
        return kernel(
            inputs=[x, y], output_shapes=shapes, output_dtypes=dtypes, grid=(16, 1, 1),
            threadgroup=(16, 1, 1), template=template, params=params,
        )  # fmt: skip

    def bare():
        return kernel_of_two(
            inputs=[x, y], output_shapes=shapes, output_dtypes=dtypes, grid=(16, 1, 1),
            threadgroup=(16, 1, 1),
        )  # fmt: skip

    kernel_of_two = hf.kernel(
        "bench_add", ["x", "y"], ["z"],
        "uint i = thread_position_in_grid.x; z[i] = x[i] + y[i];",
    )  # fmt: skip
    hf.eval(call(), bare())
    return {
        "kernel call, built": best(lambda: [bare() for _ in range(NODES)], NODES),
        "kernel call with template and params, built": best(
            lambda: [call() for _ in range(NODES)], NODES
        ),
        "kernel call, built and evaluated": best(
            lambda: hf.eval([bare() for _ in range(NODES)]), NODES
        ),
    }


def dlpack_rows(hf):
    try:
        import numpy as np
    except ImportError:
        return {}
    if "cpu" not in hf.default_device().name:
        return {}
    x = hf.ones(16)
    hf.eval(x)
    a = np.ones(16, np.float32)
    return {
        "DLPack to NumPy": best(lambda: [np.from_dlpack(x) for _ in range(NODES)], NODES),
        "DLPack from NumPy": best(lambda: [hf.from_dlpack(a) for _ in range(NODES)], NODES),
        "DLPack round trip": best(
            lambda: [hf.from_dlpack(np.from_dlpack(x)) for _ in range(NODES)], NODES
        ),
    }


def tail_rows(xp, run, compiles, erf):
    """run(f): calls f and waits. compiles: each of the package's ways to compile a function."""
    rows, width = 512, 4096
    x, residual = xp.ones((rows, width)), xp.ones((rows, width))
    bias, weight = xp.ones((width,)), xp.ones((width,))

    def tail(x, bias, residual, weight):
        h = x + bias
        y = 0.5 * h * (1.0 + erf(h * 0.70710678)) + residual
        mean = (y * y).mean(-1)[..., None]
        return y * (mean + 1e-5) ** -0.5 * weight

    measured = {}
    for name, compiled in ({"as it stands": tail} | {n: c(tail) for n, c in compiles.items()}).items():
        measured[f"tail of a block, {name}"] = best(
            lambda: run(lambda: compiled(x, bias, residual, weight)), 1
        )
    return measured


def import_row(package):
    def seconds(program):
        fastest = float("inf")
        for _ in range(10):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            fastest = min(fastest, time.perf_counter() - begin)
        return fastest

    return {"import": seconds(f"import {package}") - seconds("pass")}


def holdfast_rows():
    import holdfast as hf

    compiles = {"compiled": hf.compile, "unfused": lambda f: hf.compile(f, fuse=False)}
    return (
        lazy_rows(hf, None)
        | kernel_rows(hf)
        | dlpack_rows(hf)
        | tail_rows(hf, lambda f: hf.eval(f()), compiles, hf.erf)
        | import_row("holdfast")
    )


def mlx_rows():
    mx = importlib.import_module("mlx.core")
    rows = lazy_rows(mx, mx.cpu)
    return (
        rows
        | tail_rows(mx, lambda f: mx.eval(f()), {"compiled": mx.compile}, mx.erf)
        | import_row("mlx.core")
    )


def torch_rows():
    import torch

    return tail_rows(torch, lambda f: f(), {"compiled": torch.compile}, torch.erf)


def numpy_rows():
    import numpy as np

    return chain_rows(np, lambda *_: None) | import_row("numpy")


COLUMNS = {
    "holdfast": holdfast_rows,
    "mlx": mlx_rows,
    "torch": torch_rows,
    "numpy": numpy_rows,
}


def shown(seconds):
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.2f} us"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--column", choices=COLUMNS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.column:
        print(json.dumps(COLUMNS[arguments.column]()))
        return
    table = {}
    for column in COLUMNS:
        # Each in a process of its own: their threads do not meet.
        done = subprocess.run(
            [sys.executable, os.path.abspath(__file__), "--column", column],
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode == 0:
            table[column] = json.loads(done.stdout)
        else:
            print(f"{column}: left out ({done.stderr.strip().splitlines()[-1]})", file=sys.stderr)
    names = dict.fromkeys(row for rows in table.values() for row in rows)
    print("| |" + "".join(f" {column} |" for column in table))
    print("|---|" + "---|" * len(table))
    for name in names:
        cells = (shown(rows[name]) if name in rows else "" for rows in table.values())
        print(f"| {name} |" + "".join(f" {cell} |" for cell in cells))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(table, file, indent=1)


if __name__ == "__main__":
    main()
