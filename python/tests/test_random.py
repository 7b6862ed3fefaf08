import holdfast as hf
import numpy as np
import pytest


def test_the_same_key_gives_the_same_numbers_and_another_key_others():
    key = hf.random.key(7)
    a, b = hf.random.split(key)
    x = hf.random.uniform(shape=(100,), key=a)
    assert x.tolist() == hf.random.uniform(shape=(100,), key=a).tolist()
    assert x.tolist() != hf.random.uniform(shape=(100,), key=b).tolist()
    assert len(hf.random.split(key, 5)) == 5


def test_the_seed_restarts_the_sequence_of_keys():
    hf.random.seed(3)
    first = [hf.random.normal((4,)).tolist() for _ in range(2)]
    hf.random.seed(3)
    assert [hf.random.normal((4,)).tolist() for _ in range(2)] == first
    assert first[0] != first[1]


def test_uniform_and_normal_have_their_moments():
    key = hf.random.key(1)
    u = np.asarray(hf.random.uniform(-2, 4, (20000,), key=key))
    assert u.min() >= -2 and u.max() < 4
    assert abs(u.mean() - 1) < 0.05
    n = np.asarray(hf.random.normal((20000,), loc=3.0, scale=2.0, key=key))
    assert abs(n.mean() - 3) < 0.06 and abs(n.std() - 2) < 0.05
    assert hf.random.normal((2,), hf.bfloat16).dtype is hf.bfloat16
    low = hf.array([0.0, 10.0])
    v = np.asarray(hf.random.uniform(low, low + 1, key=key))
    assert v.shape == (2,) and 0 <= v[0] < 1 and 10 <= v[1] < 11


def test_integers_cover_their_range():
    key = hf.random.key(2)
    x = np.asarray(hf.random.randint(-3, 4, (5000,), key=key))
    assert set(x.tolist()) == set(range(-3, 4))
    wide = np.asarray(hf.random.randint(0, 1 << 40, (1000,), hf.int64, key=key))
    assert wide.max() > 1 << 39 and len(set(wide.tolist())) > 990


def test_bernoulli_gumbel_laplace_and_categorical_have_their_means():
    key = hf.random.key(3)
    assert abs(np.asarray(hf.random.bernoulli(0.3, (20000,), key)).mean() - 0.3) < 0.02
    assert abs(np.asarray(hf.random.gumbel((20000,), key=key)).mean() - 0.5772) < 0.05
    assert abs(np.asarray(hf.random.laplace((20000,), loc=1.0, key=key)).mean() - 1) < 0.05
    logits = hf.log(hf.array([0.1, 0.2, 0.7]))
    picks = np.asarray(hf.random.categorical(logits, num_samples=20000, key=key))
    np.testing.assert_allclose(np.bincount(picks) / 20000, [0.1, 0.2, 0.7], atol=0.02)
    assert hf.random.categorical(hf.zeros((4, 3)), key=key).shape == (4,)
    assert hf.random.categorical(hf.zeros((4, 3)), axis=0, key=key).shape == (3,)
    assert hf.random.categorical(hf.zeros((4, 3)), shape=(5, 4), key=key).shape == (5, 4)
    with pytest.raises(ValueError):
        hf.random.categorical(logits, shape=(1,), num_samples=1)
