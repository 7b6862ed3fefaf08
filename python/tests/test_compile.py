"""hf.compile: the function's own results, whatever its arguments and what it captures."""

import collections
import gc
import threading
import warnings
import weakref

import holdfast as hf
import numpy as np
import pytest

Pair = collections.namedtuple("Pair", "left right")


def floats(*values):
    return hf.array(list(values), dtype=hf.float32)


def counted(f):
    """The function, and a list that grows with each call of it."""
    calls = []

    def wrapper(*args, **kwargs):
        calls.append(1)
        return f(*args, **kwargs)

    return wrapper, calls


def test_it_is_traced_once_for_each_signature():
    f, calls = counted(lambda x, y: hf.exp(x) + y * 2)
    g = hf.compile(f)
    for shape in [(3,), (3,), (2, 2), (3,)]:
        x, y = hf.random.normal(shape), hf.random.normal(shape)
        assert g(x, y).tolist() == f(x, y).tolist()
    assert len(calls) == 2 + 4
    traced = hf.stats().functions_traced
    g(floats(1, 2, 3), floats(4, 5, 6))
    assert hf.stats().functions_traced == traced


def test_it_is_a_decorator_with_and_without_arguments():
    @hf.compile
    def double(x):
        """Twice x."""
        return x * 2

    @hf.compile(fuse=False, name="thrice")
    def triple(x):
        return x * 3

    assert double.__name__ == "double" and double.__wrapped__.__doc__ == "Twice x."
    assert repr(triple) == "<compiled function 'thrice'>"
    assert double(floats(1)).tolist() == [2] and triple(floats(1)).tolist() == [3]


def test_arguments_and_results_are_trees():
    @hf.compile
    def f(layers, *rest, scale=1.0, names=None):
        out = {
            name: Pair(layer["w"] * scale, [layer["b"] + r for r in rest])
            for name, layer in layers.items()
        }
        return out, (None, 3, "text"), []

    layers = {n: {"w": floats(1, 2), "b": floats(i)} for i, n in enumerate(["a", "b"])}
    for scale in [2.0, 2.0, 3.0]:
        out, constants, nothing = f(layers, floats(10), floats(20), scale=scale, names=("x", None))
        assert type(out["a"]) is Pair and constants == (None, 3, "text") and nothing == []
        assert out["a"].left.tolist() == [scale, 2 * scale]
        assert [a.item() for a in out["b"].right] == [11, 21]


def test_constants_among_the_arguments_are_part_of_the_signature():
    f, calls = counted(lambda x, n, how="a", flag=None: x + n if how == "a" else x - float(n))
    g = hf.compile(f)
    x = floats(1)
    assert g(x, 1).item() == 2
    assert g(x, 1.0).item() == 2
    assert g(x, True).item() == 2
    assert g(x, 2).item() == 3
    assert g(x, 2, how="b").item() == -1
    assert g(x, 2, flag=b"").item() == 3
    assert g(x, 2**70, how="b").item() == -float(2**70)
    assert len(calls) == 7
    assert g(x, 2, how="b").item() == -1 and g(x, True).item() == 2
    assert len(calls) == 7


def test_what_is_no_tree_is_named():
    f = hf.compile(lambda x: x)
    with pytest.raises(TypeError, match=r"arguments\[0\]\['w'\]\[1\] is of type object"):
        f({"w": [floats(1), object()]})
    with pytest.raises(TypeError, match="is of type ndarray.*hf.array"):
        f(np.ones(3))
    with pytest.raises(TypeError, match=r"the result\[0\] is of type set"):
        hf.compile(lambda x: [{1}])(floats(1))
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        f(loop)


def test_captured_arrays_are_fixed_and_inputs_are_not():
    held = {"w": floats(1), "other": 3}
    frozen = hf.compile(lambda x: x + held["w"])
    live = hf.compile(lambda x: x + held["w"], inputs=held)
    assert frozen(floats(1)).item() == 2 and live(floats(1)).item() == 2
    held["w"] = floats(10)
    assert frozen(floats(1)).item() == 2 and live(floats(1)).item() == 11
    before = held["w"]
    live(floats(2, 3))  # traced again: what stood there stands there
    assert held["w"] is before and before.item() == 10


def test_outputs_are_replaced_by_each_call():
    state = []

    def f(x, y):
        z = x + y
        state.append(z)
        return hf.exp(z)

    g = hf.compile(f, outputs=state)
    for i in range(3):
        g(floats(i), floats(2))
        assert len(state) == 1 and state[0].item() == i + 2


def test_state_is_updated_in_its_own_memory():
    cache = {"k": [hf.zeros((4, 8)), hf.zeros((4, 8))], "n": hf.array(0)}

    @hf.compile(state=cache)
    def step(x):
        for i, k in enumerate(cache["k"]):
            k[1:2] = x * (i + 1)  # the object in the list
        cache["n"] = cache["n"] + 1
        return hf.sum(cache["k"][1])

    hf.eval(cache)
    copies = hf.stats().hidden_copies
    for i in range(4):
        assert step(hf.full((1, 8), i + 1)).item() == 16 * (i + 1)
    assert cache["n"].item() == 4
    assert cache["k"][0][1].tolist() == [4] * 8
    assert hf.stats().hidden_copies == copies


def test_state_that_others_see_is_copied_first():
    kv = {"a": floats(1, 2)}

    def f(x):
        kv["a"] = kv["a"] + x

    g = hf.compile(f, inputs=kv, outputs=kv)
    kept = kv["a"]
    g(floats(1, 1))
    assert kv["a"].tolist() == [2, 3] and kept.tolist() == [1, 2]
    g(kv["a"])
    assert kv["a"].tolist() == [4, 6]


def test_an_array_may_be_state_by_itself():
    total = floats(0, 0)

    @hf.compile(state=(total,))
    def add(x):
        total[:] = total + x

    for i in range(3):
        add(floats(i, 1))
    assert total.tolist() == [3, 3]


def test_a_function_that_raises_leaves_everything_as_it_was():
    kv = {"a": floats(1)}
    bare = floats(5)
    fail = True

    def f(x):
        kv["a"] = kv["a"] + x
        kv["new"] = x
        bare[0] = 9
        if fail:
            raise KeyError("not now")
        del kv["new"]
        return kv["a"] * 2

    g = hf.compile(f, state=[kv, bare])
    before = kv["a"]
    with pytest.raises(KeyError, match="not now"):
        g(floats(1))
    assert list(kv) == ["a"] and kv["a"] is before and before.item() == 1 and bare.item() == 5
    fail = False
    assert g(floats(1)).item() == 4 and kv["a"].item() == 2 and bare.item() == 9


def test_state_keeps_its_form():
    kv = {"a": floats(1)}

    def f(x):
        kv["b"] = x

    with pytest.raises(ValueError, match="left its state in another form"):
        hf.compile(f, state=kv)(floats(1))
    assert list(kv) == ["a"] and kv["a"].item() == 1


def test_reading_an_argument_is_refused():
    f = hf.compile(lambda x: x if x.item() > 0 else -x, name="choose")
    with pytest.raises(hf.UsageError, match="argument 0 of the compiled function 'choose'"):
        f(floats(1))


def test_check_notices_what_changed():
    w = [floats(1)]
    f = hf.compile(lambda x: x * w[0], check=True)
    assert f(floats(3)).item() == 3
    assert f(floats(4)).item() == 4
    w[0] = floats(2)
    with pytest.raises(hf.UsageError, match="is not what it was"):
        f(floats(3))


def test_a_shapeless_function_is_called_once_for_all_lengths():
    f, calls = counted(lambda x: hf.softmax(x * 2, axis=-1) + x.sum(axis=0))
    g = hf.compile(f, shapeless=True)
    for shape in [(2, 3), (5, 4), (3, 7), (2, 3)]:
        x = hf.random.normal(shape)
        want = np.asarray(hf.softmax(x * 2, axis=-1) + x.sum(axis=0))
        np.testing.assert_allclose(np.asarray(g(x)), want, rtol=1e-5, atol=1e-6)
    assert len(calls) == 1
    with pytest.raises(hf.UsageError, match="is shapeless, and slice names"):
        hf.compile(lambda x: x[:2] + 1, shapeless=True)(floats(1, 2, 3))


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(TypeError, match="takes a function"):
        hf.compile(3)
    with pytest.raises(TypeError, match="not both"):
        hf.compile(abs, inputs=[], state=[])
    with pytest.raises(TypeError, match="a list or a dict"):
        hf.compile(abs, outputs=())
    with pytest.raises(hf.UsageError, match="max_programs"):
        hf.compile(abs, max_programs=0)


def test_it_can_be_switched_off():
    f, calls = counted(lambda x: x + 1)
    g = hf.compile(f)
    hf.disable_compile()
    try:
        assert [g(floats(1)).item() for _ in range(3)] == [2, 2, 2]
    finally:
        hf.enable_compile()
    assert len(calls) == 3
    assert [g(floats(1)).item() for _ in range(3)] == [2, 2, 2]
    assert len(calls) == 4


def test_kernels_of_users_are_compiled_with_the_rest():
    scale = hf.kernel("scale", ["x"], ["y"], "uint i = thread_position_in_grid.x; y[i] = x[i] * s;")

    @hf.compile
    def f(x):
        (y,) = scale(
            inputs=[x + 1],
            output_shapes=[x.shape],
            output_dtypes=[x.dtype],
            grid=(x.size, 1, 1),
            threadgroup=(32, 1, 1),
            params={"s": 3.0},
        )
        return y - 1

    for i in range(3):
        assert f(floats(i, 1)).tolist() == [3 * (i + 1) - 1, 5]


def test_a_compiled_function_may_call_another():
    inner = hf.compile(lambda x: x * 2)
    outer = hf.compile(lambda x: inner(x) + inner(x + 1))
    for _ in range(2):
        assert outer(floats(1, 2)).tolist() == [6, 10]


def test_threads_share_a_function():
    f = hf.compile(lambda x: hf.sum(hf.exp(x) * 2))
    failures = []

    def work(t):
        with hf.stream(hf.new_stream(hf.default_device())):
            for i in range(20):
                x = hf.full((8 + i % 3,), float(t))
                got = f(x).item()
                want = (8 + i % 3) * 2 * float(np.exp(np.float32(t)))
                if not np.isclose(got, want, rtol=1e-5):
                    failures.append((t, i, got, want))

    threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


def test_calls_that_overlap_and_share_state_are_refused():
    kv = {"a": floats(1)}
    entered, leave = threading.Event(), threading.Event()

    def slow(x):
        entered.set()
        leave.wait(60)
        kv["a"] = kv["a"] + x

    def other(x):
        kv["a"] = kv["a"] * x

    thread = threading.Thread(target=hf.compile(slow, state=kv), args=(floats(1),))
    thread.start()
    entered.wait(60)
    try:
        with pytest.raises(hf.UsageError, match="share state"):
            hf.compile(other, state=kv)(floats(1))
    finally:
        leave.set()
        thread.join()
    assert kv["a"].item() == 2


def test_it_is_collected_with_what_it_captures():
    class Model:
        pass

    model = Model()
    model.w = floats(1)
    model.step = hf.compile(lambda x: x + model.w)
    assert model.step(floats(1)).item() == 2
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_arrays_that_are_one_object_are_part_of_the_signature():
    def add_to_first(st, x):
        st[0] = st[0] + x

    for f in [add_to_first]:
        a = floats(1)
        st = [a, a]
        g = hf.compile(lambda x, st=st, f=f: f(st, x), state=st)
        for _ in range(3):
            g(floats(1))
        assert [v.tolist() for v in st] == [[4], [1]]
    w = floats(2)
    p = {"a": w, "b": w}
    scaled = hf.compile(lambda x: x * p["a"], inputs=p)
    assert scaled(floats(1)).item() == 2
    p["a"] = floats(10)
    assert scaled(floats(1)).item() == 10
    st = [floats(1), floats(2)]
    g = hf.compile(lambda x: add_to_first(st, x), state=st)
    g(floats(1))
    st[1] = st[0]
    g(floats(1))
    assert [v.tolist() for v in st] == [[3], [2]]


def test_calls_of_other_threads_wait_until_inputs_were_traced():
    p = {"w": floats(3)}
    entered, leave = threading.Event(), threading.Event()

    def slow(x):
        entered.set()
        leave.wait(60)
        return x * p["w"]

    results = {}

    def call(name, f):
        results[name] = f(floats(2)).item()

    first = threading.Thread(target=call, args=("first", hf.compile(slow, inputs=p)))
    first.start()
    entered.wait(60)
    second = threading.Thread(
        target=call, args=("second", hf.compile(lambda x: x + p["w"], inputs=p))
    )
    second.start()
    leave.set()
    first.join()
    second.join()
    assert results == {"first": 6, "second": 5} and p["w"].item() == 3


def test_lists_and_dicts_of_other_types_are_refused_by_name():
    f = hf.compile(lambda p: p["w"])
    with pytest.raises(TypeError, match=r"arguments\[0\] is of type OrderedDict"):
        f(collections.OrderedDict(w=floats(1)))
    with pytest.raises(TypeError, match="a list or a dict"):
        hf.compile(f, outputs=collections.OrderedDict())


def test_outputs_of_a_function_within_another_are_refused():
    o = {}

    def g(x):
        o["y"] = x
        return x

    inner = hf.compile(g, outputs=o)
    outer = hf.compile(lambda x: inner(x) + 1)
    with pytest.raises(hf.UsageError, match="has outputs and is called while"):
        outer(floats(1))
    assert o == {}


def test_a_tuple_in_state_keeps_its_arrays():
    st = [(floats(1), floats(2))]

    def f(x):
        st[0] = (st[0][0] + x, st[0][1])

    with pytest.raises(ValueError, match="into a tuple of its state"):
        hf.compile(f, state=st)(floats(1))
    assert st[0][0].item() == 1


def test_a_method_that_captures_its_model_is_collected():
    class Model:
        def __init__(self):
            self.w = floats(2)
            self.step = hf.compile(self.forward, inputs=[self.w])

        def forward(self, x):
            return x * self.w

    model = Model()
    assert model.step(floats(3)).item() == 6
    assert model.step.__wrapped__ == model.forward and model.step.__name__ == "forward"
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_shapeless_functions_may_insert_and_drop_axes():
    f, calls = counted(lambda x: hf.expand_dims(hf.expand_dims(x, 0), 2).squeeze(0) + 1)
    g = hf.compile(f, shapeless=True)
    for n in [3, 5]:
        assert g(hf.ones(n)).shape == (n, 1)
    assert len(calls) == 1
    with pytest.raises(hf.UsageError, match="makes an array of shape"):
        hf.compile(lambda x: x + hf.zeros_like(x), shapeless=True)(hf.ones(4))


def test_many_calls_leave_no_references():
    import sys

    f = hf.compile(lambda x, n: [x + n, {"y": x}])
    kv = [floats(0)]

    def step(x):
        kv[0] = kv[0] + x

    g = hf.compile(step, state=kv)
    x = floats(1)
    f(x, 1), g(x)
    before = sys.getrefcount(x)
    for _ in range(100):
        f(x, 1)
        g(x)
    hf.eval(kv)
    hf.synchronize()
    gc.collect()
    assert sys.getrefcount(x) == before


def test_many_signatures_are_bounded_and_told_once(capfd):
    f, calls = counted(lambda x: x + 1)
    g = hf.compile(f, max_programs=4, name="padded")
    for n in range(1, 12):
        assert g(hf.ones(n)).shape == (n,)
    assert len(calls) == 11
    told = capfd.readouterr().err
    assert told.count("was traced for more than 4 signatures") == 1
    assert "the shape of argument 0 varies" in told


def test_mlx_programs_run_unchanged():
    from functools import partial

    mx = hf
    state = {"params": {"w": mx.ones((3,)), "b": mx.zeros((3,))}, "step": mx.array(0)}

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x):
        p = state["params"]
        y = x * p["w"] + p["b"]
        p["b"] = p["b"] - 0.5 * y
        state["step"] = state["step"] + 1
        return y.sum()

    expected_b, results = np.zeros(3), []
    for i in range(3):
        y = i + 1 + expected_b
        expected_b = expected_b - 0.5 * y
        results.append((step(mx.full((3,), i + 1.0)).item(), y.sum()))
        mx.eval(state)
    assert all(np.isclose(a, b) for a, b in results)
    assert np.allclose(np.asarray(state["params"]["b"]), expected_b)
    assert state["step"].item() == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()
