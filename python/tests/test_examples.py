"""Every example runs, as a script, and checks its own results."""

import pathlib
import subprocess
import sys

import pytest

examples = pathlib.Path(__file__).parents[2] / "examples/python"


@pytest.mark.parametrize("file", sorted(p.name for p in examples.glob("*.py")))
def test_example(file, tmp_path):
    done = subprocess.run(
        [sys.executable, str(examples / file)], capture_output=True, text=True, timeout=300,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout and not done.stderr
