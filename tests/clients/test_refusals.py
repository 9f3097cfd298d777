"""What leaves for an error, and what stays in the party's own log."""

from __future__ import annotations

import errno
import logging
import time

import pytest
from federation import party, rows
from visits import CONFIG, code, fit

from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.clients import FedCTClient, RefusingClient
from fedkd_flwr.clients.refusals import refusal
from fedkd_flwr.errors import Code, DataError
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.stores.book import HOLD_S
from fedkd_flwr.stores.ledger import LedgerStore


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "database or disk is full", "/srv/state/ledger.sqlite3"), "Make room. Nothing left."),
        (MemoryError("Unable to allocate 9 GiB"), "Give the node more."),
    ],
)
def test_a_machine_without_room_is_one_sentence_in_the_party_s_log_and_a_code_at_the_server(error, said, caplog):
    with caplog.at_level(logging.ERROR, logger="flwr.party"):
        told = refusal("st-mary", error, Code.WITHHELD)
    assert said in caplog.text
    assert str(error).split("'")[0] in caplog.text
    assert "Traceback" not in caplog.text
    assert told["code"] == "withheld"
    assert "failure" not in told


def test_an_error_that_nobody_expected_says_where_it_arose(caplog):
    def somewhere() -> None:
        raise ZeroDivisionError("division by zero")

    try:
        somewhere()
    except ZeroDivisionError as error:
        refusal("st-mary", error, Code.INTERNAL)
    assert "in somewhere" in caplog.text


def test_a_node_that_cannot_be_set_up_still_answers_with_a_code():
    client = RefusingClient("a", DataError("no file", code=Code.MISSING_FILE))
    assert code(client.fit([], {})) == Code.MISSING_FILE
    assert client.evaluate([], {})[2]["code"] == Code.MISSING_FILE


def test_an_algorithm_the_party_does_not_allow_is_refused():
    member = party("a", *rows(20, seed=0), allow=frozenset({"fedkt"}))
    assert code(fit(member)) == Code.NOT_ALLOWED


@pytest.mark.parametrize("rule", [{"require_privacy": True}, {"budget": Budget(epsilon=1.0)}])
def test_a_party_that_requires_privacy_sends_no_bare_labels(rule, tmp_path):
    ledger = LedgerStore(tmp_path, party="a", data_digest="ab" * 32)
    member = party("a", *rows(20, seed=0), ledger=ledger, run_id="1", **rule)
    assert code(fit(member)) == Code.PRIVACY_REQUIRED


SPENDING = FedCTConfig(label_mechanism="randomized-response", noise_strength=0.1).told()
"""60 labels a round: a budget of 5 pays two of them, one of 6.5 pays four."""


def _round(folder, run_id, server_round, *, budget, left, **told):
    member = party("a", *rows(20, seed=0), run_id=run_id, budget=Budget(epsilon=budget), ledger=_ledger(folder))
    told |= {"server-round": server_round, "rounds-left": left, "privacy": "party"}
    return str(fit(member, **SPENDING, **told)[2].get("code", ""))


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
