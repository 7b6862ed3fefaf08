"""Threads, the GIL, signals, fork, exit."""

import asyncio
import pathlib
import sys
import threading

import holdfast as hf
import pytest
from slow import in_flight, slow

# Programs of their own begin with it.
SLOW = pathlib.Path(__file__).with_name("slow.py").read_text()


def run_in_threads(count, work):
    failures = []

    def guarded(i):
        try:
            work(i)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def test_other_threads_run_while_one_waits():
    started = threading.Event()
    seen = []

    def watch(_):
        started.set()
        while not in_flight():
            pass
        seen.append(True)

    watcher = threading.Thread(target=watch, args=(0,))
    watcher.start()
    started.wait()
    slow(200_000_000).eval()
    watcher.join()
    assert seen


def test_threads_evaluate_one_graph_together():
    x = hf.arange(1000, dtype=hf.float32)
    for _ in range(20):
        x = x + 1
    total = hf.sum(x)
    results = []
    run_in_threads(6, lambda _: results.append(total.item()))
    assert results == [519500] * 6


def test_threads_have_streams_of_their_own():
    def work(i):
        with hf.stream(hf.new_stream(name=f"stream {i}")) as s:
            x = hf.full(100, i)
            for _ in range(10):
                x = x + 1
            assert x.stream == s
            assert x.tolist() == [i + 10] * 100

    run_in_threads(6, work)


def test_waits_end_at_their_timeout_and_lose_nothing():
    x = slow(300_000_000)
    with pytest.raises(TimeoutError):
        hf.eval(x, timeout=0)
    with pytest.raises(hf.TimeoutError):
        hf.synchronize(timeout=0)
    x.eval()
    with pytest.raises(ValueError):
        hf.eval(x, timeout=float("nan"))


def test_eval_takes_trees_of_arrays():
    x, y, z = (hf.zeros(2) + i for i in range(3))
    hf.async_eval(x, [y, {"z": (z,)}], None, 1.5)
    hf.eval({"all": [x, y, z]})
    assert x.is_recorded and y.is_recorded and z.is_recorded
    with pytest.raises(TypeError):
        hf.eval(object())


def test_asyncio_goes_on_while_arrays_are_computed():
    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        x, y = slow(100_000_000), hf.arange(3) + 1
        await asyncio.gather(hf.aeval(x), hf.aeval(y, {"x": x}))
        ticking.cancel()
        assert ticks > 10
        assert y.tolist() == [1, 2, 3]
        with pytest.raises(hf.UsageError):
            await hf.aeval(hf.kernel("bad", ["x"], ["y"], "nonsense")(
                inputs=[y], output_shapes=[(1,)], output_dtypes=[hf.float32], grid=(1, 1, 1),
                threadgroup=(1, 1, 1))[0])  # fmt: skip

    asyncio.run(main())


def test_ctrl_c_interrupts_a_wait(run_python):
    done = run_python(
        SLOW
        + """
import os, signal, threading

def interrupt():
    while not in_flight():
        pass
    os.kill(os.getpid(), signal.SIGINT)

# Shells start background processes without a handler for it.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt).start()
x = slow(1 << 62)
try:
    x.eval()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def test_signal_handlers_run_during_a_wait_and_it_goes_on(run_python):
    done = run_python(
        SLOW
        + """
import os, signal, threading

handled = threading.Event()
signal.signal(signal.SIGUSR1, lambda *_: handled.set())

def poke():
    while not in_flight():
        pass
    os.kill(os.getpid(), signal.SIGUSR1)

threading.Thread(target=poke).start()
slow(300_000_000).eval()
print(handled.wait(30))
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_a_forked_child_gets_a_clear_error_and_the_parent_goes_on(run_python):
    done = run_python(
        """
        import os, warnings
        import holdfast as hf
        warnings.simplefilter("ignore")
        x = hf.arange(3) + 1
        x.eval()
        child = os.fork()
        if child == 0:
            try:
                (x + 1).eval()
            except hf.UsageError as error:
                print("child:", "fork" in str(error), flush=True)
            del x
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print("parent:", (x + 1).tolist())
        """
    )
    assert done.stdout.splitlines() == ["child: True", "parent: [2, 3, 4]"], done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    "ending",
    [
        "",  # arrays as globals, nothing waited for
        "import threading; threading.Thread(target=x.eval, daemon=True).start()",
        "import threading; threading.Thread(target=x.eval).start()",
        "import numpy as np; y = np.asarray(hf.arange(10))\n"
        "hf.set_default_device('cpu'); z = hf.from_numpy(np.ones(9)) + 1",
        "import sys; sys.exit(0)",
        "import numpy as np; keep = hf.from_dlpack(np.ones(9)); hf.async_eval(keep + 1); del keep",
    ],
)
def test_the_interpreter_ends_quietly_with_work_in_flight(run_python, ending):
    done = run_python(SLOW + "\nx = slow(200_000_000)\nhf.async_eval(x)\n" + ending)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_exception_ends_the_interpreter_as_usual(run_python):
    done = run_python(SLOW + "\nx = slow(100_000_000)\nhf.async_eval(x)\nraise ValueError('mine')")
    assert done.returncode == 1
    assert done.stderr.strip().endswith("ValueError: mine")


def test_ten_thousand_calls_leave_nothing_behind():
    x = hf.arange(16, dtype=hf.float32)
    kernel = hf.kernel("one", ["x"], ["y"], "y[0] = x[0] + T(p);")

    def work():
        y = (x * 2 + 1)[::2].reshape(2, 4).T
        y[0] = 3
        kernel(inputs=[y], output_shapes=[(1,)], output_dtypes=[hf.float32], grid=(1, 1, 1),
               threadgroup=(1, 1, 1), template=[("T", hf.float32)], params={"p": 1.0})  # fmt: skip
        try:
            y + "text"
        except TypeError:
            pass

    for _ in range(100):
        work()
    hf.synchronize()
    blocks = sys.getallocatedblocks()
    counts = [sys.getrefcount(o) for o in (hf.float32, hf.array, None)]
    for _ in range(2500):
        work()
    hf.synchronize()
    assert sys.getallocatedblocks() - blocks < 200
    after = [sys.getrefcount(o) for o in (hf.float32, hf.array, None)]
    assert all(abs(b - a) < 100 for a, b in zip(counts, after, strict=True))


def test_memory_of_evaluated_arrays_is_flat():
    x = hf.zeros(1000)
    hf.eval(x)
    hf.synchronize()
    before = hf.get_active_memory()
    for _ in range(500):
        hf.async_eval(x + 1)
    hf.synchronize()
    assert hf.get_active_memory() == before


def test_a_forked_child_can_exit_as_usual(run_python):
    done = run_python(
        """
        import os, sys, warnings
        import holdfast as hf
        import numpy as np
        warnings.simplefilter("ignore")
        hf.set_default_device("cpu")
        x = hf.arange(3) + 1
        y = hf.from_numpy(np.ones(4)) + 1
        hf.async_eval(x, y)
        view = np.asarray(x)
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(x.tolist(), y.tolist())
        """
    )
    assert (done.stdout, done.stderr) == ("[1, 2, 3] [2.0, 2.0, 2.0, 2.0]\n", "")


def test_a_forked_child_can_open_a_device_of_its_own(run_python):
    done = run_python(
        """
        import os, warnings
        import holdfast as hf
        warnings.simplefilter("ignore")
        hf.eval(hf.arange(3) + 1)
        child = os.fork()
        if child == 0:
            own = hf.device("adversary(cpu,seed=1)")
            print(hf.full(2, 7, stream=own).tolist(), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert (done.returncode, done.stdout) == (0, "[7, 7]\n"), done.stderr
