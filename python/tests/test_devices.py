import pickle

import holdfast as hf
import numpy as np
import pytest


def test_devices_are_listed_and_opened_once():
    assert "cpu" in hf.devices()
    cpu = hf.device("cpu")
    assert cpu == hf.Device("cpu") == hf.cpu
    assert hash(cpu) == hash(hf.cpu)
    assert "cpu" in cpu.name and "cpu" in repr(cpu)
    assert cpu.description
    assert pickle.loads(pickle.dumps(cpu)).name == cpu.name
    with pytest.raises(hf.Error, match="abacus"):
        hf.device("abacus")
    with pytest.raises(AttributeError):
        hf.abacus


def test_arrays_move_between_devices():
    x = hf.arange(4) + 1
    other = hf.device("adversary(cpu,seed=3)")
    y = x.to(other)
    assert y.device == other
    assert (y + 1).tolist() == [2, 3, 4, 5]
    assert y.to(hf.default_device()).device == hf.default_device()
    assert x.to("cpu").tolist() == [1, 2, 3, 4]
    with pytest.raises(hf.UsageError):
        x + y


def test_elements_of_the_host_go_beside_the_arrays_they_meet():
    x = hf.arange(4, dtype=hf.float32, stream="adversary(cpu,seed=3)")
    assert x.device != hf.default_device()
    row = np.arange(4, dtype=np.float32)
    assert (x + row).tolist() == (row + x).tolist() == [0, 2, 4, 6]
    assert hf.maximum(row, x).device == x.device
    assert hf.where(row > 1, x, [9, 9, 9, 9]).tolist() == [9, 9, 2, 3]
    assert hf.concatenate([[5.0], x]).tolist() == [5, 0, 1, 2, 3]
    assert x[[0, -1]].tolist() == [0, 3]
    assert x[row > 1].tolist() == [2, 3]
    x[1:3] = row[:2]
    x[[0]] = 7
    assert x.tolist() == [7, 0, 1, 3]
    assert x.at[[0, 0]].add(1).tolist() == [9, 0, 1, 3]
    double = hf.kernel("scaled", ["x", "by"], ["y"],
                       "uint i = thread_position_in_grid.x; y[i] = x[i] * by;")  # fmt: skip
    (y,) = double(inputs=[x, 2.0], output_shapes=[(4,)], output_dtypes=[hf.float32],
                  grid=(4, 1, 1), threadgroup=(4, 1, 1))  # fmt: skip
    assert y.device == x.device
    assert y.tolist() == [14, 0, 2, 6]


def test_the_default_device_is_where_arrays_go():
    before = hf.default_device()
    other = hf.device("adversary(cpu,seed=4)")
    try:
        hf.set_default_device(other)
        assert hf.zeros(1).device == other
    finally:
        hf.set_default_device(before)
    assert hf.zeros(1, stream="adversary(cpu,seed=4)").device == other


def test_streams_wait_for_each_other():
    a, b = hf.new_stream(name="a"), hf.new_stream(hf.default_device())
    assert a != b and a.name == "a" and a.device == hf.default_device()
    assert len({a, b, a}) == 2
    x = hf.add(hf.zeros(4), 1, stream=a)
    y = hf.add(x, 1, stream=b)
    hf.async_eval(y)
    b.wait_for(a)
    a.flush()
    b.synchronize()
    hf.synchronize(a)
    assert y.tolist() == [2, 2, 2, 2]
    with pytest.raises(TypeError):
        hf.stream(3)


def test_memory_is_counted_and_limited():
    hf.synchronize()
    before = hf.get_active_memory()
    x = hf.zeros((1 << 20,), hf.uint8)
    x.eval()
    assert hf.get_active_memory() >= before + (1 << 20)
    assert hf.get_peak_memory() >= hf.get_active_memory()
    del x
    hf.synchronize()
    hf.clear_cache()
    assert hf.get_cache_memory() < 1 << 20
    try:
        hf.set_memory_limit(1 << 20)
        hf.set_cache_limit(0)
        with pytest.raises(MemoryError):
            hf.eval(hf.zeros((8 << 20,), hf.uint8))
    finally:
        hf.set_memory_limit(0)
        hf.set_cache_limit(1 << 30)
    assert hf.zeros(4).tolist() == [0] * 4


def test_stats_count_what_happened():
    before = hf.stats()
    (hf.zeros(5) + 1).eval()
    after = hf.stats()
    assert after.nodes_recorded > before.nodes_recorded
    assert after.submissions > before.submissions
    assert set(after.waits) >= {"readback", "budget", "synchronize"}
    assert after.memory.live >= 0 and after.kernels.hits >= before.kernels.hits
    assert after.waits["readback"].count >= before.waits["readback"].count
    assert "waits" in str(after) or "memory" in str(after)


def test_kernels_are_timed_on_the_device():
    device = hf.default_device()
    device.set_profiling(True)
    try:
        (hf.arange(1000, dtype=hf.float32) * 3).eval()
        hf.synchronize()
        rows = device.kernel_times()
    finally:
        device.set_profiling(False)
    assert rows
    name, dispatches, seconds = rows[0]
    assert isinstance(name, str) and dispatches >= 1 and seconds >= 0
