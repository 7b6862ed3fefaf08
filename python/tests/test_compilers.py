"""Compilers that came with wheels."""

import importlib.util
import os

import pytest

KERNEL = """
import holdfast as hf
k = hf.kernel("elsewhere", ["x"], ["y"], "y[0] = x[0] * 2;")
(y,) = k(inputs=[hf.ones(1)], output_shapes=[(1,)], output_dtypes=[hf.float32], grid=(1, 1, 1),
         threadgroup=(1, 1, 1))
try:
    print(y.tolist())
except hf.EnvironmentError as error:
    print("none:", error)
"""


def without_compilers(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    kept = {k: v for k, v in os.environ.items() if k.startswith("HOLDFAST_") or k == "PYTHONPATH"}
    kept.pop("HOLDFAST_CACHE_DIR", None)
    kept |= {"HOLDFAST_DISK_CACHE": "0", "HOLDFAST_DEVICE": "cpu"}
    return kept | {"PATH": str(tmp_path), "HOME": str(home)}


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")
@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="its clang lacks g++'s sanitizer")
def test_clang_of_the_extra_compiles_where_the_machine_has_no_compiler(run_python, tmp_path):
    done = run_python(KERNEL, env=without_compilers(tmp_path))
    assert (done.returncode, done.stdout) == (0, "[2.0]\n"), done.stderr


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is not None, reason="ziglang is installed")
def test_without_any_compiler_the_error_says_what_to_install(run_python, tmp_path):
    done = run_python(KERNEL, env=without_compilers(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "none of g++, c++ and clang++" in done.stdout
    assert "holdfast[compiler]" in done.stdout
