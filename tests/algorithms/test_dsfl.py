"""DS-FL's average: sharper than the mean, and the mean's order kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.algorithms.dsfl import DSFLConfig, aggregate, entropy_reduction

PROBS = arrays(np.float64, (4, 3), elements=st.floats(0.01, 1)).map(lambda x: x / x.sum(axis=1, keepdims=True))


def test_the_average_is_the_softmax_of_the_mean_over_t_as_computed_by_hand():
    answers = [np.array([[0.8, 0.2]], np.float32), np.array([[0.4, 0.6]], np.float32)]
    average, facts = aggregate(answers, config=DSFLConfig(temperature=0.1), num_classes=2)
    # the mean is (0.6, 0.4); exp(6) and exp(4) over their sum
    assert average[0] == pytest.approx([np.exp(6) / (np.exp(6) + np.exp(4)), np.exp(4) / (np.exp(6) + np.exp(4))])
    assert facts.agreement == 0.5


@given(PROBS, st.floats(0.05, 0.5))
def test_classes_keep_their_order_and_probabilities_their_sum(probs, temperature):
    sharp = entropy_reduction(probs, temperature)
    assert np.allclose(sharp.sum(axis=1), 1)
    for before, after in zip(probs, sharp, strict=True):
        assert (np.diff(after[np.argsort(before)]) >= -1e-12).all()


def test_a_tiny_temperature_gives_one_hot_and_a_huge_one_gives_equal_shares():
    probs = np.array([[0.5, 0.3, 0.2], [0.0, 0.0, 1.0]])
    assert entropy_reduction(probs, 1e-4).tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    assert entropy_reduction(probs[:1], 1e9)[0] == pytest.approx([1 / 3] * 3)
