"""PFNM: one round in process, a wider net for everybody, and which nets it takes."""

from itertools import pairwise

import numpy as np
import pytest
from flwr.app import Array
from hypothesis import given, settings
from hypothesis import strategies as st
from rounds import TEST, codes, make, members, run

from fedkd_flwr.baselines.pfnm import aggregate, match_units
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.record.notes import Note, NoteCode

pytest.importorskip("torch")


def test_the_matched_net_beats_guessing_and_every_party_gets_it():
    strategy, grid = run("pfnm", rounds=1, local_epochs=10)
    X, y = TEST
    assert (strategy.exchange.model.predict(X) == y).mean() > 0.8
    widths = [len(strategy.exchange.model.arrays()[1])]
    assert widths[0] >= 8
    assert Note(NoteCode.WIDTHS, {"found": widths, "own": [8]}) in strategy.record.notes
    assert set(grid.replies[0].content["arrays"]) == {*(f"model.{i}" for i in range(4)), "class-counts"}
    assert {p.federated["common"].accuracy for p in strategy.record.parties} == {strategy.record.server_accuracy}


def test_another_net_is_refused_by_name():
    def image(*, seed):
        from fedkd_flwr.models.zoo import make_model

        return make_model("cnn-fedkt", num_classes=3, num_features=784, seed=seed, params={})

    with pytest.raises(ConfigError, match=r"model must be the fully connected net mlp, got 'cnn-fedkt'"):
        make("pfnm", global_model=image)


@pytest.mark.parametrize("counts", [np.zeros(2, np.int64), np.full(3, -1), np.full(3, 2**40), np.zeros(3, np.float32)])
def test_class_counts_that_are_none_are_left_out(counts):
    def tamper(index, reply):
        if index == 2 and reply.metadata.message_type == "train":
            *_, last = reply.content["arrays"]
            reply.content["arrays"][last] = Array(counts)
        return reply

    strategy, _ = run("pfnm", rounds=1, held=members(3, "pfnm"), tamper=tamper)
    assert list(codes(strategy).values()) == ["bad-payload"]


VAGUE = 1e-6


def net_of(rng, widths):
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
    one = net_of(rng, widths)
    nets = [permuted(one, rng) for _ in range(copies)]
    counts = rng.integers(1, 9, (copies, widths[-1]))
    found = aggregate(nets, counts, prior=VAGUE, rng=rng)
    assert [array.shape for array in found] == [array.shape for array in one]
    X = rng.normal(size=(20, widths[0]))
    assert np.allclose(answers(found, X), answers(one, X), rtol=1e-3, atol=1e-2)


def test_two_units_of_one_party_never_share_a_centre():
    units = [np.ones((3, 2)), np.ones((2, 2))]
    _, owned = match_units(units, [np.ones(2)] * 2, prior=1.0, gamma=1.0, passes=2, rng=np.random.default_rng(0))
    assert all(len(set(own)) == len(own) for own in owned)


def test_a_party_without_rows_of_a_class_says_nothing_of_it():
    """The weights to a class, and its bias, are those of the parties that know it."""
    rng = np.random.default_rng(1)
    one = net_of(rng, (2, 3, 2))
    other = [array.copy() for array in one]
    other[2][1], other[3][1] = -40.0, -40.0  # it never saw class 1
    found = aggregate([one, other], np.array([[5, 5], [5, 0]]), prior=VAGUE, rng=rng)
    assert found[3] == pytest.approx(one[3], rel=1e-3)
    X = rng.normal(size=(5, 2))
    assert np.allclose(answers(found, X)[:, 1], answers(one, X)[:, 1], rtol=1e-3, atol=1e-2)
