"""PFNM's arithmetic: permuted nets become one again, and units that differ stay apart."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkd_flwr.baselines.cards import PFNMConfig
from fedkd_flwr.baselines.pfnm import aggregate, match_units

VAGUE = PFNMConfig(prior_variance=1e6)


def net(rng, widths):
    pairs = ((rng.normal(0, 3, (o, i)), rng.normal(0, 3, o)) for i, o in pairwise(widths))
    return [array for pair in pairs for array in pair]


def permuted(arrays, rng):
    """Return a net that computes the same, with its hidden units in another order."""
    made = [array.copy() for array in arrays]
    for layer in range(0, len(made) - 2, 2):
        order = rng.permutation(len(made[layer]))
        made[layer], made[layer + 1] = made[layer][order], made[layer + 1][order]
        made[layer + 2] = made[layer + 2][:, order]
    return made


def answers(arrays, X):
    for layer in range(0, len(arrays), 2):
        X = X @ arrays[layer].T + arrays[layer + 1]
        X = np.maximum(X, 0) if layer < len(arrays) - 2 else X
    return X


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([(3, 4, 2), (3, 5, 4, 2), (2, 3, 3, 3, 2)]), st.integers(2, 4))
def test_permuted_copies_of_one_net_are_that_net_again(seed, widths, copies):
    rng = np.random.default_rng(seed)
    one = net(rng, widths)
    nets = [permuted(one, rng) for _ in range(copies)]
    counts = rng.integers(1, 9, (copies, widths[-1]))
    found = aggregate(nets, counts, config=VAGUE, rng=rng)
    assert [array.shape for array in found] == [array.shape for array in one]
    X = rng.normal(size=(20, widths[0]))
    assert np.allclose(answers(found, X), answers(one, X), rtol=1e-3, atol=1e-2)


def test_units_that_have_nothing_in_common_stay_apart():
    rng = np.random.default_rng(0)
    units = [np.eye(6)[:3] * 50, np.eye(6)[3:] * 50]
    centres, owned = match_units(units, [np.ones(6)] * 2, prior=1e-9, gamma=1.0, passes=3, rng=rng)
    assert len(centres) == 6
    assert not set(owned[0]) & set(owned[1])


def test_two_units_of_one_party_never_share_a_centre():
    units = [np.ones((3, 2)), np.ones((2, 2))]
    _, owned = match_units(units, [np.ones(2)] * 2, prior=1.0, gamma=1.0, passes=2, rng=np.random.default_rng(0))
    assert all(len(set(own)) == len(own) for own in owned)


def test_a_party_without_rows_of_a_class_says_nothing_of_it():
    """The weights to a class, and its bias, are those of the parties that know it."""
    rng = np.random.default_rng(1)
    one = net(rng, (2, 3, 2))
    other = [array.copy() for array in one]
    other[2][1], other[3][1] = -40.0, -40.0  # it never saw class 1
    found = aggregate([one, other], np.array([[5, 5], [5, 0]]), config=VAGUE, rng=rng)
    assert found[3] == pytest.approx(one[3], rel=1e-3)
    X = rng.normal(size=(5, 2))
    assert np.allclose(answers(found, X)[:, 1], answers(one, X)[:, 1], rtol=1e-3, atol=1e-2)
