"""A kernel written as text: a fused rotation of pairs, checked against the same in operations."""

# %% The kernel. Names follow Metal, on every device.
import holdfast as hf

rotate = hf.kernel(
    name="rotate_pairs",
    input_names=["x", "angle"],
    output_names=["y"],
    source="""
        uint i = thread_position_in_grid.x;
        float a = float(x[2 * i]);
        float b = float(x[2 * i + 1]);
        float c = metal::cos(angle[i]);
        float s = metal::sin(angle[i]);
        y[2 * i] = T(a * c - b * s);
        y[2 * i + 1] = T(a * s + b * c);
    """,
)


def rotated(x, angle):
    pairs = x.size // 2
    (y,) = rotate(
        inputs=[x, angle],
        output_shapes=[x.shape],
        output_dtypes=[x.dtype],
        grid=(pairs, 1, 1),
        threadgroup=(min(256, pairs), 1, 1),
        template=[("T", x.dtype)],
    )
    return y


# %% Compile for two dtypes before they are needed, and see how far it is.
calls = [
    {
        "inputs": [((1024,), dtype), ((512,), hf.float32)],
        "output_shapes": [(1024,)],
        "output_dtypes": [dtype],
        "template": [("T", dtype)],
    }
    for dtype in (hf.float32, hf.float16)
]
hf.warm_up(rotate, calls, progress=lambda done, total: print(f"compiled {done} of {total}"))

# %% Use it like any operation: lazily.
x = hf.random.normal((1024,), key=hf.random.key(1))
angle = hf.linspace(0, 3, 512)
y = rotated(x, angle)
hf.async_eval(y)  # recorded and submitted; nothing waits

# %% The same by operations.
a, b = x[::2], x[1::2]
c, s = hf.cos(angle), hf.sin(angle)
expected = hf.stack([a * c - b * s, a * s + b * c], axis=1).reshape(-1)
assert hf.allclose(y, expected, atol=1e-5).item()
half = rotated(x.astype(hf.float16), angle)
assert hf.allclose(half.astype(hf.float32), expected, atol=1e-2).item()

# %% Twice by an angle is once by the double.
twice = rotated(rotated(x, angle), angle)
assert hf.allclose(twice, rotated(x, angle * 2), atol=1e-4).item()
print("rotations agree")
