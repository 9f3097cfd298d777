"""FedDF's arithmetic: the parties' mean logits as probabilities."""

import numpy as np

from fedkd_flwr.baselines.feddf import aggregate


def test_one_party_s_answer_is_its_softmax_and_a_constant_beside_logits_changes_nothing():
    logits = np.random.default_rng(0).normal(size=(4, 3))
    alone = aggregate([logits])
    exact = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(alone, exact)
    assert np.allclose(aggregate([logits + 800.0, logits - 800.0]), exact)  # nothing overflows


def test_parties_are_taken_one_at_a_time():
    assert np.allclose(aggregate(one for one in [np.zeros((2, 2))] * 3), 0.5)


def test_rows_of_very_different_size_do_not_overflow_beside_each_other():
    logits = np.random.default_rng(1).normal(size=(3, 4))
    exact = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(aggregate([np.add(logits, [[1e3], [-1e3], [0.0]])]), exact)
