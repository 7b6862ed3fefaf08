"""x[key] and x[key] = v against NumPy."""

import holdfast as hf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


def numbered(shape):
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


shapes = hnp.array_shapes(min_dims=1, max_dims=4, max_side=5)


@st.composite
def basic_keys(draw, shape):
    return draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True, max_dims=7))


@st.composite
def array_keys(draw, shape):
    """A tuple with one item for each of the first axes: slices, integers, and arrays of positions
    that can be broadcast to each other."""
    count = draw(st.integers(1, len(shape)))
    common = draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
    items = []
    for n in shape[:count]:
        kind = draw(st.sampled_from(["array", "array", "slice", "integer", "mask"]))
        if kind == "slice":
            items.append(draw(st.slices(n)))
        elif kind == "integer":
            items.append(draw(st.integers(-n, n - 1)))
        elif kind == "mask" and common == ():
            # A mask picks as many as it has true elements: one, to go with the others.
            mask = np.zeros(n, bool)
            mask[draw(st.integers(0, n - 1))] = True
            items.append(mask)
        else:
            keep = draw(st.integers(0, len(common)))
            shape_of = common[len(common) - keep :]
            items.append(draw(hnp.arrays(np.int64, shape_of, elements=st.integers(-n, n - 1))))
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), None)
    return tuple(items)


@given(data=st.data())
def test_keys_of_integers_slices_none_and_ellipsis_give_what_numpy_gives(data):
    x = numbered(data.draw(shapes))
    key = data.draw(basic_keys(x.shape))
    np.testing.assert_array_equal(np.asarray(hf.array(x)[key]), x[key])


@given(data=st.data())
def test_keys_with_arrays_give_what_numpy_gives(data):
    x = numbered(data.draw(shapes))
    key = data.draw(array_keys(x.shape))
    np.testing.assert_array_equal(np.asarray(hf.array(x)[key]), x[key])


@given(data=st.data())
def test_masks_of_any_rank_give_what_numpy_gives(data):
    x = numbered(data.draw(shapes))
    rank = data.draw(st.integers(1, x.ndim))
    mask = data.draw(hnp.arrays(bool, x.shape[:rank]))
    np.testing.assert_array_equal(np.asarray(hf.array(x)[hf.array(mask)]), x[mask])
    np.testing.assert_array_equal(np.asarray(hf.array(x)[mask, ...]), x[mask, ...])


@given(data=st.data())
def test_assignment_through_slices_leaves_what_numpy_leaves(data):
    x = numbered(data.draw(shapes))
    key = data.draw(basic_keys(x.shape))
    ours = hf.array(x)
    value = data.draw(broadcastable_to(np.shape(x[key])))
    x[key] = value
    ours[key] = value
    np.testing.assert_array_equal(np.asarray(ours), x)


@given(data=st.data())
def test_assignment_through_arrays_leaves_what_numpy_leaves(data):
    x = numbered(data.draw(shapes))
    key = data.draw(array_keys(x.shape))
    ours = hf.array(x)
    # One value: where positions occur twice, NumPy does not promise which one stays.
    x[key] = -7
    ours[key] = -7
    np.testing.assert_array_equal(np.asarray(ours), x)


@given(data=st.data())
def test_assignment_of_arrays_through_distinct_positions_leaves_what_numpy_leaves(data):
    x = numbered(data.draw(hnp.array_shapes(min_dims=3, max_dims=3, min_side=2, max_side=4)))
    rows = np.array(data.draw(st.permutations(range(x.shape[0]))))[:2]
    columns = np.array(data.draw(st.permutations(range(x.shape[2]))))[:2]
    key = data.draw(
        st.sampled_from(
            [
                (rows,), (slice(None), slice(None), columns), (rows, slice(None), columns),
                (rows[:, None], slice(1, None), columns), (0, slice(None), columns),
                (Ellipsis, columns), (rows, None, 1),
            ]
        )
    )  # fmt: skip
    value = -1 - numbered(x[key].shape)
    ours = hf.array(x)
    x[key] = value
    ours[key] = hf.array(value)
    np.testing.assert_array_equal(np.asarray(ours), x)


@given(data=st.data())
def test_assignment_through_masks_leaves_what_numpy_leaves(data):
    x = numbered(data.draw(shapes))
    mask = data.draw(hnp.arrays(bool, x.shape[: data.draw(st.integers(1, x.ndim))]))
    ours = hf.array(x)
    value = data.draw(st.sampled_from([-1, None]))
    if value is None:
        value = -1 - numbered(x[mask].shape)
    x[mask] = value
    ours[hf.array(mask)] = value
    np.testing.assert_array_equal(np.asarray(ours), x)


def broadcastable_to(shape):
    """Integers, or arrays of a shape that stretches to this one."""

    def values(keep):
        lengths = [n if k else 1 for n, k in zip(shape, keep, strict=True)]
        return st.integers(0, len(lengths)).map(lambda cut: -1 - numbered(lengths[cut:]))

    arrays = st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)).flatmap(values)
    return st.just(-1) | arrays


def test_keys_that_do_not_fit_are_refused():
    x = hf.zeros((2, 3))
    for key in (2, -3, (0, 3), (0, 0, 0), (..., ...), hf.array([True]), 1 << 70):
        with pytest.raises(IndexError):
            x[key]
    with pytest.raises(ValueError):
        x[::0]
    for key in ("a", 1.5, hf.array([0.5])):
        with pytest.raises((TypeError, IndexError)):
            x[key]
    with pytest.raises(ValueError):
        x[0] = hf.zeros(4)
    assert x.tolist() == [[0] * 3] * 2


def test_bounds_beyond_the_ends_mean_the_ends():
    x = np.arange(5)
    for key in (slice(-100, 100), slice(1 << 80), slice(100, None, -1), slice(3, -100, -2)):
        assert hf.array(x)[key].tolist() == x[key].tolist()


def test_lists_numpy_scalars_and_arrays_without_axes_are_keys():
    x = np.arange(12).reshape(3, 4)
    ours = hf.array(x)
    assert ours[[0, 2]].tolist() == x[[0, 2]].tolist()
    assert ours[np.int64(1)].tolist() == x[1].tolist()
    assert ours[hf.array(1), hf.array(-1)].item() == x[1, -1]
    assert ours[[]].shape == (0, 4)
    assert ours[True].shape == (1, 3, 4)
    assert ours[np.False_].shape == (0, 3, 4)
    with pytest.raises(IndexError):
        ours[np.int64(3)]


def test_arrays_without_axes_have_keys_too():
    x = hf.array(5)
    assert x[()].item() == x[...].item() == 5
    assert x[None].tolist() == [5]
    assert x[True].tolist() == [5]
    x[()] = 6
    assert x.item() == 6
    x[...] = 7
    assert x.item() == 7
    x[True] = 8
    assert x.item() == 8
    with pytest.raises(IndexError):
        x[0]


def test_slices_share_memory_and_compute_nothing():
    x = hf.arange(12).reshape(3, 4)
    x.eval()
    before = hf.stats().nodes_recorded
    y = x[1:, ::-2]
    y.eval()
    assert hf.stats().nodes_recorded == before
    assert y.strides == (4, -2)


def test_positions_out_of_range_in_arrays_give_zero_or_nan():
    assert hf.array([1, 2])[hf.array([0, 5])].tolist() == [1, 0]
    assert np.isnan(hf.array([1.0])[hf.array([3])].item())
    assert hf.arange(4).reshape(2, 2)[hf.array([0, 2]), hf.array([1, 0])].tolist() == [1, 0]


def test_at_updates_as_often_as_positions_occur():
    x = hf.zeros(3)
    assert x.at[hf.array([0, 0, 2])].add(1).tolist() == [2, 0, 1]
    assert x.at[1:].add(hf.array([1.0, 2.0])).tolist() == [0, 1, 2]
    assert x.at[0].subtract(2).tolist() == [-2, 0, 0]
    ones = hf.ones((2, 2))
    assert ones.at[:, [1, 1]].multiply(3).tolist() == [[1, 9], [1, 9]]
    assert ones.at[0, 0].maximum(5).tolist() == [[5, 1], [1, 1]]
    assert ones.at[[1], [1]].minimum(-5).tolist() == [[1, 1], [1, -5]]
    assert ones.at[1].set(7).tolist() == [[1, 1], [7, 7]]
    assert x.tolist() == [0, 0, 0]


def test_assignment_works_in_the_arrays_own_memory_if_nobody_else_sees_it():
    x = hf.zeros(1000)
    x.eval()
    before = hf.stats().donated
    for i in range(5):
        x[i] = i
    x.eval()
    assert hf.stats().donated >= before + 5
    assert x[:6].tolist() == [0, 1, 2, 3, 4, 0]
