"""CUDA where there is no GPU: on the stub of NVIDIA's driver, in processes of their own."""

import os
import pathlib
import subprocess
import sys

import pytest

tests = pathlib.Path(__file__).parent
root = tests.parents[1]


def stub():
    named = os.environ.get("HOLDFAST_STUB_CUDA")
    if named:
        return named
    built = root / "build/dev/libholdfast_stub_cuda.so"
    return str(built) if built.exists() else None


@pytest.mark.skipif(stub() is None, reason="the stub driver is not built: ./dev python builds it")
@pytest.mark.parametrize("file", sorted(p.name for p in (tests / "on_stub").glob("test_*.py")))
@pytest.mark.parametrize("validate", ["0", "1"])
def test_on_the_stub_driver(file, validate, tmp_path):
    environment = os.environ | {
        "HOLDFAST_CUDA_DRIVER": stub(),
        "HOLDFAST_STUB_CUDA_IDLE": "1",  # images of real kernels are taken; they do nothing
        "HOLDFAST_DEVICE": "cpu",
        "HOLDFAST_VALIDATE": validate,
    }
    environment.pop("HOLDFAST_ADVERSARY", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tests),
         "-c", str(root / "pyproject.toml"), str(tests / "on_stub" / file)],
        capture_output=True, text=True, timeout=600, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "violation" not in done.stderr
