"""Work on two streams, awaited from asyncio, with waits that are counted."""

# %% Two streams run beside each other; arrays that depend on both make one wait for the other.
import asyncio

import holdfast as hf

left, right = hf.new_stream(name="left"), hf.new_stream(name="right")
x = hf.random.normal((64, 64), key=hf.random.key(2))
with hf.stream(left):
    a = x @ x.T
with hf.stream(right):
    b = hf.softmax(x, axis=-1)
joined = a + b

# %% The event loop stays free while the device works.


async def main():
    ticks = 0

    async def tick():
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            await asyncio.sleep(0)

    done = asyncio.Event()
    ticking = asyncio.create_task(tick())
    await hf.aeval(joined)
    done.set()
    await ticking
    return ticks


assert asyncio.run(main()) > 0
assert hf.allclose(joined, x @ x.T + hf.softmax(x, axis=-1), atol=1e-4).item()

# %% No wait is hidden: stats counts every one, by its reason.
waits = hf.stats().waits
assert set(waits) >= {"readback", "budget", "synchronize"}
print("waited for readbacks:", waits["readback"].count > 0)
