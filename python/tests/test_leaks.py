"""10,000 calls of each kind leave nothing behind: no memory, no object, no reference."""

import os

import pytest

COUNT = 10_000

# Each makes `work`, one call of its kind, perhaps with some that it needs.
KINDS = {
    "operations": """
        x = hf.arange(16, dtype=hf.float32)
        def work():
            y = hf.exp(x * 2 + 1)
            hf.sum(y.reshape(4, 4), axis=0)
    """,
    "views": """
        x = hf.arange(24).reshape(4, 6)
        def work():
            x[1:, ::-2].T[..., None, 0]
            list(x)
    """,
    "assignments": """
        x = hf.zeros(16)
        def work():
            y = x[:]
            y[3] = 7
            y[[1, 2]] = 1
            y += 1
    """,
    "evaluations": """
        x = hf.ones(16)
        hf.eval(x)
        def work():
            (x + 1).eval()
    """,
    "reads": """
        x = hf.arange(6)
        def work():
            x.tolist()
            x[2].item()
            str(x)
    """,
    "kernels": """
        x = hf.arange(4, dtype=hf.float32)
        kernel = hf.kernel("leaks_one", ["x"], ["y"], "y[0] = x[0] + T(p);")
        def work():
            kernel(inputs=[x], output_shapes=[(1,)], output_dtypes=[hf.float32], grid=(1, 1, 1),
                   threadgroup=(1, 1, 1), template=[("T", hf.float32)], params={"p": 1.0})
    """,
    "kernels evaluated": """
        x = hf.arange(4, dtype=hf.float32)
        kernel = hf.kernel("leaks_two", ["x"], ["y"], "y[0] = x[0] + T(p);")
        def work():
            (y,) = kernel(inputs=[x], output_shapes=[(1,)], output_dtypes=[hf.float32],
                          grid=(1, 1, 1), threadgroup=(1, 1, 1), template=[("T", hf.float32)],
                          params={"p": 1.0}, label="one of many")
            hf.eval(y)
    """,
    "definitions": """
        def work():
            hf.kernel("leaks_three", ["x"], ["y"], "y[0] = x[0];", header="struct Some {};")
    """,
    "DLPack out": """
        hf.set_default_device("cpu")
        x = hf.arange(64, dtype=hf.float32)
        def work():
            np.from_dlpack(x)
            x.__dlpack__()  # a capsule that nobody takes
    """,
    "DLPack in": """
        a = np.arange(64, dtype=np.float32)
        def work():
            x = hf.from_dlpack(a)
            hf.eval(x + 1)
    """,
    "NumPy out": """
        x = hf.arange(64, dtype=hf.float32)
        def work():
            np.asarray(x)
            np.asarray(x[::-1])
            memoryview(x).release()
    """,
    "NumPy in": """
        hf.set_default_device("cpu")
        a = np.arange(64, dtype=np.float32)
        def work():
            hf.array(a)
            hf.from_numpy(a)
            hf.array(a) + a
    """,
    "lists": """
        def work():
            hf.array([[1, 2], [3, 4.5]])
    """,
    "exceptions": """
        x = hf.arange(4)
        other = hf.arange(5)
        class Bad:
            def __dlpack__(self, **more):
                raise RuntimeError("not today")
        calls = (lambda: x + other, lambda: x + "text", lambda: x[9], lambda: hf.array([[1], 2]),
                 lambda: hf.from_dlpack(Bad()), lambda: hf.eval(object()),
                 lambda: hf.zeros("text"), lambda: hf.stream(3),
                 lambda: memoryview(hf.zeros(2, hf.bfloat16)))
        def work():
            for call in calls:
                try:
                    call()
                except Exception:
                    pass
                else:
                    raise AssertionError("no exception")
    """,
    "no memory": """
        def work():
            try:
                hf.eval(hf.zeros((1 << 25, 1 << 20), hf.uint8))
            except MemoryError:
                pass
    """,
    "async": """
        import asyncio
        x = hf.arange(16)
        loop = asyncio.new_event_loop()
        def work():
            loop.run_until_complete(hf.aeval(x + 1))
    """,
    "async_eval": """
        x = hf.arange(16)
        hf.eval(x)
        def work():
            hf.async_eval(x + 1)
    """,
    "streams": """
        s = hf.new_stream()
        x = hf.ones(16)
        def work():
            with hf.stream(s):
                x + 1
            hf.add(x, 1, stream=s)
    """,
    "random": """
        key = hf.random.key(3)
        def work():
            hf.random.normal((4,), key=key)
            hf.random.split(key)
    """,
    "pickles": """
        import pickle
        x = hf.arange(16)
        hf.eval(x)
        def work():
            pickle.loads(pickle.dumps(x))
    """,
}

MEASURE = """
import gc, os, sys, tracemalloc
import numpy as np
import holdfast as hf

{setup}

def settle():
    hf.synchronize()
    hf.eval()
    gc.collect()

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def run(count):
    for i in range(count):
        work()
        if i % 100 == 99:
            hf.synchronize()
    settle()

run({warm_up})
singles = (None, hf.float32, hf.array, hf.Error)
counts = [sys.getrefcount(o) for o in singles]
objects, blocks = len(gc.get_objects()), sys.getallocatedblocks()
# A leak grows every time; the heaps of threads only until all of them have been used.
for attempt in range(3):
    memory = resident()
    run({count})
    grown = resident() - memory
    if grown < {count} * {most}:
        break
after = [sys.getrefcount(o) for o in singles]
print("bytes a call:", grown / {count})
assert sys.getallocatedblocks() - blocks < 200, (blocks, sys.getallocatedblocks())
assert len(gc.get_objects()) - objects < 50, (objects, len(gc.get_objects()))
assert all(abs(b - a) < 50 for a, b in zip(counts, after)), (counts, after)
assert hf.stats().submissions_in_flight == 0
# What Python traces of its own memory, call by call; a pool of threads may still grow by one.
tracemalloc.start()
run(200)
for attempt in range(3):
    before, _ = tracemalloc.get_traced_memory()
    run(200)
    traced = tracemalloc.get_traced_memory()[0] - before
    if traced < 200 * 8:
        break
assert traced < 200 * 8, traced
assert grown < {count} * {most}, grown / {count}
"""


@pytest.mark.parametrize("validate", ["0", "1"])
@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_flat_over_ten_thousand_calls(run_python, kind, validate):
    import textwrap

    program = MEASURE.format(
        setup=textwrap.dedent(KINDS[kind]), count=COUNT, warm_up=COUNT // 2, most=32
    )
    done = run_python(program, env=os.environ | {"HOLDFAST_VALIDATE": validate})
    print(done.stdout)
    assert done.returncode == 0, done.stderr
