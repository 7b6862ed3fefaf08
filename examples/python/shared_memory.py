"""Memory shared with NumPy, and never lost: views outlive arrays, arrays outlive views."""

# %% NumPy sees an array's memory, read-only, and keeps it.
import holdfast as hf
import numpy as np

hf.set_default_device("cpu")  # NumPy reaches no other memory
x = hf.arange(12, dtype=hf.float32).reshape(3, 4) * 2
view = np.asarray(x)
del x
assert not view.flags.writeable
assert view[2, 3] == 22

# %% An array in NumPy's memory: no copy. Nobody may write to it any more.
a = np.linspace(0, 1, 1000, dtype=np.float32)
y = hf.from_numpy(a)
total = hf.sum(y * y)
hf.async_eval(total)
del a, y  # the work in flight keeps what it needs
assert abs(total.item() - 333.5) < 1

# %% DLPack: the same for every library that speaks it, on CUDA without a wait on the host.
z = hf.from_dlpack(np.ones((2, 3), np.int32))
back = np.from_dlpack(z + 1)
assert back.tolist() == [[2, 2, 2], [2, 2, 2]]

# %% Updates never change what others see.
before = hf.zeros(4)
after = before
after[1] = 5
assert before.tolist() == after.tolist() == [0, 5, 0, 0]  # two names, one object
copy = hf.array(after)
copy[0] = 9
assert after.tolist() == [0, 5, 0, 0] and copy.tolist() == [9, 5, 0, 0]
print("memory is shared and kept")
