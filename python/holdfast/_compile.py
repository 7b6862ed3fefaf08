"""hf.compile: functions of arrays, traced once and replayed."""

import functools
from collections.abc import Callable
from typing import Any

from holdfast import _core

__all__ = ["compile"]


def compile(
    fun: Callable | None = None,
    inputs: Any = None,
    outputs: Any = None,
    shapeless: bool = False,
    *,
    state: Any = None,
    name: str | None = None,
    check: bool = False,
    fuse: bool = True,
    max_programs: int = 64,
) -> Callable:
    """A function with the results of `fun` that runs its graph as one program of the device.

    `fun` is called once for each signature: the dtypes, shapes and layouts of the arrays among its
    arguments, and all else in these. Later calls replay what it computed. Arguments and results are
    arrays and constants (numbers, strings, None) in lists, tuples and dicts. A call is lazy, like
    any operation. Reading elements inside `fun` raises UsageError.

    Arrays that `fun` captures are fixed when it is traced, and so is everything else that it does
    on the host. Lists and dicts whose arrays change are declared:

    inputs: looked at in each call, for what `fun` reads. A tree of arrays, or an array.
    outputs: a list or dict whose items each call replaces by what `fun` leaves there.
    state: both, for what `fun` updates: its arrays keep their places, and are updated in their own
    memory where nobody else sees them. `inputs` and `outputs` that are one object mean this.

    shapeless: call `fun` once for all lengths of its arguments' axes. Numbers that it computes of
    shapes are fixed. It may use elementwise operations, reductions, softmax, scans, norms, matrix
    products and transposes; UsageError names whatever else it does.
    check: trace in every call, and raise UsageError if `fun` computes something else than before.
    fuse: elementwise operations, reductions and softmax share kernels.
    max_programs: how many signatures are kept; the least recently used one goes first.

    Without `fun` it is a decorator: `@hf.compile(state=cache)`."""
    if fun is None:
        return functools.partial(
            compile,
            inputs=inputs,
            outputs=outputs,
            shapeless=shapeless,
            state=state,
            name=name,
            check=check,
            fuse=fuse,
            max_programs=max_programs,
        )
    if not callable(fun):
        raise TypeError(f"compile takes a function, not {type(fun).__name__}")
    if state is not None and (inputs is not None or outputs is not None):
        raise TypeError("give state, or inputs and outputs, not both")
    if inputs is outputs:
        inputs, outputs, state = None, None, state if inputs is None else inputs
    called = name or getattr(fun, "__name__", "") or "compiled function"
    return _core._Compiled(
        fun, inputs, outputs, state, called, check, fuse, shapeless, max_programs
    )
