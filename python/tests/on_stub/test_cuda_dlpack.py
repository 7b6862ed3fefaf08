"""DLPack with memory of a GPU: order on the device, and memory that nobody takes in flight."""

import ctypes
import pathlib
import sys
import threading

import driver
import holdfast as hf
import pytest
from driver import Gate, Pinned, Stream

sys.path.append(str(pathlib.Path(__file__).parents[1]))
from test_dlpack_in_c import READ_ONLY, Deleter, Managed, Tensor, pythonapi, taken

GPU = "cuda:0"
N = 1024


@pytest.fixture
def gpu():
    device = hf.device(GPU)
    device.synchronize()
    return device


def waits(device):
    return {reason: one.count for reason, one in device.stats().waits.items()}


def give_back(managed):
    managed.contents.deleter(managed)


class Producer:
    """A library whose tensor a stream of its own is writing."""

    def __init__(self, value, stream):
        self.address = driver.allocate(N)
        self.stream = stream
        driver.fill(stream, self.address, value, N)
        self.shape = (ctypes.c_int64 * 1)(N)
        self.given_back_by = []
        self.asked_for = []
        self.deleter = Deleter(lambda _: self.given_back_by.append(threading.current_thread()))
        self.managed = Managed(
            Tensor(self.address, 2, 0, 1, 2, 32, 1, self.shape, None, 0), None, self.deleter
        )

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, *, stream):
        self.asked_for.append(stream)
        Stream(stream).follow(self.stream)
        return pythonapi.PyCapsule_New(ctypes.addressof(self.managed), b"dltensor", None)


def test_an_array_on_a_gpu_says_so(gpu):
    x = hf.arange(4, stream="cpu")
    assert x.__dlpack_device__() == (1, 0)
    assert hf.array([1.0, 2.0], stream=GPU).__dlpack_device__() == (2, 0)


def test_the_consumers_stream_waits_on_the_device_and_nothing_on_the_host(gpu):
    gate, stream = Gate(), Stream()
    gate.hold(stream)
    producer = Producer(3.5, stream)
    before = waits(gpu)
    x = hf.from_dlpack(producer)
    assert producer.asked_for == [producer.asked_for[0]] and producer.asked_for[0] > 2
    assert x.device == gpu and x.shape == (N,)
    consumer, seen = Stream(), Pinned(N)
    managed = taken(x, stream=int(consumer))
    tensor = managed.contents.tensor
    assert (tensor.data, tensor.device_type, tensor.device_id) == (producer.address, 2, 0)
    assert managed.contents.flags == READ_ONLY
    driver.copy(consumer, seen.address, tensor.data, N)
    assert not consumer.done
    assert waits(gpu) == before
    gate.open()
    consumer.wait()
    assert list(seen.values) == [3.5] * N
    give_back(managed)
    assert x.tolist() == [3.5] * N


def test_memory_is_held_beyond_the_deleter_until_the_consumers_work_is_done(gpu):
    gate, consumer, seen = Gate(), Stream(), Pinned(N)
    x = hf.array([7.0] * N, stream=GPU)
    managed = taken(x, stream=int(consumer))
    address = managed.contents.tensor.data
    gpu.synchronize()
    gate.hold(consumer)
    driver.copy(consumer, seen.address, address, N)
    before = waits(gpu)
    give_back(managed)
    del x
    assert waits(gpu) == before
    gpu.synchronize()
    assert gpu.stats().memory.deferred >= 4 * N
    # Nobody gets the range, although the deleter was called and no array is left.
    others = [hf.array([9.0] * N, stream=GPU) for _ in range(16)]
    for other in others:
        again = taken(other, stream=-1)
        assert again.contents.tensor.data != address
        give_back(again)
    gpu.synchronize()
    assert not consumer.done
    gate.open()
    consumer.wait()
    assert list(seen.values) == [7.0] * N
    del others, other
    for _ in range(10_000):
        gpu.synchronize()
        if gpu.stats().memory.deferred == 0:
            break
    assert gpu.stats().memory.deferred == 0


def test_without_a_stream_the_legacy_default_stream_is_meant(gpu):
    gate, legacy, seen = Gate(), Stream(1), Pinned(N)
    x = hf.array([5.0] * N, stream=GPU)
    managed = taken(x)
    gate.hold(legacy)
    driver.copy(legacy, seen.address, managed.contents.tensor.data, N)
    give_back(managed)
    del x
    gpu.synchronize()
    assert gpu.stats().memory.deferred >= 4 * N
    gate.open()
    legacy.wait()
    assert list(seen.values) == [5.0] * N


def test_a_deleter_may_be_called_on_any_thread(gpu):
    gate, consumer = Gate(), Stream()
    managed = taken(hf.array([5.0] * N, stream=GPU), stream=int(consumer))
    gpu.synchronize()
    gate.hold(consumer)
    thread = threading.Thread(target=give_back, args=(managed,))
    thread.start()
    thread.join()
    gpu.synchronize()
    assert gpu.stats().memory.deferred >= 4 * N
    gate.open()


def test_a_capsule_that_nobody_takes_gives_its_memory_back(gpu):
    live = gpu.stats().memory.live
    capsule = hf.array([5.0] * N, stream=GPU).__dlpack__(stream=int(Stream()))
    assert gpu.stats().memory.live > live
    del capsule
    for _ in range(10_000):
        gpu.synchronize()
        if gpu.stats().memory.live == live:
            break
    assert gpu.stats().memory.live == live


def test_what_is_kept_back_for_the_host_is_not_exported(gpu):
    from slow import slow

    x = slow(3_000_000_000)  # seconds on the CPU; the transfer waits for them on the host
    y = x.to(GPU)
    hf.async_eval(y)
    with pytest.raises(BufferError, match="waits for the host"):
        y.__dlpack__(stream=int(Stream()))
    # Once it is there, it is exported.
    y.eval()
    give_back(taken(y, stream=int(Stream())))


def test_imported_memory_is_given_back_after_the_last_use_and_by_a_thread_of_python(gpu):
    gate, stream = Gate(), Stream()
    gate.hold(stream)
    producer = Producer(2.5, stream)
    x = hf.from_dlpack(producer)
    y = x.to("cpu")
    hf.async_eval(y)
    del x
    gpu.default_stream.flush()
    assert not producer.given_back_by
    gate.open()
    assert y.tolist() == [2.5] * N
    del y
    for _ in range(10_000):
        hf.eval()
        gpu.synchronize()
        if producer.given_back_by:
            break
    assert producer.given_back_by == [threading.main_thread()]


def test_copies_and_other_places(gpu):
    x = hf.array([1.0, 2.0, 3.0], stream=GPU)
    host = taken(x, dl_device=(1, 0)).contents.tensor
    assert host.device_type == 1
    with pytest.raises(BufferError, match="without a copy"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match="its own device"):
        x.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError, match="its own device"):
        hf.arange(3, stream="cpu").__dlpack__(dl_device=(2, 0))
    for wrong in (0, -2):
        with pytest.raises(ValueError):
            x.__dlpack__(stream=wrong)
    with pytest.raises(TypeError):
        x.__dlpack__(stream="main")
    producer = Producer(1.5, Stream())
    with pytest.raises(ValueError, match="import it, then use to"):
        hf.from_dlpack(producer, device="cpu")
    assert not producer.asked_for


def test_views_are_exported_where_they_begin(gpu):
    x = hf.array([float(i) for i in range(12)], stream=GPU)
    whole = taken(x, stream=-1)
    part = taken(x[2:8:3], stream=-1)
    assert part.contents.tensor.data == whole.contents.tensor.data + 8
    assert (part.contents.tensor.shape[0], part.contents.tensor.strides[0]) == (2, 3)
    give_back(part)
    give_back(whole)
