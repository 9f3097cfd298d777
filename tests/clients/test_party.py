"""A party's model answers for its owner's class shares at home, and for the federation's on common rows."""

from __future__ import annotations

import numpy as np
import pytest
from federation import fedct_grid, party, public_set, rows, run_fedkt
from sklearn.naive_bayes import GaussianNB

from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.populations import Answering
from fedkd_flwr.strategies import FedCT, FedCTConfig


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
