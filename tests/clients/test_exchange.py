"""What an algorithm says at a party, where it says nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from federation import party, rows
from sklearn.naive_bayes import GaussianNB
from visits import CONFIG

from fedkd_flwr.algorithms.fedct import CARD
from fedkd_flwr.clients.answer import Answer
from fedkd_flwr.clients.exchange import PartyExchange, fit_both, soft_labels
from fedkd_flwr.clients.instruction import Instruction, opened
from fedkd_flwr.clients.visit import Visit
from fedkd_flwr.errors import PayloadError
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.populations import learnt_shares
from fedkd_flwr.stores.party_state import Saved
from fedkd_flwr.wire.label_codec import decode_labels
from fedkd_flwr.wire.score_codec import encode_scores

ASKED = Instruction(server_round=1, config=None)


class Says(PartyExchange):
    card = CARD

    def learn(self, instruction):
        return Answer(values={"labels": np.full((1, 60), 2, np.int16)})

    def finish(self, instruction):
        raise NotImplementedError


def test_learn_and_finish_alone_make_an_algorithm_whose_reply_is_free_and_about_every_public_row():
    member = party("a", *rows(9, seed=0))
    arrays, count, _ = Visit(Says(member)).answer([], CONFIG)
    assert (decode_labels(arrays[0], public=member.spec, server_round=1) == 2).all()
    assert count == 60
    said = Says(member)
    assert said.charge(ASKED) is said.table({}, ASKED) is None
    assert said.asks(ASKED) == {}
    assert said.asked_rows(ASKED).tolist() == list(range(60))


def test_a_party_that_learnt_nothing_answers_with_the_lowest_class():
    labels = Says(party("a", *rows(9, seed=0))).fixed(ASKED).values["labels"]
    assert (labels.dtype, labels.shape, set(labels.ravel())) == (np.int16, (1, 60), {0})


def test_changes_may_refer_to_the_last_reply_but_not_to_what_is_said_once():
    said, values = Says(party("a", *rows(9, seed=0))), {"labels": [1], "class-counts": [2]}
    arrays = {f"value.{name}": np.array(one) for name, one in values.items()}
    saved = Saved(server_round=1, arrays=arrays, meta={"values": [*values]})
    assert set(said.referable(saved, ASKED)) == {*values}
    ratios = opened(said.party, CARD, [], {**CONFIG, "privacy": "none", "rule": "density-ratio"})[1]
    assert set(said.referable(saved, ratios)) == {"labels"}


def _bells(*, seed):
    return Classifier(GaussianNB(), num_classes=3)


def _told(member, labels, probs, server_round=1):
    arrays = {"probs": encode_scores(probs, public=member.spec, server_round=server_round, kind="probs", bits=4)}
    return Instruction(server_round=server_round, config=None, labels=labels, arrays=arrays)


def test_probabilities_that_come_with_the_final_labels_are_what_a_model_learns():
    member = party("p", *rows(30, seed=1), model=_bells)
    probs = np.tile([0.5, 0.3, 0.2], (60, 1))
    labels = np.zeros(60, np.int16)
    labels[:10] = -1  # rows without a label are not learnt
    told = _told(member, labels, probs)
    found = soft_labels(member, told)
    np.testing.assert_allclose(found, probs, atol=1 / 15)
    soft = fit_both(member.model(seed=0), member, told, found)
    X = np.concatenate([member.X, member.public.X[10:]])
    wanted = member.model(seed=0).fit_soft(X, np.concatenate([np.eye(3)[member.y], found[10:]]))
    assert np.array_equal(soft.predict_proba(member.X), wanted.predict_proba(member.X))
    hard = fit_both(member.model(seed=0), member, told, None)
    assert not np.array_equal(hard.predict_proba(member.X), soft.predict_proba(member.X))
    shares = learnt_shares(soft, member.y, labels, found)
    counted = found[10:].sum(axis=0) + 1
    np.testing.assert_allclose(shares["common"], counted / counted.sum())


@pytest.mark.parametrize("labels", [None, np.full(60, -1, np.int16)])
def test_without_labels_a_model_learns_its_own_rows(labels):
    member = party("p", *rows(30, seed=1), model=_bells)
    told = Instruction(server_round=1, config=None, labels=labels)
    assert soft_labels(member, told) is None
    wanted = member.model(seed=0).fit(member.X, member.y).predict_proba(member.X)
    assert np.array_equal(fit_both(member.model(seed=0), member, told, None).predict_proba(member.X), wanted)


def test_probabilities_of_another_round_are_refused():
    member = party("p", *rows(30, seed=1))
    told = _told(member, np.zeros(60, np.int16), np.tile([0.5, 0.3, 0.2], (60, 1)))
    with pytest.raises(PayloadError, match="round"):
        soft_labels(member, replace(told, server_round=2))
