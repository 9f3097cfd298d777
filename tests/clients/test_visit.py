"""One visit: what a reply carries and costs, what is kept of it, and what is said when something is wrong."""

from dataclasses import replace

import numpy as np
import pytest
from federation import model, parties, party, public_set, rows
from visits import CONFIG, NFDP, RESPONSE, WIRE, code, fit, later, of_run

from fedkd_flwr.clients import FedCTClient, FedMDClient
from fedkd_flwr.errors import Code, ModelBytesError
from fedkd_flwr.metrics import NAMES
from fedkd_flwr.models import serialize
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.wire.label_codec import decode_labels, digest, encode_labels
from fedkd_flwr.wire.score_codec import encode_rows

NOISY = {**RESPONSE, "privacy": "party"}
LOUD = {**NOISY, "noise-strength": 20.0}


@pytest.mark.parametrize("said", ["none", "server", "party"])
def test_beside_noise_an_error_becomes_privatised_labels_whatever_privacy_the_server_says_there_is(said, caplog):
    class Broken(FedCTClient):
        def learn(self, instruction):
            raise ValueError("row 12 holds 3.14")

    member = party("a", *rows(20, seed=0))
    arrays, count, metrics = Broken(member).fit([], {**CONFIG, **LOUD, "privacy": said})
    assert (decode_labels(arrays[0], public=member.spec, server_round=1) == 0).all()
    assert (count, set(metrics)) == (60, {"party", "payload", "wire-version"})
    assert "a: it learnt nothing; a fixed answer goes through the mechanism" in caplog.text
    assert "row 12 holds 3.14" in caplog.text


def test_noise_comes_with_its_charge_whatever_privacy_the_server_says_there_is(tmp_path):
    ledger = LedgerStore(tmp_path, party="a", data_digest="ab" * 32)
    member = party("a", *rows(20, seed=0), ledger=ledger, run_id="1", share_metrics=NAMES)
    arrays, _, metrics = fit(member, **RESPONSE, privacy="none")
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
    assert code(fit(again, **NOISY)) == Code.BUDGET_EXCEEDED


def test_a_party_s_ledger_follows_its_arrays_whatever_digest_it_was_given(tmp_path):
    X, y = rows(20, seed=0)
    spent = []
    for run_id, named, order in (("1", "ab" * 32, slice(None)), ("2", "cd" * 32, slice(None, None, -1))):
        ledger = LedgerStore(tmp_path, party="a", data_digest=named)
        member = party("a", X[order], y[order], ledger=ledger, run_id=run_id)
        assert len(fit(member, **NOISY)[0]) == 1
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


def test_a_repeated_request_gets_the_same_reply_also_where_only_changes_were_sent(tmp_path):
    public = public_set(3000)
    member = parties(1, state=tmp_path, public=public)[0]
    arrays, _, _ = fit(member)
    labels = decode_labels(arrays[0], public=member.spec, server_round=1)
    second = {**later(2), "base": digest(labels).hex()}
    first, again = fit(member, **second), fit(member, **second)
    assert first[0][0].nbytes < arrays[0].nbytes / 2
    assert first[0][0].tobytes() == again[0][0].tobytes()
    assert first[1:] == again[1:]
    assert "accuracy-common" in again[2]


@pytest.mark.parametrize("changed", [False, True])
def test_a_data_file_that_changes_between_rounds_shows_in_the_own_log_and_not_in_the_form_of_a_reply(
    tmp_path, changed, caplog
):
    more = {"public": public_set(3000), "model": model}
    X, y = rows(20, seed=0)
    member = of_run(tmp_path, X, y, **more)
    ((first,), _, _) = fit(member, **LOUD)
    base = digest(decode_labels(first, public=member.spec, server_round=1)).hex()
    other = X + np.float32(changed) * np.eye(20, 2, dtype=np.float32)
    ((sent,), _, _) = fit(of_run(tmp_path, other, y, **more), **LOUD, **later(2), base=base)
    assert len(sent) < len(first) / 2  # changes alone, from the net that starts afresh too
    assert ("its data file is another than in round 1 of this run" in caplog.text) is changed


def test_an_answer_kept_from_before_a_crash_is_not_sent_at_the_cost_of_another_file_s_rows(tmp_path, monkeypatch):
    learnt, learn = [], FedCTClient.learn
    monkeypatch.setattr(FedCTClient, "learn", lambda self, told: learnt.append(1) or learn(self, told))
    for server_round, crashed, whole in ((1, 0, 2), (2, 1, 3)):  # rows of another file, and the same ones
        with monkeypatch.context() as crash:
            crash.setattr(LedgerStore, "charge", lambda self, **words: (_ for _ in ()).throw(OSError("no space")))
            assert code(fit(of_run(tmp_path, *rows(20, seed=crashed)), **NOISY, **later(server_round)))
        assert len(fit(of_run(tmp_path, *rows(20, seed=1)), **NOISY, **later(server_round))[0]) == 1
        assert len(learnt) == whole  # the same file: what was made before the crash goes out


def test_an_answer_kept_without_a_claim_is_not_what_leaves_where_the_same_round_is_asked_with_noise(tmp_path):
    plain, noisy = (fit(of_run(tmp_path, *rows(20, seed=0)), **more) for more in ({}, NOISY))
    assert noisy[0][0].tobytes() != plain[0][0].tobytes()


def test_a_guess_at_an_answer_that_another_process_s_answer_came_before_does_not_show(tmp_path):
    X, y = rows(20, seed=0)
    public = public_set(3000)
    member = of_run(tmp_path, X, y, public=public)
    fit(member, **LOUD)
    saved = member.state.load()
    never_sent = saved.arrays["value.labels"].copy()
    never_sent[0, 0] = (never_sent[0, 0] + 1) % 3
    payload = encode_labels(never_sent, public=member.spec, server_round=1)
    arrays = {**saved.arrays, "value.labels": never_sent, "payload.labels": payload}
    member.state.save(replace(saved, arrays=arrays))  # as a second process of this party that was slower leaves it
    (sent,), _, _ = fit(of_run(tmp_path, X, y, public=public), **LOUD, **later(2), base=digest(never_sent).hex())
    assert decode_labels(sent, public=member.spec, server_round=2).shape == (1, 3000)  # whole: no change of the guess


def test_no_net_that_learnt_from_all_rows_in_one_algorithm_goes_on_in_another_that_claims_a_subset(
    tmp_path, monkeypatch
):
    """A hostile SuperLink may name another algorithm in each round of a run."""
    started = []
    begin = FedMDClient.begin
    monkeypatch.setattr(FedMDClient, "begin", lambda self, *a: started.append(1) or begin(self, *a))
    X, y = rows(40, seed=0)
    asked = encode_rows(np.arange(60), num_public=60)
    for server_round, client, settings in ((1, FedMDClient, NFDP), (2, FedCTClient, RESPONSE), (3, FedMDClient, NFDP)):
        instruction = {**WIRE, **settings, **later(server_round)}
        arrays, names = ([asked], "indices") if client is FedMDClient else ([], "")
        instruction |= {"algorithm": client.card.name, "payload": names, "privacy": "party"}
        assert len(client(of_run(tmp_path, X, y)).fit(arrays, instruction)[0]) == 1
    assert len(started) == 2  # what the second round made was trained on rows outside the subset


@pytest.mark.parametrize("changed", [False, True])
def test_a_net_does_not_carry_rows_into_an_answer_that_other_rows_pay_for(tmp_path, monkeypatch, changed):
    restored = []
    monkeypatch.setattr(serialize, "loads", lambda *a, loads=serialize.loads, **w: restored.append(1) or loads(*a, **w))
    for server_round, seed in ((1, 0), (2, int(changed))):
        assert len(fit(of_run(tmp_path, *rows(20, seed=seed)), **NOISY, **later(server_round))[0]) == 1
    assert len(restored) == (0 if changed else 1)


def test_a_party_whose_kept_model_cannot_be_read_starts_afresh_and_says_so(tmp_path, monkeypatch):
    """Not all that can be written can be read again: what a fit adds to an estimator may be of a type of its own."""
    monkeypatch.setattr(serialize, "loads", lambda *a, **w: (_ for _ in ()).throw(ModelBytesError("an unknown type")))
    told = []
    for server_round in (1, 2):
        arrays, count, metrics = fit(of_run(tmp_path, *rows(20, seed=0)), **later(server_round))
        assert (len(arrays), count) == (1, 60)
        told.append(str(metrics.get("notes", "")))
    assert "state-lost" not in told[0]
    assert "state-lost" in told[1]
