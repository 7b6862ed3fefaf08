import os

# Every device checks that nothing in flight is freed, reused or accessed out of order.
os.environ.setdefault("HOLDFAST_VALIDATE", "1")

import hypothesis
import pytest

# The same examples on every run; times are not asserted.
hypothesis.settings.register_profile(
    "quick", deadline=None, derandomize=True, max_examples=30, database=None
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


# Run by test_cuda.py, each in a process that has the stub for a driver.
collect_ignore = [] if "HOLDFAST_CUDA_DRIVER" in os.environ else ["on_stub"]


@pytest.fixture
def run_python(tmp_path):
    """Runs a program in its own process and returns it, finished."""
    import subprocess
    import sys
    import textwrap

    def run(text, **more):
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(text))
        return subprocess.run(
            [sys.executable, str(program)], capture_output=True, text=True, timeout=120, **more
        )

    return run
