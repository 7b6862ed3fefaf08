"""Runs the Python example of README.md, and checks what it prints."""

import contextlib
import io
import pathlib
import re

root = pathlib.Path(__file__).parents[2]
EXAMPLE = r"^```python\n((?:.*\n)*?)```\n(?:\n((?:    .*\n)+))?"


def examples(page):
    """The blocks of Python in a page, each with the text below it that it prints."""
    for code, printed in re.findall(EXAMPLE, (root / page).read_text(), re.M):
        yield code, re.sub(r"^    ", "", printed, flags=re.M)


if __name__ == "__main__":
    for code, printed in examples("README.md"):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, {})
        assert out.getvalue() == printed, out.getvalue()
    print("README.md: its example prints what it says")
