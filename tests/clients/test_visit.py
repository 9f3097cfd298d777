"""One visit: what a reply carries and costs, what is kept of it, and what is said when something is wrong."""

import logging

import pytest
from federation import parties, party, rows
from visits import CONFIG, code, fit

from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.clients import FedCTClient
from fedkd_flwr.errors import Code
from fedkd_flwr.metrics import NAMES
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.wire.label_codec import decode_labels


@pytest.mark.parametrize("said", ["none", "server", "party"])
def test_beside_noise_an_error_becomes_privatised_labels_whatever_privacy_the_server_says_there_is(said, caplog):
    class Broken(FedCTClient):
        def learn(self, instruction):
            raise ValueError("row 12 holds 3.14")

    member = party("a", *rows(20, seed=0))
    noisy = FedCTConfig(label_mechanism="randomized-response", noise_strength=20.0).told()
    asked = {**CONFIG, **noisy, "privacy": said}
    with caplog.at_level(logging.ERROR, logger="flwr.party"):
        arrays, count, metrics = Broken(member).fit([], asked)
    assert (decode_labels(arrays[0], public=member.spec, server_round=1) == 0).all()
    assert (count, set(metrics)) == (60, {"party", "payload", "wire-version"})
    assert "a: it learnt nothing; a fixed answer goes through the mechanism" in caplog.text
    assert "row 12 holds 3.14" in caplog.text


def test_noise_comes_with_its_charge_whatever_privacy_the_server_says_there_is(tmp_path):
    ledger = LedgerStore(tmp_path, party="a", data_digest="ab" * 32)
    noisy = FedCTConfig(label_mechanism="randomized-response", noise_strength=1.0).told()
    member = party("a", *rows(20, seed=0), ledger=ledger, run_id="1", share_metrics=NAMES)
    arrays, _, metrics = fit(member, **noisy, privacy="none")
    assert len(arrays) == len(ledger.load().entries) == 1
    assert not {name for name in metrics if name.startswith("accuracy")}


def test_replies_without_noise_are_in_the_ledger_once_a_run_before_they_leave(tmp_path):
    ledger = LedgerStore(tmp_path, party="a", data_digest="ab" * 32)
    member = party("a", *rows(20, seed=0), ledger=ledger, run_id="1", share_metrics=NAMES)
    for server_round in (1, 2, 2):
        assert len(fit(member, **{"server-round": server_round})[0]) == 1
    (entry,) = ledger.load().entries
    assert (entry.run_id, entry.server_round, entry.events[0][0]["kind"]) == ("1", 0, "non-private")
    again = party("a", *rows(20, seed=0), ledger=ledger, run_id="2", budget=Budget(epsilon=100.0))
    noisy = FedCTConfig(label_mechanism="randomized-response", noise_strength=1.0).told()
    assert code(fit(again, **noisy, privacy="party")) == Code.BUDGET_EXCEEDED


def test_a_party_s_ledger_follows_its_arrays_whatever_digest_it_was_given(tmp_path):
    X, y = rows(20, seed=0)
    noisy = FedCTConfig(label_mechanism="randomized-response", noise_strength=1.0).told()
    spent = []
    for run_id, named, order in (("1", "ab" * 32, slice(None)), ("2", "cd" * 32, slice(None, None, -1))):
        ledger = LedgerStore(tmp_path, party="a", data_digest=named)
        member = party("a", X[order], y[order], ledger=ledger, run_id=run_id)
        assert len(fit(member, **noisy, privacy="party")[0]) == 1
        with ledger.looked_at() as book:
            histories = ledger.table(book).histories(ledger.rows.digest)
        spent.append(ledger.load().counted(Budget(epsilon=1e6, delta=0.0), histories).max())
    assert spent[1] == pytest.approx(2 * spent[0])


def test_a_damaged_state_file_is_said_and_never_replaced(tmp_path):
    member = parties(1, state=tmp_path)[0]
    member.state.path.parent.mkdir(parents=True)
    member.state.path.write_bytes(b"damaged")
    assert code(fit(member)) == Code.STATE_LOST
    assert member.state.path.read_bytes() == b"damaged"
