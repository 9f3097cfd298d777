"""A subset is drawn once, from the operating system, and never again."""

import os
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from ledgers import charge

from fedkd_flwr.errors import Code, DataError, RefusalError
from fedkd_flwr.privacy.ledger.rows import array_rows
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.subset import SubsetStore

FOUR = Subsampling(num_rows=10, subset_rows=4, replacement=False)
FIVE = Subsampling(num_rows=20, subset_rows=5, replacement=False)


def _store(root, party="a", digest="0" * 64):
    return SubsetStore(LedgerStore(root, party=party, data_digest=digest))


def test_the_same_rows_come_back_for_ever(tmp_path):
    first = _store(tmp_path).rows(FIVE)
    assert first.tolist() == _store(tmp_path).rows(FIVE).tolist() == _store(tmp_path).stored().tolist()
    assert len(set(first.tolist())) == 5
    assert first.max() < 20


def test_the_draw_comes_from_the_operating_system(tmp_path, monkeypatch):
    asked = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: asked.append(count) or real(count))
    _store(tmp_path).rows(FIVE)
    assert max(asked) >= 8 * 20


@pytest.mark.parametrize(
    "other",
    [
        Subsampling(num_rows=20, subset_rows=6, replacement=False),
        Subsampling(num_rows=20, subset_rows=5, replacement=True),
        Subsampling(num_rows=21, subset_rows=5, replacement=False),
    ],
)
def test_another_subset_than_the_drawn_one_is_refused_and_nothing_changes(tmp_path, other):
    rows = _store(tmp_path).rows(FIVE)
    if other.num_rows == FIVE.num_rows:  # before a private row is looked at
        with pytest.raises(RefusalError, match="Ask for subset-rows 5"):
            _store(tmp_path).claimed(other)
    with pytest.raises(RefusalError, match=r"Ask for subset-rows 5 and paper\.subset-replacement false") as caught:
        _store(tmp_path).rows(other)
    assert caught.value.code == Code.SUBSET_FIXED
    assert _store(tmp_path).rows(FIVE).tolist() == rows.tolist()


def test_a_crash_before_the_note_draws_nothing(tmp_path, monkeypatch):
    store = _store(tmp_path)
    with monkeypatch.context() as patch:
        patch.delattr(LedgerStore, "append")
        with pytest.raises(AttributeError):
            store.rows(FIVE)
    assert store.stored() is None
    rows = _store(tmp_path).rows(FIVE)
    assert store.stored().tolist() == rows.tolist()
    assert [entry.mechanism for entry in store.ledger.load().entries] == [f"{FIVE.words}: drawn"]


def test_rows_beyond_the_claimed_number_are_drawn_too(tmp_path):
    rows = _store(tmp_path).rows(FIVE, num_rows=1000, rng=np.random.default_rng(0))
    assert len(set(rows.tolist())) == 5
    assert rows.max() >= 20


def test_a_draw_is_noted_once_and_costs_nothing_by_itself(tmp_path):
    store = _store(tmp_path)
    for _ in range(2):
        store.rows(FIVE)
    assert len(store.ledger.load().entries) == 1
    assert store.ledger.load().spent(0.5) == 0.0
    assert store.ledger.answered("draw 1", 1) is None


def _held(root, X, party="a"):
    return SubsetStore(LedgerStore(root, party=party, data_digest="0" * 64, rows=array_rows(X, np.zeros(len(X)))))


def _charged(store, mechanism, run_id="1"):
    rows, events = store.rows(mechanism), [(mechanism.dp_event(), 1)]
    charge(store.ledger, run_id=run_id, mechanism=mechanism.words, events=events)
    return rows


def _asked(store, n, k):
    return store.claimed(Subsampling(num_rows=n, subset_rows=k, replacement=False))


def test_many_edits_expose_no_row_beyond_those_that_were_drawn(tmp_path):
    """Today's hole: 30 of 100 rows became 65 after an edit and a rename."""
    rng = np.random.default_rng(1)
    X = np.arange(100.0)[:, None]
    store = _held(tmp_path, X)
    exposed = set(X[_charged(store, _asked(store, 100, 30))].ravel())
    for _ in range(40):
        X = rng.permutation(X)[: rng.integers(40, 101)]
        X = np.concatenate([X, rng.choice(100, 5)[:, None], rng.normal(1000, 100, (5, 1))])
        store = _held(tmp_path, X)
        try:
            learnt = X[store.rows(_asked(store, len(X), 30))].ravel()
        except (RefusalError, DataError):
            continue
        assert set(learnt) <= exposed
    assert len(exposed) == 30


def test_a_reordered_file_has_the_same_rows_and_is_not_charged_again(tmp_path):
    X = np.array([[1.0], [2.0], [2.0], [3.0], [4.0], [5.0]])
    store = _held(tmp_path, X)
    mechanism = _asked(store, 6, 3)
    drawn = sorted(X[_charged(store, mechanism)].ravel())
    turned = _held(tmp_path, X[::-1])
    assert turned.charged(_asked(turned, 6, 3))
    assert not turned.charged(replace(mechanism, subset_rows=4))  # another draw, which nobody has paid for
    assert sorted(X[::-1][turned.rows(mechanism)].ravel()) == drawn


def test_added_rows_are_not_learnt_from_and_the_claim_stays_that_of_the_draw(tmp_path):
    X = np.arange(10.0)[:, None]
    store = _held(tmp_path, X)
    drawn = _charged(store, _asked(store, 10, 4))
    longer = _held(tmp_path, np.concatenate([X, X + 100]))
    assert _asked(longer, 20, 4).num_rows == 10
    assert longer.rows(_asked(longer, 20, 4)).tolist() == drawn.tolist()
    with pytest.raises(RefusalError, match="Ask for subset-rows 4"):
        longer.rows(_asked(longer, 20, 5))


def _undrawn(X, store):
    return X[np.setdiff1d(np.arange(len(X)), store.stored())]


def test_a_row_that_was_not_drawn_decides_nothing_in_a_file_of_new_rows(tmp_path):
    """Before, a new file drew anew unless it held a row of the old one, drawn or not: that row showed for sure."""
    X = np.arange(10.0)[:, None]
    store = _held(tmp_path, X)
    _charged(store, FOUR)
    said = []
    for rows in (X + 100, np.concatenate([X + 100, _undrawn(X, store)[:1]])):
        new = _held(tmp_path, rows)
        assert new.claimed(FOUR) == FOUR
        assert new.charged(FOUR)
        with pytest.raises(DataError, match="must hold some of the rows that were drawn, got none") as caught:
            new.rows(FOUR)
        said.append(caught.value.code)
    assert said == [Code.SUBSET_LOST] * 2
    assert [entry.run_id for entry in store.ledger.load().entries] == ["draw 1", "1"]


def test_whether_a_row_that_was_not_drawn_left_before_the_charge_does_not_show_and_rows_pay_once(tmp_path):
    X = np.arange(10.0)[:, None]
    store = _held(tmp_path, X)
    drawn = X[store.rows(FOUR)]
    left = np.concatenate([drawn, _undrawn(X, store)[1:]])
    shorter = _held(tmp_path, left)
    assert not shorter.charged(FOUR)
    assert sorted(left[_charged(shorter, FOUR)].ravel()) == sorted(drawn.ravel())
    assert shorter.charged(FOUR)
    back = _held(tmp_path, X)  # the row that had left has not paid
    assert not back.charged(FOUR)


def test_empty_places_of_a_draw_stand_for_no_row_of_another_file(tmp_path):
    X = np.arange(3.0)[:, None]
    for seed in range(8):  # of ten places three hold a row
        store = _held(tmp_path / str(seed), X)
        drawn = store.rows(FOUR, num_rows=3, rng=np.random.default_rng(seed))
        turned = _held(tmp_path / str(seed), X[::-1])
        if len(there := sorted(X[drawn[drawn < 3]].ravel())):
            assert sorted(X[::-1][turned.rows(FOUR, num_rows=3)].ravel()) == there
        else:
            with pytest.raises(DataError, match="hold some of the rows that were drawn"):
                turned.rows(FOUR, num_rows=3)


def test_rows_of_other_columns_are_refused_before_a_claim_is_made_of_a_draw_of_their_own(tmp_path):
    X = np.arange(10.0)[:, None]
    _charged(_held(tmp_path, X), FOUR)
    other = _held(tmp_path, np.hstack([X, X]))
    for ask in (other.claimed, other.charged, other.rows):
        with pytest.raises(RefusalError, match="columns of the schema it was drawn under") as caught:
            ask(FOUR)
        assert caught.value.code == Code.SUBSET_FIXED


def test_a_renamed_party_draws_nothing(tmp_path):
    X = np.arange(10.0)[:, None]
    _charged(_held(tmp_path, X), FOUR)
    for held in (X, X[::-1], X[:3]):
        with pytest.raises(RefusalError, match="must hold rows of its own in this state-dir, got"):
            _held(tmp_path, held, party="x").rows(Subsampling(num_rows=len(held), subset_rows=2, replacement=False))
        assert _held(tmp_path, held, party="x").stored() is None


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n", "k"), [(4, 1), (5, 2), (6, 3)])
def test_the_charge_covers_a_record_that_is_replaced_too(n, k, replacement):
    """What shows its subset is the worst there is: draws with the record alone tell, and cost no epsilon at all."""
    charge = Subsampling(num_rows=n, subset_rows=k, replacement=replacement)
    draws = list(product(range(n), repeat=k) if replacement else combinations(range(n), k))
    assert sum(0 in one for one in draws) / len(draws) == pytest.approx(charge.delta)
