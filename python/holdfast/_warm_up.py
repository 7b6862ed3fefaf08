"""hf.warm_up: kernels compiled before they are needed."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from holdfast import _core
from holdfast._core import Kernel

__all__ = ["warm_up"]


def _bar(done: int, total: int) -> None:
    """A line that draws itself again."""
    width = 30
    filled = width * done // max(total, 1)
    end = "\n" if done == total else ""
    print(
        f"\rcompiling [{'#' * filled}{' ' * (width - filled)}] {done}/{total}",
        end=end,
        file=sys.stderr,
        flush=True,
    )


def warm_up(
    kernel: Kernel,
    calls: Sequence[dict[str, Any]],
    *,
    stream: Any = None,
    progress: bool | Callable[[int, int], None] = False,
) -> None:
    """Compiles a kernel ahead, for several calls at once and beside each other.

    Each call is a dict with the arguments of a call of the kernel. An input may be given by its
    shape and dtype instead: `((4, 8), hf.float32)`. What a compile does not depend on (grid,
    threadgroup, values of params) may be left out.

    progress: True draws a bar on stderr; a function is called with the number of calls that are
    done, and of all. Raises the first error once everything else is compiled."""
    calls = list(calls)
    show = _bar if progress is True else progress or None
    # All at once, unless somebody wants to see how far it is.
    size = max(1, os.cpu_count() or 1) if show else max(1, len(calls))
    failure = None
    if show:
        show(0, len(calls))
    for begin in range(0, len(calls), size):
        part = calls[begin : begin + size]
        for message in kernel._warm_up(part, stream):
            failure = failure or message
        if show:
            show(min(begin + size, len(calls)), len(calls))
    if failure:
        raise _core.UsageError(failure)
