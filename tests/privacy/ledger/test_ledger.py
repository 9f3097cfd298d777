"""A party's account: what is added up, who refuses, and what is believed when it is read again."""

import math
from contextlib import nullcontext
from dataclasses import replace

import dp_accounting as dp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ledgers import DIGEST, NON_PRIVATE, NOW, gaussian, make_entry, make_ledger

from fedkd_flwr.errors import Code, ConfigError, DataError, RefusalError
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.events import ApproximateEvent, PureEvent
from fedkd_flwr.privacy.ledger.ledger import Budget, Ledger
from fedkd_flwr.privacy.ledger.rows import Histories

# -------------------------------------------------------------------------------------------------------- budgets


@pytest.mark.parametrize(
    ("call", "match"),
    [
        *((lambda v=v: Budget(epsilon=v), "epsilon-budget must be .*Leave it out") for v in (-0.1, math.nan)),
        *((lambda v=v: Budget(delta=v), r"delta-budget must be within \[0, 1\), got") for v in (-1e-9, 1.0)),
        (lambda: make_ledger().spent(1.0), r"delta must be within \[0, 1\), got"),
    ],
)
def test_impossible_budgets_and_deltas_are_refused(call, match):
    with pytest.raises(ConfigError, match=match):
        call()


# ---------------------------------------------------------------------------------------------------- adding up


def test_what_is_spent_is_the_tight_composition_not_the_sum():
    label = PureEvent(0.05)
    ledger = make_ledger(*(make_entry(i, events=[(label, 100)]) for i in range(1, 5)))
    spent = ledger.spent(1e-5)
    assert spent == Accountant().compose(label, 400).epsilon(1e-5)
    assert spent < 0.5 * 400 * 0.05


def _of_data_sets(count):
    """A ledger in which each of so many data sets has paid 0.1 once."""
    data = [f"{i:016x}" for i in range(count)]
    entries = (make_entry(1, run_id=f"r{i}", data=one, events=[(PureEvent(0.1), 1)]) for i, one in enumerate(data))
    return make_ledger(*entries), tuple(data)


def _histories(data, patterns):
    patterns = np.array(patterns, dtype=bool)
    return Histories(data_sets=data, patterns=patterns, rows=np.ones(len(patterns), dtype=int))


@settings(max_examples=15)
@given(st.lists(st.integers(0, 31), min_size=1, max_size=12))
@example([15, 31])  # alike in all that was paid
def test_the_row_with_most_decides_what_is_spent(pasts):
    """Patterns of four data sets as bits, and a fifth one that nobody charged."""
    ledger, data = _of_data_sets(4)
    patterns = [[past >> i & 1 for i in range(5)] for past in pasts]
    found = ledger.spent(0.0, _histories((*data, "ff" * 8), patterns))
    assert found == pytest.approx(0.1 * max((past & 15).bit_count() for past in pasts))


@pytest.mark.parametrize("count", [16, 17, 600])
def test_of_very_many_pasts_more_is_said_to_be_spent_than_any_row_paid_and_never_less(count):
    ledger, data = _of_data_sets(count)
    found = ledger.spent(0.0, _histories(data, np.eye(count)))
    assert found == pytest.approx(0.1 if count <= 16 else 0.1 * count)


def test_a_past_that_another_row_s_past_holds_is_not_one_of_the_very_many():
    """Eighteen pasts: nine sets in one of them, each of these alone, and eight others alone."""
    ledger, data = _of_data_sets(17)
    pasts = np.vstack([np.eye(17), np.arange(17) < 9])
    assert ledger.spent(0.0, _histories(data, pasts)) == pytest.approx(0.9)


def test_the_row_with_least_budget_left_decides_a_refusal():
    ledger, data = _of_data_sets(2)
    histories = _histories(data, [[0, 0], [1, 1], [1, 0]])
    budget, asked = Budget(epsilon=0.3, delta=0.0), [(PureEvent(0.1), 1)]
    assert ledger.counted(budget, histories, asked=asked) == pytest.approx([0.1, 0.3, 0.2])
    assert not ledger.would_exceed(asked, budget, histories)
    assert ledger.would_exceed(asked, Budget(epsilon=0.25, delta=0.0), histories)


def test_no_filter_covers_noise_and_then_a_release_that_states_a_delta_however_large_the_budget():
    stated = make_entry(2, events=[(ApproximateEvent(0.1, 1e-6), 1)])
    assert make_ledger(make_entry(1), stated).counted(Budget(epsilon=1e9)).tolist() == [math.inf]


# ------------------------------------------------------------------------------------------------------- refusing


HALF, STATED = PureEvent(0.5), ApproximateEvent(0.1, 6e-6)
NUMBERS = (
    r"privacy budget of party-000 must cover what is asked: epsilon <= 1 at delta 0, got epsilon 0\.8 spent "
    r"before, 0\.4 asked, 1\.2 together\. .*epsilon-budget or delta-budget"
)


@pytest.mark.parametrize(
    ("before", "asked", "epsilon", "delta", "refused"),
    [
        (None, dp.NoOpDpEvent(), 0, 0.0, None),
        (None, PureEvent(0.01), 0, 0.0, "0.01 together"),
        (PureEvent(0.8), PureEvent(0.4), 1.0, 0.0, NUMBERS),
        (HALF, HALF, 1.0, 0.0, None),
        (HALF, HALF, 1.0 - 1e-8, 0.0, r"1\.0 together"),  # more than the rounding of sums, which a budget forgives
        (None, NON_PRIVATE, 1e9, 1e-5, "infinite asked, infinite together"),
        (PureEvent(0.1), NON_PRIVATE, 1e9, 1e-5, "infinite asked, infinite together"),
        (NON_PRIVATE, PureEvent(0.001), 1e9, 0.0, r"epsilon infinite spent before, 0\.001 asked, infinite"),
        (None, STATED, 100.0, 1e-5, None),
        (STATED, STATED, 100.0, 1e-5, "infinite together"),  # the deltas together are more, whatever the epsilon
        (STATED, STATED, 100.0, 1.3e-5, None),
    ],
)
def test_a_budget_covers_what_is_asked_or_refuses_it_with_the_numbers(before, asked, epsilon, delta, refused):
    ledger = make_ledger(make_entry(events=[(before, 1)])) if before else make_ledger()
    with pytest.raises(RefusalError, match=refused) if refused else nullcontext() as caught:
        ledger.ask([(asked, 1)], Budget(epsilon=epsilon, delta=delta))
    assert caught is None or caught.value.code is Code.BUDGET_EXCEEDED


@pytest.mark.parametrize("budget", [Budget(), Budget(epsilon=1.0)])
@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([], "events must hold at least one event"),
        ([(PureEvent(0.1), 0)], "events must pair an event with a whole number >= 1"),
        ([(PureEvent(0.1), 1.0)], "events must pair an event with a whole number >= 1"),
        ([(PureEvent(0.1), True)], "events must pair an event with a whole number >= 1"),
        ([({"kind": "free"}, 1)], "event must be of a kind among"),
        ([({"kind": "pure", "epsilon": -1.0}, 1)], "epsilon must be finite and >= 0"),
    ],
)
def test_events_that_cannot_be_accounted_for_are_refused_whatever_the_budget(events, message, budget):
    with pytest.raises((ConfigError, DataError), match=message):
        make_ledger().ask(events, budget)


@pytest.mark.parametrize(("party", "digest"), [("", DIGEST), ("a", ""), ("a", "xyz" * 8), ("a", "../../../etc/passwd")])
def test_a_ledger_has_an_owner_and_a_digest(party, digest):
    with pytest.raises(ConfigError, match=r"(party|data digest) must be"):
        Ledger(party=party, data_digest=digest)


# ---------------------------------------------------------------------------------------------- as a store reads it


def test_one_of_each_kind_of_entry_and_how_often_is_enough_to_decide():
    """A store gives 100,000 entries so: what is decided must not differ."""
    noisy = [make_entry(number, events=[(gaussian(9.0), 2)]) for number in range(1, 40)]
    pure = [make_entry(number, run_id="r2", events=[(PureEvent(0.1), 3)]) for number in range(1, 20)]
    whole = make_ledger(*noisy[:1], *pure, *noisy[1:])
    short = replace(whole, entries=(noisy[0], pure[0]), times=(39, 19))
    budget = Budget(epsilon=20.0)
    assert short.spent(1e-5) == whole.spent(1e-5)
    assert short.counted(budget) == pytest.approx(whole.counted(budget), rel=1e-12)
    late = ApproximateEvent(0.1, 1e-7)  # states a delta: whether it is covered hangs on what came first
    stated = make_entry(1, run_id="r3", events=[(late, 1)])
    for first, other, times, finite in ((pure[0], stated, (19, 1), False), (stated, pure[0], (1, 19), True)):
        both = make_ledger(first, other, *pure[1:]), replace(whole, entries=(first, other), times=times)
        assert [bool(np.isfinite(one.counted(budget)[0])) for one in both] == [finite] * 2


def test_an_event_of_an_unknown_kind_is_not_skipped():
    ledger = make_ledger(replace(make_entry(), events=(({"kind": "novel"}, 1),)))
    with pytest.raises(DataError, match=r"hold events that this release can account for") as caught:
        ledger.spent(1e-5)
    assert caught.value.code is Code.LEDGER_LOST


def test_entries_from_the_future_count_in_full():
    ledger = make_ledger(make_entry(1), make_entry(2, when=NOW.isoformat()))
    assert ledger.spent(0.0) == pytest.approx(0.8)
