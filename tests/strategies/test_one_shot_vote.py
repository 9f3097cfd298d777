"""One round of votes and the server's own model: what is counted, trained, sent back and said, by FedKT's settings."""

import numpy as np
import pytest
import rounds
from federation import model, party, public_set, rows
from rounds import fedkt
from sklearn.naive_bayes import GaussianNB

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.strategies import FedKT, FedKTConfig, PartyLabels


def _answers(*label_sets):
    return [PartyLabels(party=str(i), labels=np.array(s, dtype=np.int16)) for i, s in enumerate(label_sets)]


def _this():
    return RoundRecord(server_round=1)


def test_the_labels_that_go_back_are_the_vote_and_beside_noise_by_models_not_trained_on_those_rows():
    """A tree reproduces what it was trained on: the plain final model would return the vote, mistakes included."""
    vote = np.zeros(60, dtype=np.int16)
    vote[:] = public_set().y
    vote[7] = (vote[7] + 1) % 3  # one mistake in the vote
    answers = [PartyLabels(party="a", labels=np.stack([vote, vote]))]
    noise = {"level": "L1", "noise": "gaussian", "noise_strength": 1e-3, "students_per_party": 2}
    plain, quiet, noisy = fedkt(party_models=False, **noise), fedkt(), fedkt(**noise)
    assert plain.exchange.combine(1, answers, _this())[7] == vote[7]
    assert quiet.exchange.combine(1, answers, _this())[7] == vote[7]
    assert noisy.exchange.combine(1, answers, _this())[7] == public_set().y[7]
    assert noisy.model.predict(public_set().X)[7] == vote[7]


def test_a_ledger_needs_the_name_of_the_run(tmp_path):
    """Else the next run would get this run's answers, as those of a request that was repeated."""
    ledger = LedgerStore(tmp_path, party="server", data_digest="ab" * 32)
    config = FedKTConfig(level="L1", noise="gaussian", noise_strength=2.0)
    with pytest.raises(ConfigError, match=r"record must name its run where a ledger is given, got ''\. Give record="):
        FedKT(config=config, public=public_set(), final_model=model, ledger=ledger)


def test_rows_without_a_consistent_party_train_nothing():
    strategy = fedkt(public=public_set(3))
    strategy.exchange.combine(1, _answers([[0, 1, 2], [1, 1, 2]], [[2, 1, 2], [0, 1, 2]]), _this())
    assert Note(NoteCode.UNUSED_ROWS, {"rows": 1, "of": 3, "consistent": True}) in strategy.record.notes


def test_the_record_tells_of_the_vote_not_of_the_model_trained_on_it():
    strategy = fedkt(public=public_set(3))
    answers, this = _answers([[0, 1, 2], [1, 1, 2]], [[2, 1, 2], [0, 1, 2]]), RoundRecord(server_round=1)
    strategy.exchange.consensus = strategy.exchange.combine(1, answers, this)
    strategy.exchange._describe(this, answers)
    assert this.labelled_share == pytest.approx(2 / 3)


def test_students_that_never_agree_are_an_error_with_the_way_out():
    strategy = fedkt(public=public_set(2))
    with pytest.raises(ConfigError, match="one student per party"):
        strategy.exchange.combine(1, _answers([[0, 1], [1, 0]]), _this())


def test_density_ratios_label_what_parties_of_one_class_cannot_vote_on():
    def run(consensus, allow=frozenset({"fedkt", "density-ratio"})):
        members = [party(f"p{i}", *rows(30, seed=i, classes=(i,)), allow=allow) for i in range(3)]
        return rounds.run("fedkt", members, consensus=consensus, one_class_voters="count")[0].record

    found, voted = run("auto"), run("majority")
    assert found.consensus_rule == "density-ratio"
    assert found.rounds[0].rejected == []
    assert found.rounds[0].consensus_accuracy > 0.9 > voted.rounds[0].consensus_accuracy
    assert found.server_accuracy > 0.85 > voted.server_accuracy
    assert found.final_bytes_down > voted.final_bytes_down  # a probability of each class in each row besides
    labels_only = run("density-ratio", allow=frozenset({"fedkt"}))
    assert labels_only.consensus_rule == "majority"
    assert "sent no density ratios" in labels_only.consensus_reason


def test_probabilities_are_learnt_as_such_and_a_party_that_may_not_send_them_sends_labels():
    def run(allow):
        members = [party(f"p{i}", *rows(60, seed=i, classes=(i % 3, (i + 1) % 3)), allow=allow) for i in range(3)]
        return rounds.run("fedkt", members, send="probabilities", final_model=_bells)[0]

    made = run(frozenset({"fedkt", "probabilities"}))
    assert (made.record.consensus_rule, made.record.rounds[0].rejected) == ("probabilities", [])
    assert made.record.rounds[0].consensus_accuracy > 0.85
    wanted = _bells(seed=0).fit_soft(public_set().X, made.exchange.probs)
    assert np.array_equal(made.exchange.model.predict_proba(public_set().X), wanted.predict_proba(public_set().X))
    labels = run(frozenset({"fedkt"}))
    assert labels.record.consensus_rule == "majority"
    assert "0 of 3 parties sent probabilities" in labels.record.consensus_reason


def test_the_final_model_learns_probabilities_where_density_ratios_are_counted_and_labels_elsewhere():
    X, y = public_set().X, public_set().y
    answers = []
    for k in range(3):  # each holds two classes, and takes one for the other now and then
        codes = np.zeros((60, 3), np.uint8)
        codes[y == k, k], codes[y == k, (k + 1) % 3] = 6, 4
        codes[:3] = 0  # three rows look like nobody's data
        counts = np.bincount([k, (k + 1) % 3], minlength=3) * 15
        beside = {"ratios": codes, "class-counts": counts}
        answers.append(PartyLabels(party=str(k), labels=np.full((2, 60), k, np.int16), beside=beside))

    def combined(consensus):
        config = FedKTConfig(seed=1, nodes_stable_s=1e-6, consensus=consensus)
        exchange = FedKT(config=config, public=public_set(), final_model=_bells).exchange
        exchange.combine(1, answers, _this())
        return exchange

    soft, hard = combined("density-ratio"), combined("majority")
    labelled = soft.vote != ABSTAIN
    assert np.flatnonzero(~labelled).tolist() == [0, 1, 2]
    assert soft.probs[labelled].max() < 0.9  # no row is sure
    wanted = _bells(seed=0).fit_soft(X[labelled], soft.probs[labelled])
    assert np.array_equal(soft.model.predict_proba(X), wanted.predict_proba(X))
    # parties learn the three rows too, from what the final model says of them
    assert np.array_equal(soft.probs[~labelled], soft.model.predict_proba(X[~labelled]))
    assert hard.probs is None
    wanted = _bells(seed=0).fit(X, hard.vote)
    assert np.array_equal(hard.model.predict_proba(X), wanted.predict_proba(X))
    for exchange, learnt in ((soft, soft.probs[labelled].sum(axis=0)), (hard, np.bincount(hard.vote, minlength=3))):
        np.testing.assert_allclose(exchange.model.shares["taught"], (learnt + 1) / (learnt + 1).sum())


def _bells(*, seed):
    return Classifier(GaussianNB(), num_classes=3)
