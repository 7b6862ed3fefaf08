"""A kernel that takes as long as it is told, and an array that needs it."""

import holdfast as hf

_spin = hf.kernel(
    "spin",
    ["x"],
    ["y"],
    """
    uint v = x[0];
    for (ulong i = 0; i < n; ++i) v = v * 1664525u + 1013904223u + (v >> 7);
    y[0] = v;
    """,
)


def slow(n):
    """One element that takes n steps."""
    (y,) = _spin(
        inputs=[hf.zeros(1, hf.uint32)],
        output_shapes=[(1,)],
        output_dtypes=[hf.uint32],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        params={"n": n},
    )
    return y


def in_flight():
    return hf.stats().submissions_in_flight > 0


hf.eval(slow(1))
hf.synchronize()
