"""Stacked: a regression on the parties' answers, taught by known rows; the server's model learns what it says."""

import numpy as np
import pytest
from federation import parties, party, public_set, rows
from rounds import TEST, make, run

from fedkd_flwr.baselines.stacked import aggregate
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels.known import KnownRows

ALLOW = {"allow": frozenset({"stacked"})}


def _liar(name):
    """Return a party that calls each class the next."""
    X, y = rows(20, seed=5)
    return party(name, X, ((y + 1) % 3).astype(np.int16), **ALLOW)


def test_parties_that_lie_alike_outvote_the_honest_and_are_read_the_other_way_round():
    strategy, _ = run("stacked", [*parties(2, **ALLOW), *(_liar(f"party-00{i}") for i in (2, 3, 4))])
    [this] = strategy.record.rounds
    assert this.consensus_accuracy > 0.8
    assert strategy.record.server["common"].accuracy > 0.8
    assert strategy.record.server["common"] == strategy.model.metrics(*TEST)
    assert strategy.record.claims == []
    honest = strategy.record.parties[0]
    assert honest.federated["common"].accuracy > 0.8


def test_rows_that_taught_are_not_measured():
    strategy, _ = run("stacked", parties(2, **ALLOW))
    exchange, truth = strategy.exchange, public_set().y
    others = np.setdiff1d(np.arange(60), exchange.known.rows)
    assert len(others) == 30
    right = exchange.average.argmax(axis=1) == truth
    assert strategy.record.rounds[0].consensus_accuracy == pytest.approx(right[others].mean())


def test_the_server_s_labels_are_needed():
    with pytest.raises(ConfigError, match="known-rows must be within"):
        make("stacked", public=public_set(truth=False))


def _sure(labels, num_classes=3):
    return np.eye(num_classes)[labels] * 0.7 + 0.1


def test_answers_count_by_what_known_rows_show_and_no_certainty_outweighs_all():
    rng = np.random.default_rng(1)
    truth = rng.integers(3, size=300).astype(np.int16)
    known = KnownRows(np.arange(60), truth[:60])
    wrong_once = np.eye(3)[np.where(np.arange(300) == 70, (truth + 1) % 3, truth)]
    made = aggregate([_sure(truth), _sure(truth), wrong_once, _sure(rng.integers(3, size=300))], known, num_classes=3)
    assert (made.argmax(axis=1) == truth).mean() > 0.99
    assert made.sum(axis=1) == pytest.approx(np.ones(300))
    assert np.isfinite(made).all()


def test_a_class_without_a_known_row_gets_no_probability():
    truth = np.tile(np.array([0, 2], np.int16), 20)
    made = aggregate([_sure(truth)], KnownRows(np.arange(20), truth[:20]), num_classes=3)
    assert made[:, 1].tolist() == [0.0] * 40
    assert (made.argmax(axis=1) == truth).all()
