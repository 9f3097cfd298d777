"""The command that prints ledgers: what was spent, by whom, and what it refuses to believe."""

import dp_accounting as dp
import numpy as np
import pytest
from ledgers import DIGEST, NON_PRIVATE, full_ledger, gaussian, make_entry, make_ledger, past

from fedkd_flwr.privacy.cost.events import ApproximateEvent, PureEvent, TwoClassEvent
from fedkd_flwr.privacy.ledger.entry import plain_events
from fedkd_flwr.privacy.ledger.rows import Histories
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.silo.ledger import event_words, ledger_text


def test_each_kind_of_event_has_words():
    events = [
        dp.SelfComposedDpEvent(dp.LaplaceDpEvent(12.5), 2),
        dp.ComposedDpEvent([gaussian(40.0), gaussian(20.0)]),
        TwoClassEvent(25.0),
        TwoClassEvent(0.0),
        dp.RandomizedResponseDpEvent(0.25, 10),
        PureEvent(0.5),
        ApproximateEvent(0.5, 1e-3),
        NON_PRIVATE,
        dp.NoOpDpEvent(),
    ]
    assert [event_words(event) for event, _ in plain_events([(event, 1) for event in events])] == [
        "2 x Laplace noise of 12.5 sensitivities (epsilon 0.08)",
        "Gaussian noise of 40 sensitivities + Gaussian noise of 20 sensitivities",
        "winner of two classes, Laplace noise of 25 sensitivities on each count (epsilon 0.08)",
        "winner of two classes, Laplace noise of 0 sensitivities on each count (epsilon inf)",
        "randomised response, 0.25 at random among 10",
        "epsilon 0.5",
        "epsilon 0.5 with delta 0.001",
        "no noise",
        "nothing",
    ]


def test_the_print_says_what_was_spent_when_on_what_and_what_is_left():
    text = ledger_text(full_ledger(), delta=0.0, budget=3.0)
    assert "no finite epsilon at delta 0, 3 replies, all runs together" in text
    assert "nothing of epsilon 3" in text
    text = ledger_text(past(1, 2), delta=0.0, budget=1.0)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    first = "2020-01-01 10:00:00 UTC r1 1 abababab fedct randomised response, epsilon 0.4 a label 1 x epsilon 0.4"
    assert first in lines
    assert "spent epsilon 0.8 at delta 0, 2 replies, all runs together, by the row with most" in lines
    assert any(line.startswith("counted epsilon 0.8 by this budget's filter") for line in lines)
    assert any(line.startswith("left epsilon 0.2 of 1") for line in lines)
    assert "protects one record against server; data sets compared: replace one record" in lines


def test_entries_that_say_different_things_are_not_summed_into_one_claim():
    party = make_entry(2, unit="party", neighbouring_relation="replace one party's rows")
    assert "the sum speaks of one record" in ledger_text(make_ledger(make_entry(1), party), delta=0.0)
    assert "is no claim" not in ledger_text(make_ledger(make_entry(1), party), delta=0.0)
    other = make_entry(2, neighbouring_relation="add or remove one record")
    assert "compare different data sets: the sum serves the budget and is no claim" in ledger_text(
        make_ledger(make_entry(1), other), delta=0.0
    )
    seen = make_entry(2, adversary="everyone who sees the result")
    assert "against the one that sees least" in ledger_text(make_ledger(make_entry(1), seen), delta=0.0)
    assert "note" not in ledger_text(past(1), delta=0.0)


LABEL = RandomizedResponse(epsilon=1.0, num_classes=10).dp_event()


@pytest.mark.parametrize(
    ("event", "budget", "said"),
    [
        (
            (PureEvent(1.0000041), 1), 2.0,
            ["spent epsilon 1.00001 at delta 0", "counted epsilon 1.00001 by", "left epsilon 0.99999 of 2",
             "1 x epsilon 1.001"],
        ),
        ((PureEvent(0.1), 2), 0.3000000049, ["counted epsilon 0.2 by", "left epsilon 0.1 of 0.3000000049"]),
        # three responses of epsilon 1 sum up to 3.0000000000000053, which the filter allows
        ((LABEL, 3), 3.0, ["counted epsilon 3 by", "left nothing of epsilon 3"]),
    ],
)  # fmt: skip
def test_what_was_spent_is_rounded_up_and_what_is_left_down_to_the_digits_of_the_budget(event, budget, said):
    ledger = past(1, events=[event])
    rows = Histories(data_sets=(DIGEST,), patterns=np.ones((1, 1), dtype=bool), rows=np.ones(1, dtype=int))
    text = " ".join(ledger_text(ledger, delta=0.0, budget=budget, rows=rows).split())
    assert [words for words in said if words not in text] == []
    forged = ledger_text(past(1, party="a\x1b[2Jb\nspent 0", run_id="r\nr"), delta=0.0)
    assert "\x1b" not in forged
    assert "party        a?[2Jb?spent 0" in forged.splitlines()
