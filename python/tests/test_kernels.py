import inspect

import holdfast as hf
import numpy as np
import pytest

AXPY = "uint i = thread_position_in_grid.x; z[i] = T(a * x[i] + y[i]);"


def test_a_kernel_written_for_mlx_runs_after_its_import_changed():
    mx = hf

    def exp_elementwise(a: mx.array):
        source = """
            uint elem = thread_position_in_grid.x;
            T tmp = inp[elem];
            out[elem] = metal::exp(tmp);
        """
        kernel = mx.fast.metal_kernel(
            name="myexp", input_names=["inp"], output_names=["out"], source=source
        )
        outputs = kernel(
            inputs=[a],
            template=[("T", mx.float32)],
            grid=(a.size, 1, 1),
            threadgroup=(256, 1, 1),
            output_shapes=[a.shape],
            output_dtypes=[a.dtype],
            verbose=False,
        )
        return outputs[0]

    a = mx.random.normal(shape=(4, 16)).astype(mx.float16)
    b = exp_elementwise(a)
    np.testing.assert_allclose(np.asarray(b), np.exp(np.asarray(a)), rtol=2e-3)


def test_strides_reach_kernels_that_ask_for_them():
    kernel = hf.fast.metal_kernel(
        name="strided",
        input_names=["inp"],
        output_names=["out"],
        source="""
            uint elem = thread_position_in_grid.x;
            uint loc = elem_to_loc(elem, inp_shape, inp_strides, inp_ndim);
            out[elem] = inp[loc];
        """,
        ensure_row_contiguous=False,
    )
    x = hf.arange(12, dtype=hf.float32).reshape(3, 4).T[::2]
    (y,) = kernel(
        inputs=[x],
        grid=(x.size, 1, 1),
        threadgroup=(1, 1, 1),
        output_shapes=[x.shape],
        output_dtypes=[x.dtype],
    )
    assert y.tolist() == x.tolist()


def test_numbers_are_inputs_params_and_templates():
    kernel = hf.kernel(
        "mixed",
        ["x", "n", "f", "b"],
        ["y"],
        "uint i = thread_position_in_grid.x; y[i] = x[i] * n + f + (b ? K : 0) + p + q;",
    )
    (y,) = kernel(
        inputs=[hf.array([1.0, 2.0]), 3, 0.5, True],
        output_shapes=[(2,)],
        output_dtypes=[hf.float32],
        grid=(2, 1, 1),
        threadgroup=(2, 1, 1),
        template={"K": 10},
        params={"p": 100, "q": np.float32(0.25)},
    )
    assert y.tolist() == [113.75, 116.75]


def test_params_make_no_new_variant_and_templates_do():
    kernel = hf.kernel("variants", ["x"], ["y"], "y[0] = x[0] * K + p;")

    def call(k, p):
        return kernel(
            inputs=[hf.array([2.0])],
            output_shapes=[(1,)],
            output_dtypes=[hf.float32],
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            template=[("K", k)],
            params={"p": p},
        )[0].item()

    assert call(3, 1.0) == 7
    before = hf.stats().kernels.misses
    assert call(3, 2.0) == 8
    assert hf.stats().kernels.misses == before
    assert call(4, 2.0) == 10
    assert hf.stats().kernels.misses == before + 1


def test_outputs_begin_with_the_init_value_and_can_be_atomic():
    kernel = hf.fast.metal_kernel(
        name="count",
        input_names=["x"],
        output_names=["y"],
        source="""
            atomic_fetch_add_explicit(&y[x[thread_position_in_grid.x]], 1.0f,
                                      memory_order_relaxed);
        """,
        atomic_outputs=True,
    )
    (y,) = kernel(
        inputs=[hf.array([0, 2, 2, 2])],
        output_shapes=[(3,)],
        output_dtypes=[hf.float32],
        grid=(4, 1, 1),
        threadgroup=(4, 1, 1),
        init_value=5,
    )
    assert y.tolist() == [6, 5, 8]


def test_arguments_in_place_come_back_after_the_outputs():
    kernel = hf.kernel(
        "bump",
        ["x"],
        ["y"],
        "uint i = thread_position_in_grid.x; y[i] = z[i]; z[i] += x[i];",
        in_place_names=["z"],
    )
    z = hf.array([10.0, 20.0])
    y, bumped = kernel(
        inputs=[hf.array([1.0, 2.0])],
        in_place=[z],
        output_shapes=[(2,)],
        output_dtypes=[hf.float32],
        grid=(2, 1, 1),
        threadgroup=(2, 1, 1),
    )
    assert y.tolist() == [10, 20]
    assert bumped.tolist() == [11, 22]
    assert z.tolist() == [10, 20]


def test_compile_errors_show_the_line_with_a_caret():
    kernel = hf.kernel("wrong", ["x"], ["y"], "uint i = 0;\ny[i] = b[i] * 2;")
    (y,) = kernel(
        inputs=[hf.zeros(1)],
        output_shapes=[(1,)],
        output_dtypes=[hf.float32],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        label="my call",
    )
    with pytest.raises(hf.UsageError) as error:
        y.eval()
    text = str(error.value)
    assert "wrong:2:8" in text
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if "b[i] * 2" in line)
    assert lines[at + 1].index("^") == lines[at].index("b[i]")


def test_calls_that_do_not_fit_raise_at_once():
    kernel = hf.kernel("axpy", ["x", "y"], ["z"], AXPY)
    good = dict(
        inputs=[hf.zeros(2), hf.zeros(2)],
        output_shapes=[(2,)],
        output_dtypes=[hf.float32],
        grid=(2, 1, 1),
        threadgroup=(2, 1, 1),
        template=[("T", hf.float32)],
        params={"a": 1.0},
    )
    kernel(**good)
    for change in (
        {"inputs": [hf.zeros(2)]},
        {"output_shapes": []},
        {"threadgroup": (1 << 20, 1, 1)},
        {"params": {"nobody": 1}},
    ):
        with pytest.raises(hf.UsageError):
            kernel(**(good | change))
    for change in ({"grid": (1, 1, 1, 1)}, {"template": [("T", "x")]}, {"params": {"a": "x"}}):
        with pytest.raises(TypeError):
            kernel(**(good | change))
    with pytest.raises(TypeError):
        kernel([hf.zeros(2)])
    with pytest.raises(hf.UsageError, match="identifier"):
        hf.kernel("bad", ["not an identifier"], ["y"], "y[0] = 0;")


def test_math_modes_are_those_of_mlx():
    for mode in ("safe", "relaxed", "fast"):
        hf.fast.metal_kernel("m", ["x"], ["y"], "y[0] = x[0];", compile_options={"math_mode": mode})
    with pytest.raises(ValueError, match="math_mode"):
        hf.kernel("m", ["x"], ["y"], "y[0] = x[0];", compile_options={"math_mode": "wild"})
    with pytest.raises(ValueError, match="speed"):
        hf.kernel("m", ["x"], ["y"], "y[0] = x[0];", compile_options={"speed": "fast"})


def test_verbose_prints_the_generated_text(capfd):
    kernel = hf.kernel("talkative", ["x"], ["y"], "y[0] = x[0] + T(1);")
    kernel(
        inputs=[hf.zeros(1)],
        output_shapes=[(1,)],
        output_dtypes=[hf.float32],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        template=[("T", hf.float32)],
        verbose=True,
    )
    assert "y[0] = x[0] + T(1);" in capfd.readouterr().out


def test_natives_replace_the_body_on_their_device():
    native = hf.Native(
        "cpp",
        """
        extern "C" void twice(const void* const* bindings);
        """,
        entry_point="twice",
    )
    kernel = hf.kernel("twice", ["x"], ["y"], natives=[native])
    assert kernel.name == "twice"
    with pytest.raises(ValueError, match="brainfuck"):
        hf.Native("brainfuck", "+")


def test_signatures_begin_as_those_of_mlx():
    made = hf.fast.metal_kernel.__doc__
    wanted = (
        "name: str, input_names: collections.abc.Sequence[str], "
        "output_names: collections.abc.Sequence[str], source: str = '', header: str = '', "
        "ensure_row_contiguous: bool = True, atomic_outputs: bool = False, "
        "compile_options: dict[str, str] | None = None"
    )
    assert wanted in made
    called = inspect.getdoc(hf.Kernel.__call__)
    order = ["inputs", "output_shapes", "output_dtypes", "grid", "threadgroup", "template",
             "init_value", "verbose", "stream"]  # fmt: skip
    places = [called.index(f" {name}: ") for name in order]
    assert places == sorted(places)
