"""A party's model answers for its owner's class shares at home, and for the federation's on common rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from federation import fedct_grid, party, public_set, rows, run_fedkt
from sklearn.naive_bayes import GaussianNB

from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.lesson import fit_both, soft_labels
from fedkd_flwr.errors import PayloadError
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.populations import Answering, learnt_shares
from fedkd_flwr.strategies import FedCT, FedCTConfig
from fedkd_flwr.wire.score_codec import encode_scores


def _bells(*, seed):
    return Classifier(GaussianNB(), num_classes=3)


def _skewed(seen, **changes):
    """Return three parties; the first holds many rows of class 0 and few of the others, the others all alike."""
    made = []
    for i in range(3):
        X, y = rows(90, seed=i)
        kept = np.flatnonzero((y == 0) | (np.arange(90) % 6 == 0)) if i == 0 else np.arange(90)
        tests = {"own": (X[kept], y[kept]), "common": rows(50, seed=7)}

        def show(finished, models, i=i):
            seen[i] = finished

        made.append(party(f"p{i}", X[kept], y[kept], model=_bells, tests=tests, show=show, **changes))
    return made


def _by_fedct(members):
    config = FedCTConfig(seed=1, nodes_stable_s=1e-6, consensus="majority")
    strategy = FedCT(min_train_nodes=3, config=config, public=public_set())
    strategy.start(fedct_grid(members), num_rounds=2)
    return strategy.record


def _by_fedkt(members):
    return run_fedkt(members, minimum=3)[0].record


@pytest.mark.parametrize("run", [_by_fedct, _by_fedkt])
def test_own_rows_are_measured_with_own_class_shares_and_common_ones_with_the_federations(run):
    seen = {}
    members = _skewed(seen)
    record = run(members)
    for i, one in enumerate(members):
        trained = seen[i].model
        assert set(trained.shares) == {"taught", "own", "common"}
        own = np.bincount(one.y, minlength=3) + 1.0
        assert trained.shares["own"].tolist() == (own / own.sum()).tolist()
        found = next(p for p in record.parties if p.name == one.name).federated
        for population in ("own", "common"):
            answers = Answering(trained, trained.shares[population])
            assert found[population].accuracy == answers.metrics(*one.tests[population]).accuracy
            assert found[population].log_loss == answers.metrics(*one.tests[population]).log_loss
    skewed, tests = seen[0].model, members[0].tests["own"]
    assert record.parties[0].federated["own"].log_loss != skewed.metrics(*tests).log_loss  # these are as it was taught


def test_a_model_trained_alone_answers_as_it_was_taught():
    seen = {}
    members = _skewed(seen)
    _by_fedkt(members)
    alone = seen[0].alone
    assert np.array_equal(alone.shares["own"], alone.shares["taught"])
    assert seen[0].solo["own"].accuracy == alone.accuracy(*members[0].tests["own"])


def test_a_process_of_its_own_keeps_the_class_shares():
    seen = {}
    members = _skewed(seen, apart=lambda work, parts=1: work())
    _by_fedkt(members)
    from fedkd_flwr.models.serialize import loads

    assert set(loads(seen[0].model.data, trust=True).shares) == {"taught", "own", "common"}


# ------------------------------------------------------------------------------------------------ soft labels


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
