"""A subset is drawn once, from the operating system, and never again."""

from __future__ import annotations

import json
import math
from itertools import combinations

import numpy as np
import pytest

from fedkd_flwr.errors import Code, DataError, RefusalError
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import StoredReply
from fedkd_flwr.stores.subset import SubsetStore

FIVE = Subsampling(num_rows=20, subset_rows=5, replacement=False)


def _store(root, party="a", digest="0" * 64):
    return SubsetStore(LedgerStore(root, party=party, data_digest=digest))


def test_the_same_rows_come_back_for_ever(tmp_path):
    first = _store(tmp_path).rows(FIVE)
    assert first.tolist() == _store(tmp_path).rows(FIVE).tolist() == _store(tmp_path).stored().tolist()
    assert len(set(first.tolist())) == 5
    assert first.max() < 20


def test_rows_may_repeat_with_replacement(tmp_path):
    rows = _store(tmp_path).rows(Subsampling(num_rows=2, subset_rows=9, replacement=True))
    assert len(rows) == 9
    assert set(rows.tolist()) <= {0, 1}


def test_each_party_and_data_set_has_its_own_draw(tmp_path):
    big = Subsampling(num_rows=1000, subset_rows=50, replacement=False)
    stores = [_store(tmp_path), _store(tmp_path, party="b"), _store(tmp_path, digest="1" * 64)]
    assert len({tuple(store.rows(big)) for store in stores}) == 3


def test_the_draw_comes_from_the_operating_system(tmp_path, monkeypatch):
    import os

    asked = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda count: asked.append(count) or real(count))
    _store(tmp_path).rows(FIVE)
    assert max(asked) >= 8 * 20


def test_files_are_the_owner_s_alone(tmp_path):
    store = _store(tmp_path)
    store.rows(FIVE)
    assert {p.stat().st_mode & 0o777 for p in store.path.parent.iterdir() if p.is_file()} == {0o600}


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
    with pytest.raises(RefusalError, match="Ask for subset-rows 5 and subset-replacement false") as caught:
        _store(tmp_path).rows(other)
    assert caught.value.code == Code.SUBSET_FIXED
    assert _store(tmp_path).rows(FIVE).tolist() == rows.tolist()


def _gone(store):
    store.path.unlink()


def _other_rows(store):
    subset = json.loads(store.path.read_text())
    subset["rows"] = sorted({*range(20)} - {*subset["rows"]})[:5]
    store.path.write_text(json.dumps(subset))


def _cut(store):
    store.path.write_bytes(store.path.read_bytes()[:-20])


def _too_far(store):
    subset = json.loads(store.path.read_text())
    subset["rows"][-1] = 20
    store.path.write_text(json.dumps(subset))


def _somebody_else_s(store):
    subset = json.loads(store.path.read_text())
    store.path.write_text(json.dumps(subset | {"party": "b"}))


@pytest.mark.parametrize("spoil", [_gone, _other_rows, _cut, _too_far, _somebody_else_s])
def test_a_subset_that_is_gone_or_changed_is_never_replaced(tmp_path, spoil):
    _store(tmp_path).rows(Subsampling(num_rows=20, subset_rows=5, replacement=False))
    spoil(_store(tmp_path))
    for _ in range(2):
        with pytest.raises(DataError, match=r"It is never drawn again.*Restore") as caught:
            _store(tmp_path).rows(FIVE)
        assert caught.value.code == Code.SUBSET_LOST


def test_the_ledger_alone_remembers_that_a_subset_was_drawn(tmp_path):
    store = _store(tmp_path)
    store.rows(FIVE)
    store.ledger.charge(
        run_id="1",
        server_round=1,
        algorithm="fedmd",
        mechanism=FIVE.words,
        unit="record",
        adversary="server",
        neighbouring_relation="add, remove or replace one record",
        events=[(FIVE.dp_event(), 1)],
        reply=StoredReply(),
        budget=Budget(),
    )
    store.path.unlink()
    store.marker.unlink()
    with pytest.raises(DataError, match=r"subset .* must be there, whole, got no such file"):
        _store(tmp_path).rows(FIVE)


def test_a_crash_before_the_marker_leaves_a_subset_that_is_taken_as_drawn(tmp_path):
    rows = _store(tmp_path).rows(FIVE)
    _store(tmp_path).marker.unlink()
    assert _store(tmp_path).rows(FIVE).tolist() == rows.tolist()
    assert _store(tmp_path).marker.is_file()


def test_a_ledger_with_a_subset_beside_it_is_a_ledger(tmp_path):
    store = _store(tmp_path)
    store.rows(FIVE)
    assert store.ledger.load().entries == ()
    assert store.ledger.answered("1", 1) is None


def _hockey_stick(p, q, epsilon):
    return sum(max(p.get(x, 0) - math.exp(epsilon) * q.get(x, 0), 0) for x in {*p, *q})


def _law(records, k, *, replacement):
    """The law of what a mechanism that simply shows its subset releases: the worst there is."""
    from collections import Counter
    from itertools import product

    if not replacement:
        drawn = Counter(tuple(sorted(subset)) for subset in combinations(records, k))
    else:
        drawn = Counter(tuple(sorted(subset)) for subset in product(records, repeat=k))
    total = sum(drawn.values())
    return {subset: count / total for subset, count in drawn.items()}


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n", "k"), [(4, 1), (5, 2), (6, 3)])
def test_the_charge_covers_a_record_that_is_added_removed_or_replaced(n, k, replacement):
    """What the ledger says of the relation: the numbers for add and remove hold for replacing one record too."""
    charge = Subsampling(num_rows=n, subset_rows=k, replacement=replacement)
    here = _law(range(n), k, replacement=replacement)
    neighbours = {
        "replaced": _law([*range(n - 1), 98], k, replacement=replacement),
        "added": _law([*range(n), 99], k, replacement=replacement),
        "removed": _law(range(n - 1), k, replacement=replacement),
    }
    for name, there in neighbours.items():
        for p, q in ((here, there), (there, here)):
            assert _hockey_stick(p, q, charge.epsilon) <= charge.delta + 1e-12, name
    # replacing one record costs no epsilon at all
    assert _hockey_stick(here, neighbours["replaced"], 0.0) == pytest.approx(charge.delta)


def test_rows_are_drawn_evenly(tmp_path):
    counts = np.zeros(10)
    for i in range(300):
        counts[
            _store(tmp_path, digest=f"{i:016x}" + 48 * "0").rows(
                Subsampling(num_rows=10, subset_rows=3, replacement=False)
            )
        ] += 1
    assert np.abs(counts / 300 - 0.3).max() < 4 * math.sqrt(0.3 * 0.7 / 300)
