"""hf.fast.cuda_kernel: its text goes through NVRTC; kernels do nothing on the stub."""

import os

import driver  # noqa: F401  # the driver is loaded, as for the other tests
import holdfast as hf
import pytest

GPU = "cuda:0"


@pytest.fixture(scope="module", autouse=True)
def nvrtc():
    probe = hf.fast.cuda_kernel("probe", ["x"], ["y"], "y[0] = x[0];")
    try:
        run(probe, [hf.zeros(1, stream="cpu").to(GPU)])
    except hf.EnvironmentError as error:
        if os.environ.get("HOLDFAST_REQUIRE_NVRTC") == "1":
            raise
        pytest.skip(str(error))


def run(kernel, inputs, dtype=hf.float32, shape=(4,), **more):
    (y,) = kernel(
        inputs=inputs, output_shapes=[shape], output_dtypes=[dtype], grid=(4, 1, 1),
        threadgroup=(4, 1, 1), **more,
    )  # fmt: skip
    y.eval()
    assert (y.shape, y.dtype) == (tuple(shape), dtype)
    return y


def on_gpu(*shape, dtype=hf.float32):
    return hf.array([[0] * shape[-1]] * shape[0] if len(shape) == 2 else [0] * shape[0], dtype,
                    stream=GPU)  # fmt: skip


def test_the_signature_is_made_for_each_call():
    kernel = hf.fast.cuda_kernel(
        name="scale",
        input_names=["inp"],
        output_names=["out"],
        source="""
            auto elem = blockIdx.x * blockDim.x + threadIdx.x;
            T tmp = inp[elem];
            static_assert(sizeof(T) == BYTES, "the dtype of the call");
            out[elem] = HALVE ? tmp / T(2) : tmp;
        """,
    )
    for dtype, size in ((hf.float32, 4), (hf.float64, 8), (hf.int8, 1), (hf.uint64, 8)):
        template = [("T", dtype), ("BYTES", size), ("HALVE", True)]
        run(kernel, [on_gpu(4, dtype=dtype)], dtype, template=template)
    assert "CudaKernel('scale')" == repr(kernel)


def test_shapes_strides_and_ranks_are_there_where_the_body_names_them(capsys):
    kernel = hf.fast.cuda_kernel(
        "sizes", ["x", "w"], ["y"],
        """
            static_assert(x_ndim == 2);
            long at = elem_to_loc(long(threadIdx.x), x_shape.data(), x_strides.data(), x_ndim);
            y[threadIdx.x] = x[at] + x_shape[1] + x_strides[0] + w[0];
        """,
        ensure_row_contiguous=False,
    )  # fmt: skip
    run(kernel, [on_gpu(2, 3).T, 2.5], verbose=True)
    text = capsys.readouterr().out
    assert "hf_dims<int, 2> x_shape" in text and "w_shape" not in text
    with pytest.raises(hf.UsageError, match="sizes:2:.*static assertion failed"):
        run(kernel, [on_gpu(4), 2.5])


def test_an_error_has_the_line_of_the_body():
    kernel = hf.fast.cuda_kernel("wrong", ["x"], ["y"], "int fine = 1;\ny[0] = x[0] + missing;")
    with pytest.raises(hf.UsageError) as raised:
        run(kernel, [on_gpu(4)])
    lines = str(raised.value).splitlines()
    assert lines[1:3] == ['wrong:2:15: identifier "missing" is undefined',
                          "  | y[0] = x[0] + missing;"]  # fmt: skip
    helped = hf.fast.cuda_kernel("helped", ["x"], ["y"], "y[0] = f();", header="\nint f( {}")
    with pytest.raises(hf.UsageError, match="header of helped:2:"):
        run(helped, [on_gpu(4)])


def test_definitions_are_checked_at_once():
    with pytest.raises(hf.UsageError):
        hf.fast.cuda_kernel("two words", ["x"], ["y"], "")
    with pytest.raises(hf.UsageError):
        hf.fast.cuda_kernel("none", ["x"], [], "")
    with pytest.raises(hf.Error):
        run(hf.fast.cuda_kernel("count", ["x"], ["y"], ""), [on_gpu(4), on_gpu(4)])


def test_it_runs_on_nvidia_gpus_alone():
    kernel = hf.fast.cuda_kernel("here", ["x"], ["y"], "y[0] = x[0];")
    with pytest.raises(hf.Error, match="here"):
        run(kernel, [hf.zeros(4, stream="cpu")])


def test_headers_and_shared_memory():
    kernel = hf.fast.cuda_kernel(
        "helped", ["x"], ["y"],
        "extern __shared__ float tile[]; tile[threadIdx.x] = twice(x[0]); y[0] = tile[0];",
        header="template <typename T> __device__ T twice(T v) { return v + v; }",
        shared_memory=4096,
    )  # fmt: skip
    run(kernel, [on_gpu(4)], template=[("T", hf.float32)])


def test_mlxs_example_compiles_in_every_floating_dtype():
    kernel = hf.fast.cuda_kernel(
        "myexp", ["inp"], ["out"],
        """
            auto elem = cooperative_groups::this_grid().thread_rank();
            T tmp = inp[elem];
            const uint32_t bits = uint32_t(elem);
            out[elem] = exp(float(tmp)) + float(int64_t(bits));
        """,
    )  # fmt: skip
    for dtype in (hf.float32, hf.float16, hf.bfloat16):
        try:
            run(kernel, [on_gpu(4, dtype=dtype)], dtype, template=[("T", dtype)])
        except hf.UsageError as error:
            if "cannot open source file" not in str(error):
                raise
            pytest.skip("NVRTC is here without the toolkit's headers: pip install holdfast[cuda]")
