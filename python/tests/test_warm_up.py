"""Kernels compiled before they are needed."""

import holdfast as hf
import pytest

SOURCE = "uint i = thread_position_in_grid.x; y[i] = T(x[i] * WIDTH + p);"


def call(dtype, width, **more):
    return {
        "inputs": [((4,), dtype)],
        "output_shapes": [(4,)],
        "output_dtypes": [dtype],
        "template": [("T", dtype), ("WIDTH", width)],
        "params": {"p": 1.0},
    } | more


def test_what_was_warmed_up_is_not_compiled_again():
    kernel = hf.kernel("warm", ["x"], ["y"], SOURCE)
    seen = []
    calls = [call(hf.float32, width) for width in (3, 5, 7)] + [call(hf.float16, 3)]
    hf.warm_up(kernel, calls, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 4) and seen[-1] == (4, 4) and seen == sorted(seen)
    x = hf.arange(4, dtype=hf.float32)
    hf.eval(x)
    before = hf.stats().kernels
    given = calls[1] | {"inputs": [x], "grid": (4, 1, 1), "threadgroup": (4, 1, 1)}
    (y,) = kernel(**given)
    assert y.tolist() == [1, 6, 11, 16]
    after = hf.stats().kernels
    assert (after.compiles, after.misses) == (before.compiles, before.misses)


def test_arrays_and_numbers_stand_for_their_types():
    kernel = hf.kernel("warm_too", ["x", "by"], ["y"], "y[0] = x[0] * by;")
    one = {"inputs": [hf.zeros(3), 2.0], "output_shapes": [(1,)], "output_dtypes": [hf.float32]}
    hf.warm_up(kernel, [one])
    before = hf.stats().kernels
    (y,) = kernel(**one, grid=(1, 1, 1), threadgroup=(1, 1, 1))
    assert y.tolist() == [0]
    assert hf.stats().kernels.misses == before.misses


def test_errors_come_once_the_others_are_compiled():
    kernel = hf.kernel("warm_bad", ["x"], ["y"], "static_assert(WIDTH < 4); " + SOURCE)
    with pytest.raises(hf.UsageError, match="warm_bad"):
        hf.warm_up(kernel, [call(hf.float32, 9), call(hf.float32, 2)])
    before = hf.stats().kernels
    hf.warm_up(kernel, [call(hf.float32, 2)])
    assert hf.stats().kernels.compiles == before.compiles
    with pytest.raises(ValueError, match="output_shapes"):
        hf.warm_up(kernel, [{"inputs": []}])
    hf.warm_up(kernel, [])


def test_a_bar_is_drawn_on_stderr(capsys):
    hf.warm_up(hf.kernel("warm_bar", ["x"], ["y"], SOURCE), [call(hf.float32, 3)], progress=True)
    assert capsys.readouterr().err.endswith("] 1/1\n")
