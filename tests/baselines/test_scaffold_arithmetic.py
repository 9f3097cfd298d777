"""SCAFFOLD's arithmetic: what the controls add up to."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.baselines.scaffold import aggregate, next_control


def arrays(values):
    return [np.array([value], dtype=np.float32) for value in values]


NUMBERS = st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=2)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5), NUMBERS)
def test_where_all_parties_answer_the_server_s_control_is_the_mean_of_theirs(parties, weights):
    """It starts at zero, as theirs do; so their changes' mean is the mean of what they became."""
    start = arrays([0.0, 0.0])
    replies = [(arrays(moved), arrays(control)) for moved, control in parties]
    moved, control = aggregate(arrays(weights), start, replies, num_parties=len(parties))
    for k in range(2):
        assert np.allclose(control[k], np.mean([change[k] for _, change in replies]), atol=1e-3)
        assert np.allclose(moved[k], np.mean([y[k] for y, _ in replies]), atol=1e-3)


def test_a_party_s_next_control_is_the_mean_gradient_of_its_steps():
    gradients, rate = [0.5, -2.0, 3.0], 0.1
    control, servers, weight = 0.25, -0.5, 1.0
    for gradient in gradients:
        weight -= rate * (gradient - control + servers)
    found = next_control(arrays([control]), arrays([servers]), arrays([1.0]), arrays([weight]), steps=3, rate=rate)
    assert found[0].dtype == np.float32
    assert np.allclose(found[0], np.mean(gradients), atol=1e-5)


def test_each_weight_of_an_array_is_averaged_over_parties_alone():
    start = [np.zeros((2, 2), dtype=np.float32)]
    replies = [([start[0] + [[1, 2], [3, 4]]], [start[0] + one]) for one in ([[0, 4], [0, 0]], [[2, 0], [0, 8]])]
    moved, control = aggregate(start, start, replies, num_parties=4)
    assert moved[0].dtype == control[0].dtype == np.float32
    assert moved[0].tolist() == [[1, 2], [3, 4]]
    assert control[0].tolist() == [[0.5, 1], [0, 2]]
