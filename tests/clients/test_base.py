"""What a party checks before it says anything, and what it says when something is wrong."""

import json
import logging
import os
import time
from dataclasses import replace

import numpy as np
import pytest
from federation import CENTRES, model, parties, party, public_set, rows

from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.algorithms.fedmd import FedMDConfig
from fedkd_flwr.clients import FedCTClient, FedKTClient, FedMDClient, Party, RefusingClient
from fedkd_flwr.clients.opening import kept_state
from fedkd_flwr.errors import Code, DataError, LimitError, ModelBytesError
from fedkd_flwr.metrics import NAMES
from fedkd_flwr.models import serialize
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import PartyState, Saved
from fedkd_flwr.stores.plans import HOLD_S
from fedkd_flwr.wire.envelope import digest
from fedkd_flwr.wire.label_codec import decode_labels, encode_labels
from fedkd_flwr.wire.row_codec import encode_rows

WIRE = {"server-round": 1, "fingerprint": "ab" * 32, "payload": "", "wire-version": 1, "last-round": 0}
CONFIG = {**FedCTConfig(steps_per_round=5).told(), **WIRE, "algorithm": "fedct"}
KT = {**FedKTConfig(students_per_party=2, teachers_per_student=5).told(), **WIRE, "algorithm": "fedkt"}


def _fit(member, **changes):
    return FedCTClient(member).fit([], {**CONFIG, **changes})


def _code(answer):
    arrays, count, metrics = answer
    assert arrays == []
    assert count == 0
    assert set(metrics) == {"party", "code", "wire-version"}
    return metrics["code"]


def test_a_reply_carries_labels_and_the_number_of_public_rows_never_of_private_ones():
    member = party("a", *rows(17, seed=0))
    arrays, count, metrics = _fit(member)
    assert count == 60
    assert decode_labels(arrays[0], public=member.spec, server_round=1).shape == (1, 60)
    assert metrics["party"] == "a"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"wire-version": 2}, Code.BAD_INSTRUCTION),
        ({"algorithm": "fedmd"}, Code.BAD_INSTRUCTION),
        ({"server-round": 0}, Code.BAD_INSTRUCTION),
        ({"server-round": True}, Code.BAD_INSTRUCTION),
        ({"rounds-left": 2**62}, Code.BAD_INSTRUCTION),
        ({"steps-per-round": "many"}, Code.BAD_INSTRUCTION),
        ({"payload": "labels"}, Code.BAD_INSTRUCTION),
        ({"fingerprint": "cd" * 32}, Code.PUBLIC_SET_MISMATCH),
    ],
)
def test_a_bad_instruction_is_answered_with_a_code(changes, code):
    assert _code(_fit(party("a", *rows(20, seed=0)), **changes)) == code


def test_an_algorithm_the_party_does_not_allow_is_refused():
    member = party("a", *rows(20, seed=0), allow=frozenset({"fedkt"}))
    assert _code(_fit(member)) == Code.NOT_ALLOWED


@pytest.mark.parametrize("rule", [{"require_privacy": True}, {"budget": Budget(epsilon=1.0)}])
def test_a_party_that_requires_privacy_sends_no_bare_labels(rule, tmp_path):
    ledger = LedgerStore(tmp_path, party="a", data_digest="ab" * 32)
    member = party("a", *rows(20, seed=0), ledger=ledger, run_id="1", **rule)
    assert _code(_fit(member)) == Code.PRIVACY_REQUIRED


def test_a_budget_needs_a_ledger_that_remembers():
    with pytest.raises(DataError, match="ledger must be given with a finite budget"):
        party("a", *rows(20, seed=0), budget=Budget(epsilon=1.0))


def test_a_ledger_needs_the_number_of_the_run(tmp_path):
    ledger = LedgerStore(tmp_path, party="a", data_digest="ab" * 32)
    with pytest.raises(DataError, match=r"run_id must be given with a ledger, got ''\. Give str\(context"):
        party("a", *rows(20, seed=0), ledger=ledger)


@pytest.mark.parametrize("mechanism", ["none", "randomized-response"])
def test_a_rehearsal_tells_of_a_limit_that_private_rows_may_have_passed_only_where_nothing_is_claimed(mechanism):
    def too_much(work, *, parts=1):  # the process that tries the model is a copy of this one, with all private rows
        raise LimitError("memory")

    noise = {"label_mechanism": mechanism, "label_epsilon": 1.0} if mechanism != "none" else {}
    told = {**CONFIG, **FedCTConfig(**noise).told()}
    usual = FedCTClient(party("a", *rows(20, seed=0))).rehearse(told)
    arrays, count, said = FedCTClient(party("a", *rows(20, seed=0), apart=too_much)).rehearse(told)
    if mechanism == "none":
        assert (arrays, count, said["code"]) == ([], 0, Code.LIMIT_EXCEEDED)
    else:
        np.testing.assert_array_equal(arrays, usual[0])
        assert (count, said) == usual[1:]


def test_with_nfdp_rows_that_were_not_drawn_are_not_even_measured_on(tmp_path, monkeypatch):
    ledger = LedgerStore(tmp_path, party="a", data_digest="ab" * 32)
    allow = frozenset({"fedmd"})
    member = party("a", *rows(20, seed=0), allow=allow, ledger=ledger, run_id="1", rows_at_least=20)
    asked = {"indices": encode_rows(np.arange(9), num_public=60)}
    config = FedMDConfig(answer_form="argmax", initial_epochs=1, distillation_epochs=1, subset_rows=5)
    told = {**config.told(), **WIRE, "algorithm": "fedmd", "payload": "indices"}
    monkeypatch.setattr(Party, "progress", lambda *_: pytest.fail("it measured"))
    assert "code" not in FedMDClient(member).fit(list(asked.values()), told)[2]


def test_an_error_text_stays_in_the_party_s_own_log(caplog):
    class Broken(FedCTClient):
        def learn(self, instruction):
            raise ValueError("row 12 holds 3.14")

    with caplog.at_level(logging.ERROR, logger="flwr.party"):
        answer = Broken(party("a", *rows(20, seed=0))).fit([], CONFIG)
    assert "3.14" not in str(answer)
    assert "row 12 holds 3.14" in caplog.text


@pytest.mark.parametrize("said", ["none", "server", "party"])
def test_beside_noise_an_error_becomes_privatised_labels_whatever_privacy_the_server_says_there_is(said, caplog):
    class Broken(FedCTClient):
        def learn(self, instruction):
            raise ValueError("row 12 holds 3.14")

    member = party("a", *rows(20, seed=0))
    noisy = FedCTConfig(label_mechanism="randomized-response", label_epsilon=20.0).told()
    asked = {**CONFIG, **noisy, "privacy": said}
    with caplog.at_level(logging.ERROR, logger="flwr.party"):
        arrays, count, metrics = Broken(member).fit([], asked)
    assert (decode_labels(arrays[0], public=member.spec, server_round=1) == 0).all()
    assert (count, set(metrics)) == (60, {"party", "payload", "wire-version"})
    assert "a: it learnt nothing; a fixed answer goes through the mechanism" in caplog.text
    assert "row 12 holds 3.14" in caplog.text


def test_noise_comes_with_its_charge_whatever_privacy_the_server_says_there_is(tmp_path):
    ledger = LedgerStore(tmp_path, party="a", data_digest="ab" * 32)
    noisy = FedCTConfig(label_mechanism="randomized-response", label_epsilon=1.0).told()
    member = party("a", *rows(20, seed=0), ledger=ledger, run_id="1", share_metrics=NAMES)
    arrays, _, metrics = _fit(member, **noisy, privacy="none")
    assert len(arrays) == len(ledger.load().entries) == 1
    assert not {name for name in metrics if name.startswith("accuracy")}


def _silo(**changes):
    y = np.repeat(np.array([0, 1, 2], dtype=np.int16), [30, 15, 5])
    tests = {"own": (CENTRES[y].astype(np.float32), y)}
    return party("a", *rows(20, seed=0), simulated=False, tests=tests, **changes)


def test_only_the_metrics_that_a_silo_names_leave_with_their_number_of_rows():
    for names, told in (((), set()), (("macro-f1",), set()), (("accuracy",), {"accuracy-own", "rows-own"})):
        member = _silo(share_metrics=names)
        assert {name for name in _fit(member)[2] if name not in ("party", "payload", "wire-version")} == told
        loss, _, metrics = FedCTClient(member).evaluate([], CONFIG)
        assert np.isnan(loss) == ("accuracy" not in names)
        measured = {name: json.loads(value) for name, value in metrics.items() if isinstance(value, bytes)}
        assert set(measured) == ({"solo-own", "federated-own"} if names else set())
        assert all(one.keys() == {"n", names[0].replace("-", "_")} for one in measured.values())
        assert "model" not in metrics
    assert "model" in FedCTClient(_silo(share_metrics=["model"])).evaluate([], CONFIG)[2]


@pytest.mark.parametrize(("least", "support"), [(0, [30, 15, 5]), (5, [30, 15, 5]), (10, [30, None, None])])
def test_figures_of_a_class_with_few_test_rows_stay_at_the_silo(least, support):
    metrics = FedCTClient(_silo(share_metrics=["recall"], min_support=least)).evaluate([], CONFIG)[2]
    assert json.loads(metrics["federated-own"])["support"] == support


def test_ten_rows_are_the_fewest_unless_a_silo_says_otherwise():
    assert _silo().min_support == 10


def test_replies_without_noise_are_in_the_ledger_once_a_run_before_they_leave(tmp_path):
    ledger = LedgerStore(tmp_path, party="a", data_digest="ab" * 32)
    member = party("a", *rows(20, seed=0), ledger=ledger, run_id="1", share_metrics=NAMES)
    for server_round in (1, 2, 2):
        assert len(_fit(member, **{"server-round": server_round})[0]) == 1
    (entry,) = ledger.load().entries
    assert (entry.run_id, entry.server_round, entry.events[0][0]["kind"]) == ("1", 0, "non-private")
    again = party("a", *rows(20, seed=0), ledger=ledger, run_id="2", budget=Budget(epsilon=100.0))
    noisy = FedCTConfig(label_mechanism="randomized-response", label_epsilon=1.0).told()
    assert _code(_fit(again, **noisy, privacy="party")) == Code.BUDGET_EXCEEDED


def test_a_party_s_ledger_follows_its_arrays_whatever_digest_it_was_given(tmp_path):
    X, y = rows(20, seed=0)
    noisy = FedCTConfig(label_mechanism="randomized-response", label_epsilon=1.0).told()
    spent = []
    for run_id, named, order in (("1", "ab" * 32, slice(None)), ("2", "cd" * 32, slice(None, None, -1))):
        ledger = LedgerStore(tmp_path, party="a", data_digest=named)
        member = party("a", X[order], y[order], ledger=ledger, run_id=run_id)
        assert len(_fit(member, **noisy, privacy="party")[0]) == 1
        with ledger.looked_at() as book:
            histories = ledger.table(book).histories(ledger.rows.digest)
        spent.append(ledger.load().counted(Budget(epsilon=1e6, delta=0.0), histories).max())
    assert spent[1] == pytest.approx(2 * spent[0])


# ------------------------------------------------------------------------------------------------------ who made it


RESPONSE = FedCTConfig(label_mechanism="randomized-response", label_epsilon=1.0, steps_per_round=2).told()
NFDP = FedMDConfig(subset_rows=8, initial_epochs=1, distillation_epochs=1, answer_form="argmax").told()


def _net(*, seed):
    return model(seed=seed, name="mlp", hidden=4, epochs=1)


def _of_run(folder, X, y, **changes):
    """Return a party as a visit makes it: ledger and state are read from the disk again."""
    kept = {"ledger": LedgerStore(folder, party="a", data_digest="ab" * 32), "run_id": "1"}
    kept["state"] = PartyState(folder, run_id="1", party="a")
    return party("a", X, y, **{"model": _net, "allow": frozenset({"fedct", "fedmd"}), **kept, **changes})


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
        instruction = {**WIRE, **settings, "server-round": server_round, "last-round": server_round - 1}
        arrays, names = ([asked], "indices") if client is FedMDClient else ([], "")
        instruction |= {"algorithm": client.card.name, "payload": names, "privacy": "party"}
        assert len(client(_of_run(tmp_path, X, y)).fit(arrays, instruction)[0]) == 1
    assert len(started) == 2  # what the second round made was trained on rows outside the subset


@pytest.mark.parametrize("changed", [False, True])
def test_a_net_does_not_carry_rows_into_an_answer_that_other_rows_pay_for(tmp_path, monkeypatch, changed):
    restored = []
    monkeypatch.setattr(serialize, "loads", lambda *a, loads=serialize.loads, **w: restored.append(1) or loads(*a, **w))
    for server_round, seed in ((1, 0), (2, int(changed))):
        asked = {**RESPONSE, "privacy": "party", "server-round": server_round, "last-round": server_round - 1}
        assert len(_fit(_of_run(tmp_path, *rows(20, seed=seed)), **asked)[0]) == 1
    assert len(restored) == (0 if changed else 1)


def test_a_party_whose_kept_model_cannot_be_read_starts_afresh_and_says_so(tmp_path, monkeypatch):
    """Not all that can be written can be read again: what a fit adds to an estimator may be of a type of its own."""
    monkeypatch.setattr(serialize, "loads", lambda *a, **w: (_ for _ in ()).throw(ModelBytesError("an unknown type")))
    told = []
    for server_round in (1, 2):
        asked = {"server-round": server_round, "last-round": server_round - 1}
        arrays, count, metrics = _fit(_of_run(tmp_path, *rows(20, seed=0)), **asked)
        assert (len(arrays), count) == (1, 60)
        told.append(str(metrics.get("notes", "")))
    assert "state-lost" not in told[0]
    assert "state-lost" in told[1]


@pytest.mark.parametrize("changed", [False, True])
def test_a_data_file_that_changes_between_rounds_does_not_show_in_the_form_of_a_reply(tmp_path, changed):
    public = public_set(3000)
    asked = {**RESPONSE, "label-epsilon": 20.0, "privacy": "party"}
    X, y = rows(20, seed=0)
    ((first,), _, _) = _fit(_of_run(tmp_path, X, y, public=public, model=model), **asked)
    spec = _of_run(tmp_path, X, y, public=public).spec
    base = digest(decode_labels(first, public=spec, server_round=1)).hex()
    second = {**asked, "server-round": 2, "last-round": 1, "base": base}
    ((sent,), _, _) = _fit(
        _of_run(tmp_path, X + np.float32(changed) * np.eye(20, 2, dtype=np.float32), y, public=public, model=model),
        **second,
    )
    assert len(sent) < len(first) / 2  # changes alone, from the net that starts afresh too


def test_what_the_server_knows_stays_where_the_file_alone_changed_and_nothing_that_rows_made(tmp_path):
    kept = ("value.labels", "payload.labels", "kept.cached", "kept.ratios", "kept.answered")
    for client, stays in ((FedCTClient, {"value.labels", "payload.labels"}), (FedMDClient, {*kept} - {"kept.ratios"})):
        member = _of_run(tmp_path, *rows(20, seed=0))
        meta = {
            "algorithm": client.card.name,
            "data": "another",
            "charge": "c",
            "values": ["labels"],
            "payload": ["labels"],
        }
        arrays = {name: np.zeros((1, 60), np.int16) for name in kept}
        member.state.save(Saved(server_round=3, arrays=arrays, model=b"net", meta={**meta, "alone": 1, "reply": {}}))
        saved = kept_state(member, client.card, heard=client.heard)
        assert (saved.server_round, saved.model, set(saved.arrays)) == (3, b"", stays)
        assert {**saved.meta} == {
            name: meta.get(name, {}) for name in ("algorithm", "reply", "values", "payload", "charge")
        }
        member.state.save(replace(saved, meta={**meta, "algorithm": "another"}))
        assert kept_state(member, client.card, heard=client.heard).arrays == {}


@pytest.mark.parametrize("forgets", [False, True])
def test_a_final_visit_that_speaks_of_no_noise_gets_no_metrics_where_a_round_had_a_claim(tmp_path, forgets):
    shared = {"share_metrics": ("accuracy",), "min_support": 0, "model": model, "keep_state": True}
    X, y = rows(20, seed=0)
    bare = dict(CONFIG)
    never_claimed = FedCTClient(_of_run(tmp_path / "2", X, y, **shared)).evaluate([], bare)
    assert "federated-common" in never_claimed[2]
    assert len(_fit(_of_run(tmp_path, X, y, **shared), **RESPONSE, privacy="party")[0]) == 1
    member = _of_run(tmp_path, X, y, **shared)
    if forgets:
        member.state.remove()  # the ledger remembers
    assert set(FedCTClient(member).evaluate([], bare)[2]) == {"party", "wire-version"}


def test_an_answer_kept_from_before_a_crash_is_not_sent_at_the_cost_of_another_file_s_rows(tmp_path, monkeypatch):
    asked = {**RESPONSE, "privacy": "party"}
    learnt = []
    learn = FedCTClient.learn
    monkeypatch.setattr(FedCTClient, "learn", lambda self, told: learnt.append(1) or learn(self, told))
    with monkeypatch.context() as crash:
        crash.setattr(LedgerStore, "charge", lambda self, **words: (_ for _ in ()).throw(OSError("no space")))
        assert _code(_fit(_of_run(tmp_path, *rows(20, seed=0)), **asked))
    assert len(_fit(_of_run(tmp_path, *rows(20, seed=1)), **asked)[0]) == 1
    assert len(learnt) == 2
    with monkeypatch.context() as crash:
        crash.setattr(LedgerStore, "charge", lambda self, **words: (_ for _ in ()).throw(OSError("no space")))
        second = {**asked, "server-round": 2, "last-round": 1}
        assert _code(_fit(_of_run(tmp_path, *rows(20, seed=1)), **second))
    assert len(_fit(_of_run(tmp_path, *rows(20, seed=1)), **second)[0]) == 1
    assert len(learnt) == 3  # the same file: what was made before the crash goes out


def test_a_guess_at_an_answer_that_another_process_s_answer_came_before_does_not_show(tmp_path):
    X, y = rows(20, seed=0)
    public = public_set(3000)
    asked = {**RESPONSE, "label-epsilon": 20.0, "privacy": "party"}
    member = _of_run(tmp_path, X, y, public=public)
    _fit(member, **asked)
    saved = member.state.load()
    never_sent = saved.arrays["value.labels"].copy()
    never_sent[0, 0] = (never_sent[0, 0] + 1) % 3
    payload = encode_labels(never_sent, public=member.spec, server_round=1)
    arrays = {**saved.arrays, "value.labels": never_sent, "payload.labels": payload}
    member.state.save(replace(saved, arrays=arrays))  # as a second process of this party that was slower leaves it
    second = {**asked, "server-round": 2, "last-round": 1, "base": digest(never_sent).hex()}
    (sent,), _, _ = _fit(_of_run(tmp_path, X, y, public=public), **second)
    assert decode_labels(sent, public=member.spec, server_round=2).shape == (1, 3000)  # whole: no change of the guess


def test_privacy_that_the_settings_do_not_amount_to_is_refused():
    assert _code(_fit(party("a", *rows(20, seed=0)), privacy="party")) == Code.BAD_INSTRUCTION


def test_every_setting_that_parties_are_told_must_be_there():
    for name in FedCTConfig().told():
        short = {key: value for key, value in CONFIG.items() if key != name}
        assert _code(FedCTClient(party("a", *rows(20, seed=0))).fit([], short)) == Code.BAD_INSTRUCTION


def test_a_node_that_cannot_be_set_up_still_answers_with_a_code():
    client = RefusingClient("a", DataError("no file", code=Code.MISSING_FILE))
    assert _code(client.fit([], {})) == Code.MISSING_FILE
    assert client.evaluate([], {})[2]["code"] == Code.MISSING_FILE


def test_a_repeated_request_gets_the_same_reply_also_where_only_changes_were_sent(tmp_path):
    public = public_set(3000)
    member = parties(1, state=tmp_path, public=public)[0]
    arrays, _, _ = _fit(member)
    labels = decode_labels(arrays[0], public=member.spec, server_round=1)
    second = {"server-round": 2, "last-round": 1, "base": digest(labels).hex()}
    first, again = _fit(member, **second), _fit(member, **second)
    assert first[0][0].nbytes < arrays[0].nbytes / 2
    assert first[0][0].tobytes() == again[0][0].tobytes()
    assert first[1:] == again[1:]
    assert "accuracy-common" in again[2]


def test_a_damaged_state_file_is_said_and_never_replaced(tmp_path):
    member = parties(1, state=tmp_path)[0]
    member.state.path.parent.mkdir(parents=True)
    member.state.path.write_bytes(b"damaged")
    assert _code(_fit(member)) == Code.STATE_LOST
    assert member.state.path.read_bytes() == b"damaged"


def test_a_simulated_party_leaves_no_state_behind_when_it_has_finished(tmp_path):
    member = parties(1, state=tmp_path)[0]
    client = FedCTClient(member)
    client.fit([], CONFIG)
    assert member.state.path.exists()
    client.evaluate([], CONFIG)
    assert not member.state.path.exists()


def test_a_model_that_cannot_be_weighed_does_not_cost_the_party_its_accuracies(caplog):
    class Odd:
        """A user's own estimator that no safe format can hold."""

        def fit(self, X, y):
            self.log = open(os.devnull, "rb")  # noqa: SIM115 - what such a thing may hold
            self.log.close()
            return self

        def predict(self, X):
            return np.zeros(len(X), dtype=int)

    member = party("a", *rows(20, seed=0), model=lambda *, seed: Classifier(Odd(), num_classes=3))
    with caplog.at_level(logging.WARNING, logger="flwr.party"):
        _, _, metrics = FedCTClient(member).evaluate([], CONFIG)
    assert "code" not in metrics
    assert "federated-common" in metrics
    assert "model-bytes" not in metrics
    assert "the model is not weighed" in caplog.text


# ------------------------------------------------------------------------------------------------ its own rows


def test_fewer_rows_than_teachers_makes_fewer_subsets_and_says_so(caplog):
    with caplog.at_level(logging.WARNING, logger="flwr.party"):
        _, _, metrics = FedKTClient(party("a", *rows(3, seed=5))).fit([], KT)
    assert "fewer-subsets" in metrics["notes"]
    assert "rows must be >= teachers-per-student (5), got 3" in caplog.text


def test_a_party_with_one_class_labels_everything_so_and_says_so(caplog):
    X, y = rows(20, seed=5, classes=(2,))
    with caplog.at_level(logging.WARNING, logger="flwr.party"):
        arrays, _, metrics = FedKTClient(party("a", X, y)).fit([], KT)
    labels = decode_labels(arrays[0], public=party("a", X, y).spec, server_round=1)
    assert (labels == 2).all()
    assert metrics["notes"] == "one-class"
    assert "private rows should hold >= 2 classes, got only 'blue'" in caplog.text


def test_a_class_nobody_else_has_takes_part_like_any_other():
    X, y = rows(40, seed=5, classes=(1, 2))
    arrays, _, _ = FedCTClient(party("a", X, y)).fit([], CONFIG)
    assert len(arrays) == 1


def test_a_party_without_rows_is_refused():
    with pytest.raises(DataError, match=r"rows of a must be \(n, d\) and \(n,\) with n >= 1") as caught:
        party("a", np.zeros((0, 2), dtype=np.float32), np.zeros(0, dtype=np.int16))
    assert caught.value.code == Code.NO_ROWS


def test_private_rows_with_other_features_than_the_public_ones_are_refused():
    with pytest.raises(DataError, match="rows of a must have 2 features, got 3"):
        party("a", np.zeros((4, 3), dtype=np.float32), np.zeros(4, dtype=np.int16))


def test_a_class_outside_the_schema_is_refused():
    with pytest.raises(DataError, match=r"y of a must lie within 0..2, got 3"):
        party("a", np.zeros((1, 2), dtype=np.float32), np.array([3]))


def test_teachers_and_students_may_be_other_models_than_the_party_s():
    made = []

    def spy(kind):
        def make(*, seed):
            made.append(kind)
            return model(seed=seed)

        return make

    member = party("a", *rows(30, seed=1), public=public_set())
    FedKTClient(member, teacher=spy("teacher"), student=spy("student")).fit([], KT)
    assert made.count("teacher") == 10
    assert made.count("student") == 2


SPENDING = FedCTConfig(label_mechanism="randomized-response", label_epsilon=0.1).told()
"""60 labels a round: a budget of 5 pays two of them, one of 6.5 pays four."""


def _round(folder, run_id, server_round, *, budget, left, **told):
    member = party("a", *rows(20, seed=0), run_id=run_id, budget=Budget(epsilon=budget), ledger=_ledger(folder))
    told |= {"server-round": server_round, "rounds-left": left, "privacy": "party"}
    return str(_fit(member, **SPENDING, **told)[2].get("code", ""))


def _ledger(folder):
    return LedgerStore(folder, party="a", data_digest="ab" * 32)


def test_two_runs_at_once_cannot_leave_each_other_half_paid(tmp_path, caplog):
    budget = 6.5  # four rounds
    assert _round(tmp_path, "1", 1, budget=budget, left=3) == ""
    assert _round(tmp_path, "2", 1, budget=budget, left=3) == Code.BUDGET_EXCEEDED
    assert "the 3 rounds of this run beside rounds kept for runs that have begun (2 of run 1; for 15 min" in caplog.text
    assert _round(tmp_path, "3", 1, budget=budget, left=1) == ""  # one round is left over
    assert [_round(tmp_path, "1", r, budget=budget, left=4 - r) for r in (2, 3)] == ["", ""]
    assert [(one.run_id, one.server_round) for one in _ledger(tmp_path).load().entries] == [
        ("1", 1),
        ("3", 1),
        ("1", 2),
        ("1", 3),
    ]


@pytest.mark.parametrize("ends", ["final visit", "died", "continued"])
def test_a_run_that_is_over_keeps_no_budget_from_others(tmp_path, monkeypatch, ends):
    assert _round(tmp_path, "1", 1, budget=6.5, left=3) == ""
    if ends == "final visit":
        member = party("a", *rows(20, seed=0), run_id="1", budget=Budget(epsilon=6.5), ledger=_ledger(tmp_path))
        FedCTClient(member).evaluate([], {**CONFIG, **SPENDING, "server-round": 1, "privacy": "party"})
    elif ends == "died":
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + HOLD_S + 1)
    told = {"continues": "1"} if ends == "continued" else {}
    assert _round(tmp_path, "2", 1, budget=6.5, left=3, **told) == ""
