"""PFNM: one round in process, a wider net for everybody, and which nets it takes."""

import numpy as np
import pytest
from flwr.app import Array
from weights import TEST, codes, make, members, net, run

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
    assert set(grid.replies[0].content["arrays"]) == {
        *(f"model.{i}" for i in range(4)),
        "class-counts",
    }
    assert {p.federated["common"].accuracy for p in strategy.record.parties} == {strategy.record.server_accuracy}


def test_a_larger_gamma_gives_more_units():
    few, _ = run("pfnm", rounds=1, gamma_0=1e-6)
    many, _ = run("pfnm", rounds=1, gamma_0=1e6)
    assert len(few.model.arrays()[1]) < len(many.model.arrays()[1]) <= 4 * 8


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


def test_widths_are_those_that_were_asked_for():
    wide = net(seed=1, hidden=(3, 4)).with_widths([5, 6])
    assert [array.shape for array in wide.initialize().arrays()] == [(5, 2), (5,), (6, 5), (6,), (3, 6), (3,)]
