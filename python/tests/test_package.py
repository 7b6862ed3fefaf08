"""What is installed, and what README.md shows."""

import ast
import pathlib
import re

import holdfast as hf
import pytest
from readme_example import examples

installed = pathlib.Path(hf.__file__).parent
root = pathlib.Path(__file__).parents[2]


def test_types_are_shipped():
    assert (installed / "py.typed").exists()
    stub = ast.parse((installed / "_core.pyi").read_text())
    names = {n.name for n in stub.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    names |= {n.target.id for n in stub.body if isinstance(n, ast.AnnAssign)}
    assert {n for n in vars(hf._core) if not n.startswith("_")} <= names


def test_classes_are_those_of_the_package():
    assert repr(hf.array) == "<class 'holdfast.array'>"
    assert repr(hf.UsageError) == "<class 'holdfast.UsageError'>"


def test_the_version_is_that_of_the_headers():
    text = (root / "include/holdfast/version.h").read_text()
    assert hf.__version__ == ".".join(re.findall(r"#define HOLDFAST_VERSION_\w+ (\d+)", text))


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/coming-from-mlx.md"])
def test_python_examples_run_and_print_what_the_page_says(run_python, page):
    blocks = list(examples(page))
    assert blocks
    for code, printed in blocks:
        done = run_python(code)
        assert done.returncode == 0, done.stderr
        if printed:
            assert done.stdout == printed


def test_the_module_is_the_namespace_of_its_arrays():
    assert hf.zeros(1).__array_namespace__() is hf
    assert hf.newaxis is None and hf.inf > hf.pi > hf.e


def test_importing_opens_no_device_and_needs_no_numpy(run_python):
    done = run_python(
        """
        import sys, threading
        import holdfast
        print("numpy" in sys.modules, "asyncio" in sys.modules, threading.active_count())
        import os
        print(len(os.listdir("/proc/self/task")))
        """
    )
    assert (done.stdout, done.stderr) == ("False False 1\n1\n", "")
