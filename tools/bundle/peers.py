#!/usr/bin/env python3
"""Measures what others take to launch tiny kernels, and prints it beside Holdfast's own rows.

usage: peers.py measure PEERS.json [--short]
       peers.py table PEERS.json ROWS.json...

measure takes what this Python has of torch, Triton and CuPy, and says what it lacks. The method is
that of holdfast_bench: batches of 64 launches of 256 threads on a stream of their own, the host's
time and the time until the device is done, a wait after each batch; medians of nine rounds.
table joins that with the rows that holdfast_bench --json wrote.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time

BATCH = 64
WIDTH = 256
ROUNDS = 9
ALLOCATED = 64 << 10

CUDA_SOURCE = r"""
extern "C" __global__ void add(const float* a, const float* b, float* out, float bias) {
  int i = threadIdx.x;
  out[i] = a[i] + b[i] + bias;
}
"""


# --- measuring ------------------------------------------------------------------------------------


class Clock:
    def __init__(self, short):
        self.batches = 2 if short else 40
        self.calls = 20 if short else 1000

    def launches(self, launch, wait):
        """{"host", "drained"}: nanoseconds a launch. launch(k) does the k-th of a batch."""

        def batch():
            start = time.perf_counter_ns()
            for k in range(BATCH):
                launch(k)
            given = time.perf_counter_ns()
            wait()
            return given - start, time.perf_counter_ns() - start

        for _ in range(4):
            batch()
        host, drained = [], []
        for _ in range(ROUNDS):
            times = [batch() for _ in range(self.batches)]
            host.append(statistics.mean(t[0] for t in times) / BATCH)
            drained.append(statistics.mean(t[1] for t in times) / BATCH)
        return {"host": statistics.median(host), "drained": statistics.median(drained)}

    def each(self, call):
        """Nanoseconds a call."""
        rounds = []
        for _ in range(ROUNDS):
            start = time.perf_counter_ns()
            for _ in range(self.calls):
                call()
            rounds.append((time.perf_counter_ns() - start) / self.calls)
        return statistics.median(rounds)


def three_ways(clock, wait, outs, pair, given, allocating):
    """given(x, out): launches into memory that is there. allocating(): into memory of its own."""

    def chain(k):
        given(pair[k % 2], pair[1 - k % 2])

    return {
        "independent": clock.launches(lambda k: given(None, outs[k]), wait),
        "chain": clock.launches(chain, wait),
        "allocated": clock.launches(lambda k: allocating(), wait),
    }


def measure_cupy(clock):
    import cupy
    import numpy

    result = {"version": f"CuPy {cupy.__version__}"}
    with cupy.cuda.Stream(non_blocking=True) as stream:
        a, b = cupy.ones(WIDTH, cupy.float32), cupy.ones(WIDTH, cupy.float32)
        outs = [cupy.zeros(WIDTH, cupy.float32) for _ in range(BATCH)]
        pair = outs[:2]
        bias = numpy.float32(0.5)
        raw = cupy.RawKernel(CUDA_SOURCE, "add")
        elementwise = cupy.ElementwiseKernel(
            "float32 a, float32 b, float32 bias", "float32 out", "out = a + b + bias", "add")
        grid, block = (1,), (WIDTH,)

        def raw_given(x, out):
            raw(grid, block, (a if x is None else x, b, out, bias))

        def raw_allocating():
            raw(grid, block, (a, b, cupy.empty(WIDTH, cupy.float32), bias))

        result["CuPy RawKernel"] = three_ways(
            clock, stream.synchronize, outs, pair, raw_given, raw_allocating)
        result["CuPy ElementwiseKernel"] = three_ways(
            clock, stream.synchronize, outs, pair,
            lambda x, out: elementwise(a if x is None else x, b, bias, out),
            lambda: elementwise(a, b, bias))
        result["allocate"] = {"CuPy pool": clock.each(lambda: cupy.empty(ALLOCATED, cupy.uint8))}
        one = a[:1].copy()
        result["readback"] = {
            "CuPy ElementwiseKernel, .item()": clock.each(
                lambda: elementwise(one, one, bias).item())}
    return result


def measure_torch(clock):
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("torch finds no GPU")
    result = {"version": f"torch {torch.__version__}, {torch.cuda.get_device_name()}"}
    stream = torch.cuda.Stream()
    with torch.inference_mode(), torch.cuda.stream(stream):
        a, b = torch.ones(WIDTH, device="cuda"), torch.ones(WIDTH, device="cuda")
        outs = [torch.zeros(WIDTH, device="cuda") for _ in range(BATCH)]
        result["torch add"] = three_ways(
            clock, stream.synchronize, outs, outs[:2],
            lambda x, out: torch.add(a if x is None else x, b, out=out),
            lambda: torch.add(a, b))
        result["allocate"] = {
            "torch caching allocator": clock.each(
                lambda: torch.empty(ALLOCATED, dtype=torch.uint8, device="cuda"))}
        one = torch.ones(1, device="cuda")
        result["readback"] = {"torch add, .item()": clock.each(lambda: torch.add(one, one).item())}
    return result


try:
    import triton
    import triton.language as tl

    @triton.jit
    def triton_add(a, b, out, bias, width: tl.constexpr):
        i = tl.arange(0, width)
        tl.store(out + i, tl.load(a + i) + tl.load(b + i) + bias)
except Exception:  # measure_triton says what is missing
    triton = None


def measure_triton(clock):
    import torch
    import triton as installed

    result = {"version": f"Triton {installed.__version__}"}
    stream = torch.cuda.Stream()
    with torch.inference_mode(), torch.cuda.stream(stream):
        a, b = torch.ones(WIDTH, device="cuda"), torch.ones(WIDTH, device="cuda")
        outs = [torch.zeros(WIDTH, device="cuda") for _ in range(BATCH)]
        grid = (1,)

        def given(x, out):
            triton_add[grid](a if x is None else x, b, out, 0.5, WIDTH)

        result["Triton"] = three_ways(
            clock, stream.synchronize, outs, outs[:2], given,
            lambda: given(None, torch.empty_like(a)))
    return result


def measure(path, short):
    clock = Clock(short)
    found = {"missing": {}}
    gc.disable()
    for name, run in (("CuPy", measure_cupy), ("torch", measure_torch), ("Triton", measure_triton)):
        try:
            found[name] = run(clock)
        except Exception as error:  # whatever keeps one of them from running, the others run
            found["missing"][name] = f"{type(error).__name__}: {error}".split("\n")[0]
    with open(path, "w") as file:
        json.dump(found, file, indent=2)


# --- the table ------------------------------------------------------------------------------------


class Rows:
    """holdfast_bench's rows, by name."""

    def __init__(self, paths):
        self.rows = {}
        for path in paths:
            if not os.path.exists(path):  # that part failed, and said so
                continue
            with open(path) as file:
                self.rows.update({row["name"]: row for row in json.load(file)})

    def ours(self, name):
        row = self.rows.get(name)
        return row["ours"] if row else None

    def reference(self, name):
        row = self.rows.get(name)
        return row["reference"] if row else None


def cell(value, scale=1e3, digits=2):
    return "-" if value is None else f"{value / scale:.{digits}f}"


def print_table(title, columns, lines):
    print(f"\n{title}")
    width = max([len(line[0]) for line in lines])
    widths = [max(len(column), *(len(line[i + 1]) for line in lines))
              for i, column in enumerate(columns)]
    print(" " * width + "".join(f"   {c:>{w}}" for c, w in zip(columns, widths)))
    for line in lines:
        print(f"{line[0]:<{width}}" + "".join(f"   {c:>{w}}" for c, w in zip(line[1:], widths)))


def launches(rows, peers):
    def ways(of, independent, chain, allocated):
        def both(name):
            return None if name is None else (of(name), of(name + "_drained"))
        return [both(independent), both(chain), both(allocated)]

    lists = "cuda_list_against_launches_"
    table = {
        "raw cuLaunchKernel": ways(rows.reference, lists + "independent", lists + "chain",
                                   "cuda_stream_allocating_against_launches"),
        "raw CUDA graph, parameters set": ways(rows.reference, "cuda_list_independent",
                                               "cuda_list_chain", "cuda_stream_allocating"),
        "raw Vulkan, addresses": ways(rows.reference, "vulkan_list_independent_addresses",
                                      "vulkan_list_dependent_addresses", None),
        "Holdfast list": ways(rows.ours, "cuda_list_independent", "cuda_list_chain", None),
        "Holdfast stream": ways(rows.ours, "cuda_stream_independent", "cuda_stream_chain",
                                "cuda_stream_allocating"),
        "Holdfast arrays, 64 a time": ways(rows.ours, None, "cuda_array_chain",
                                           "cuda_array_independent"),
        "Holdfast arrays, one by one": ways(rows.ours, None, None, "cuda_array_each"),
    }
    for library in ("CuPy", "torch", "Triton"):
        for name, times in peers.get(library, {}).items():
            if isinstance(times, dict) and "independent" in times:
                table[name] = [(times[way]["host"], times[way]["drained"])
                               for way in ("independent", "chain", "allocated")]
    print_table(
        "Tiny kernels, us a kernel: host / until drained (batches of 64; Vulkan: of 100)",
        ["independent", "chain", "output allocated"],
        [[name] + ["-" if way is None else f"{cell(way[0])} / {cell(way[1])}" for way in ways_of]
         for name, ways_of in table.items()])
    print("Arrays always allocate their output; a chain's is allocated, too.")
    return table


def threads(rows):
    counts = (1, 2, 4, 8, 16)

    def rate(of, name):
        return [cell(1e3 / of(f"{name}_{n}") if of(f"{name}_{n}") else None, 1) for n in counts]

    print_table(
        "Launches a second from several threads, each with a stream of its own, millions",
        [str(n) for n in counts],
        [["raw cuLaunchKernel", *rate(rows.reference, "cuda_stream_threads")],
         ["Holdfast streams", *rate(rows.ours, "cuda_stream_threads")],
         ["Holdfast arrays", *rate(rows.ours, "cuda_array_threads")]])


def memory(rows, peers):
    lines = [["Holdfast stream", cell(rows.ours("cuda_allocate"), 1, 0)],
             ["cuMemAllocFromPoolAsync and cuMemFreeAsync",
              cell(rows.reference("cuda_allocate"), 1, 0)]]
    lines += [[name, cell(ns, 1, 0)] for library in peers.values()
              for name, ns in library.get("allocate", {}).items()]
    print_table("Allocating and freeing 64 KiB", ["ns"], lines)
    lines = [["raw", cell(rows.reference("cuda_readback"))],
             ["Holdfast list", cell(rows.ours("cuda_readback"))],
             ["Holdfast stream", cell(rows.ours("cuda_readback_stream"))],
             ["Holdfast arrays", cell(rows.ours("cuda_array_readback"))]]
    lines += [[name, cell(ns)] for library in peers.values()
              for name, ns in library.get("readback", {}).items()]
    print_table("From the launch of a kernel to its result on the host", ["us"], lines)


def holds(rows):
    lines = []
    for title, name in (("stream, independent", "cuda_stream_holds_independent"),
                        ("stream, chain", "cuda_stream_holds_chain"),
                        ("arrays, independent", "cuda_array_holds_independent")):
        row = rows.rows.get(name)
        if row is None or row["reference"] is None:
            continue
        lines.append([
            title,
            f"{row['ours']:.0f} (least {row['least']:.0f}, spread {row['spread']:.0%})",
            f"{row['reference']:.0f} (least {row['reference_least']:.0f}, "
            f"spread {row['reference_spread']:.0%})",
            f"{row['ours'] - row['reference']:+.0f}",
            f"{row['least'] - row['reference_least']:+.0f}",
            f"{row['ours'] / row['reference'] - 1:+.1%}"])
    if lines:
        print_table("What holds cost, ns a kernel of the host's time; both sides run interleaved",
                    ["with holds", "without", "median", "least", "share"], lines)


def decoding(rows):
    hits, each = rows.ours("cuda_array_decode_graph_hits"), rows.ours("cuda_array_decode")
    if hits is not None:
        print(f"\nDecode loop of arrays (24 layers of 4 kernels, a readback a token): {hits:.1f} % "
              f"of the lists found an executable graph; {cell(each)} us a kernel")


def aims(table, rows):
    lines = []

    def ratio(title, a, b, aim):
        if a and b:
            lines.append([title, f"{a / b:.2f}", aim])

    for way in ("independent", "chain"):
        for end in ("", "_drained"):
            ratio(f"list over raw graph, {way}{end.replace('_', ', ')}",
                  rows.ours(f"cuda_list_{way}{end}"), rows.reference(f"cuda_list_{way}{end}"),
                  "1.20 at most")
    cupy = table.get("CuPy RawKernel")
    ratio("CuPy RawKernel over arrays, output allocated", cupy[2][0] if cupy else None,
          rows.ours("cuda_array_independent"), "2.00 at least")
    if lines:
        print_table("Aims", ["ratio", "aim"], lines)


def show(peers_path, row_paths):
    peers = {"missing": {"CuPy, torch and Triton": "they were not measured"}}
    if os.path.exists(peers_path):
        with open(peers_path) as file:
            peers = json.load(file)
    rows = Rows(row_paths)
    missing = peers.pop("missing")
    devices = sorted({row["device"] for row in rows.rows.values() if row["device"] != "cpu"})
    builds = sorted({row["build"] for row in rows.rows.values()})
    print(f"Holdfast ({', '.join(builds)} build) on {'; '.join(devices) or 'no GPU'}")
    for library in peers.values():
        print(library["version"])
    for name, why in missing.items():
        print(f"{name} is missing: {why}")
    table = launches(rows, peers)
    threads(rows)
    memory(rows, peers)
    holds(rows)
    decoding(rows)
    aims(table, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("measure", "table"))
    parser.add_argument("peers", help="what measure writes, and table reads")
    parser.add_argument("rows", nargs="*", help="what holdfast_bench --json wrote")
    parser.add_argument("--short", action="store_true", help="to check that it works")
    options = parser.parse_args()
    if options.what == "measure":
        measure(options.peers, options.short)
    else:
        show(options.peers, options.rows)


if __name__ == "__main__":
    sys.exit(main())
