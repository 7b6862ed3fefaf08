"""DLPack with torch and CuPy on a real GPU."""

import holdfast as hf
import pytest


def gpu():
    if not any(name.startswith("cuda:") for name, text in hf.devices().items()
               if not text.startswith("not available")):  # fmt: skip
        pytest.skip("no NVIDIA GPU")
    return hf.device("cuda:0")


@pytest.fixture
def torch():
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("torch sees no GPU")
    return found


@pytest.fixture
def cupy():
    found = pytest.importorskip("cupy")
    try:
        found.cuda.runtime.getDeviceCount()
    except Exception as error:
        pytest.skip(f"CuPy sees no GPU: {error}")
    return found


N = 1 << 20


def test_torch_sees_an_arrays_memory_and_we_see_torchs(torch):
    device = gpu()
    x = hf.arange(N, dtype=hf.float32, stream=device) + 1
    before = {reason: one.count for reason, one in device.stats().waits.items()}
    t = torch.from_dlpack(x)
    y = hf.from_dlpack(t * 2)
    assert {reason: one.count for reason, one in device.stats().waits.items()} == before
    assert t.is_cuda and t[3].item() == 4
    assert y.device == device and y[3].item() == 8
    assert torch.equal(torch.from_dlpack(y), t * 2)


def test_torchs_kernel_in_flight_its_tensor_dropped_the_range_recycled(torch):
    """A deleter says nothing of the consumer's work: the memory stays until that is done."""
    device = gpu()
    stream = torch.cuda.Stream()
    for round in range(20):
        x = hf.full((N,), 7, stream=device)
        hf.eval(x)
        with torch.cuda.stream(stream):
            t = torch.from_dlpack(x)
            torch.cuda._sleep(50_000_000)
            seen = t + round
            del t, x  # its kernel has not begun
        # Whoever gets the range next overwrites it at once, on another stream.
        others = [hf.full((N,), -1, stream=device) for _ in range(8)]
        hf.eval(others)
        stream.synchronize()
        assert torch.all(seen == 7 + round).item()
        del others
    device.synchronize()


def test_torchs_memory_is_given_back_after_our_last_use(torch):
    device = gpu()
    t = torch.full((N,), 3.0, device="cuda")
    x = hf.from_dlpack(t)
    del t
    y = hf.sum(x)
    del x
    torch.full((N,), 9.0, device="cuda")
    assert y.item() == 3.0 * N
    assert y.device == device


def test_cupy_sees_an_arrays_memory_and_we_see_cupys(cupy):
    x = hf.arange(N, dtype=hf.float32, stream=gpu()) + 1
    try:
        a = cupy.from_dlpack(x)
    except BufferError as error:
        # Some versions refuse what is read-only.
        pytest.skip(str(error))
    with cupy.cuda.Stream(non_blocking=True):
        b = a * 2
        y = hf.from_dlpack(b)
    assert y[3].item() == 8


def test_a_cuda_kernel_computes():
    device = gpu()
    kernel = hf.fast.cuda_kernel(
        "myexp", ["inp"], ["out"],
        """
            auto elem = cooperative_groups::this_grid().thread_rank();
            if (elem >= inp_shape[0]) return;
            out[elem] = exp(T(inp[elem]));
        """,
    )  # fmt: skip
    x = hf.arange(1000, dtype=hf.float32, stream=device) / 1000
    (y,) = kernel(
        inputs=[x], output_shapes=[x.shape], output_dtypes=[x.dtype], grid=(1000, 1, 1),
        threadgroup=(256, 1, 1), template=[("T", hf.float32)],
    )  # fmt: skip
    assert hf.allclose(y, hf.exp(x), rtol=1e-5).item()
