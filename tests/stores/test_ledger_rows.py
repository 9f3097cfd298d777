"""Spend follows the rows: whatever is done to a file or a name, no row pays less than it was in, and none pays more."""

import csv
import shutil
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from ledgers import charge
from schemas import column, schema_of

from fedkd_flwr.data.reading import Reading
from fedkd_flwr.data.row_values import row_form, row_values
from fedkd_flwr.data.schema import Column
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.errors import Code, DataError, RefusalError
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.ledger.rows import PrivateRows
from fedkd_flwr.stores.book import ledger_in
from fedkd_flwr.stores.ledger import NO_NOISE, LedgerStore

SCHEMA = schema_of(column("age"), column("town", "Bern", "Zürich"), column("note", kind="text"))
EACH = 0.3
BUDGET = Budget(epsilon=1.0, delta=0.0)


def _row(number):
    return [number / 4, "Bern" if number % 3 else "Zürich", f"note, {number}", "yes" if number % 2 else "no"]


def _write(path, rows, *, order=(0, 1, 2, 3), mark=False, end="\n", separator=",", digits=0, extra=False):
    names = [*SCHEMA.column_names, "label"]
    with path.open("w", encoding="utf-8-sig" if mark else "utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator=end)
        writer.writerow([names[i] for i in order] + (["number"] if extra else []))
        for k, row in enumerate(rows):
            row = [f"{row[0]:.{digits + 2}f}", *row[1:]]
            writer.writerow([row[i] for i in order] + ([k] if extra else []))
    return path


def _store(root, path, party="a", schema=SCHEMA, **options):
    digest = sha256(path.read_bytes()).hexdigest()
    rows = PrivateRows(digest=digest, form=row_form(schema), blocks=lambda: row_values(read_table(path), schema))
    return LedgerStore(root, party=party, data_digest=digest, rows=rows, **options)


def _charge(store, run_id, budget=BUDGET, epsilon=EACH):
    charge(store, run_id=run_id, budget=budget, epsilon=epsilon)


RECODED = [
    {"mark": True},
    {"end": "\r\n"},
    {"separator": ";"},
    {"separator": "\t", "digits": 3},
    {"order": (3, 1, 0, 2)},
    {"extra": True},
    {"mark": True, "end": "\r\n", "separator": ";", "order": (2, 0, 3, 1), "digits": 5},
]


def test_many_edits_orders_encodings_and_names_take_no_row_above_its_budget(tmp_path):
    rng, paid, owner, seen = np.random.default_rng(0), {}, {}, []
    held, path = list(range(20)), tmp_path / "rows.csv"
    for step in range(60):
        change = rng.integers(0, 4)
        if change == 0:
            held += list(range(1000 + 10 * step, 1000 + 10 * step + rng.integers(1, 4)))  # appended
        elif change == 1 and len(held) > 8:
            held = [row for row in held if rng.random() > 0.2]  # removed
        elif change == 2:
            held[rng.integers(len(held))] = 5000 + step  # edited
        held = [held[i] for i in rng.permutation(len(held))]
        party = "b" if step % 7 == 6 else "a"
        _write(path, [_row(number) for number in held], **RECODED[rng.integers(len(RECODED))])
        renamed = any(owner.get(row, party) != party for row in held)
        spent = max(paid.get(row, 0) for row in held) + EACH > BUDGET.epsilon + 1e-9
        right = Code.WRONG_CONFIG if renamed else Code.BUDGET_EXCEEDED if spent else None
        seen.append(right)
        if right is not None:  # a row of another name, or one without budget left
            with pytest.raises(RefusalError) as caught:
                _charge(_store(tmp_path / "state", path, party), f"run {step}")
            assert caught.value.code == right
            held = [row for row in held if paid.get(row, 0) + EACH <= BUDGET.epsilon] or [9000 + step]
            continue
        _charge(_store(tmp_path / "state", path, party), f"run {step}")
        for row in held:
            paid[row], owner[row] = paid.get(row, 0) + EACH, party
    assert max(paid.values()) <= BUDGET.epsilon + 1e-9
    assert min(seen.count(what) for what in (None, Code.WRONG_CONFIG, Code.BUDGET_EXCEEDED)) > 3


def test_new_rows_do_not_pay_for_others_and_old_ones_among_them_do(tmp_path):
    rows = [_row(number) for number in range(20)]
    _charge(_store(tmp_path, _write(tmp_path / "1.csv", rows[:10])), "1", epsilon=0.9)
    _charge(_store(tmp_path, _write(tmp_path / "2.csv", rows[10:])), "2", epsilon=0.9)
    with pytest.raises(RefusalError, match=r"0\.9 spent before"):
        _charge(_store(tmp_path, _write(tmp_path / "3.csv", [*rows[10:], rows[0]])), "3", epsilon=0.2)
    assert ledger_in(_store(tmp_path, tmp_path / "1.csv").directory)[1].all_histories().rows.tolist() == [10, 10]


@pytest.mark.parametrize("name", ["x", "A", "a "])
def test_the_same_data_under_another_name_is_refused_with_the_way_out_also_in_a_simulation(tmp_path, name):
    path = _write(tmp_path / "1.csv", [_row(number) for number in range(5)])
    _charge(_store(tmp_path, path), "1")
    for apart in (True, False):
        other = _store(tmp_path, path, name, apart=apart)
        message = r"the same data set in the ledger of a\. Give this party the name"
        with pytest.raises(RefusalError, match=message):
            other.ask([(PureEvent(0.1), 1)], Budget())
        with pytest.raises(RefusalError, match=message):
            _charge(other, "2")
        with pytest.raises(RefusalError, match=message):
            other.note_no_noise(run_id="2", algorithm="fedct")
        assert other.load().entries == ()


def test_in_a_folder_of_one_run_alone_no_other_ledger_is_looked_at(tmp_path, monkeypatch):
    path = _write(tmp_path / "1.csv", [_row(number) for number in range(5)])
    _charge(_store(tmp_path, path, apart=False, alone=True), "1")
    monkeypatch.setattr("fedkd_flwr.stores.ledger._sets", lambda folder: pytest.fail(f"{folder} was read"))
    _charge(_store(tmp_path, path, "b", apart=False, alone=True), "1")


def test_parties_of_a_simulation_may_hold_equal_rows_and_silos_may_not_share_a_folder(tmp_path):
    rows = [_row(number) for number in range(5)]
    one, other = _write(tmp_path / "1.csv", rows), _write(tmp_path / "2.csv", [*rows[3:], _row(9)])
    _charge(_store(tmp_path, one, apart=False), "1")
    with pytest.raises(RefusalError, match="got 2 of 3 rows that are in the ledger of a"):
        _charge(_store(tmp_path, other, "b"), "1")
    with pytest.raises(RefusalError, match="got 1 of 2 rows that are in the ledger of a"):
        _charge(_store(tmp_path, _write(tmp_path / "3.csv", [rows[0], _row(9)]), "b"), "1")
    _charge(_store(tmp_path, other, "b", apart=False), "1")


@pytest.mark.parametrize(
    "column",
    [
        column("town", kind="text"),
        Column(name="note", kind="categorical"),
        column("age", reading=Reading(missing=("0", "0.25", "0.5"))),
    ],
    ids=["categories become text", "text becomes categories", "words for no value"],
)
def test_a_schema_that_reads_a_column_otherwise_and_a_longer_file_forget_no_spending(tmp_path, column):
    """A server that gives its parties such a schema would else get each budget again."""
    rows = [_row(number) for number in range(3)]
    _charge(_store(tmp_path, _write(tmp_path / "1.csv", rows)), "1", epsilon=0.9)
    columns = tuple(column if one.name == column.name else one for one in SCHEMA.columns)
    longer = _write(tmp_path / "2.csv", [*rows, _row(9)])
    with pytest.raises(RefusalError, match=r"0\.9 spent before"):
        _charge(_store(tmp_path, longer, schema=replace(SCHEMA, columns=columns)), "2", epsilon=0.2)


def test_a_party_with_another_name_and_another_schema_is_refused_for_its_rows_may_be_the_charged_ones(tmp_path):
    path, other = (_write(tmp_path / f"{i}.csv", [_row(i)]) for i in range(2))
    _charge(_store(tmp_path, path), "1", epsilon=0.9)
    store = _store(tmp_path, other)
    form = PrivateRows(digest=store.rows.digest, form="another schema", blocks=store.rows.blocks)
    renamed = LedgerStore(tmp_path, party="b", data_digest=form.digest, rows=form)
    with pytest.raises(RefusalError, match="got rows under another schema, which may be these, in the ledger of a"):
        renamed.ask([(PureEvent(0.2), 1)], BUDGET)
    LedgerStore(tmp_path, party="b", data_digest=form.digest, rows=form, apart=False).ask([(PureEvent(0.2), 1)], BUDGET)


def test_rows_are_read_before_the_first_charge_is_asked_for_and_not_after_something_was_learnt(tmp_path):
    """Else a file replaced during the first training would pay for the one that was learnt from."""
    path, replaced = (_write(tmp_path / f"{i}.csv", [_row(i)]) for i in range(2))
    store = _store(tmp_path, path)
    store.ask([(PureEvent(EACH), 1)], BUDGET)
    path.write_bytes(replaced.read_bytes())
    _charge(store, "1")
    held = _store(tmp_path, _write(tmp_path / "2.csv", [_row(0), _row(2)]))
    with pytest.raises(RefusalError, match=r"0\.3 spent before"):
        held.ask([(PureEvent(0.8), 1)], BUDGET)


def test_a_run_without_noise_is_noted_once_and_a_budget_set_later_knows(tmp_path):
    path = _write(tmp_path / "1.csv", [_row(1)])
    for _ in range(3):
        _store(tmp_path, path).note_no_noise(run_id="1", algorithm="fedct")
    _store(tmp_path, path).note_no_noise(run_id="2", algorithm="fedct")
    ledger = _store(tmp_path, path).load()
    assert [(entry.run_id, entry.mechanism) for entry in ledger.entries] == [("1", NO_NOISE), ("2", NO_NOISE)]
    assert ledger.spent(1e-5) == float("inf")
    with pytest.raises(RefusalError, match="epsilon infinite spent before"):
        _store(tmp_path, path).ask([(PureEvent(0.1), 1)], Budget(epsilon=100.0))
    # new rows were not in those runs
    fresh = _store(tmp_path, _write(tmp_path / "2.csv", [_row(2)]))
    fresh.ask([(PureEvent(0.1), 1)], Budget(epsilon=100.0))


def test_each_data_set_of_a_run_without_noise_and_each_state_dir_has_its_own_note(tmp_path):
    """Else rows that a run got to see would still have their whole budget."""
    paths = [_write(tmp_path / f"{number}.csv", [_row(number)]) for number in range(2)]
    for folder in ("x", "y"):
        for path in (*paths, paths[0]):
            _store(tmp_path / folder, path).note_no_noise(run_id="1", algorithm="fedct")
        entries = _store(tmp_path / folder, paths[0]).load().entries
        assert [entry.data for entry in entries] == [sha256(path.read_bytes()).hexdigest() for path in paths]
    shutil.rmtree(tmp_path / "y")  # started over deliberately
    _store(tmp_path / "y", paths[0]).note_no_noise(run_id="1", algorithm="fedct")
    assert len(_store(tmp_path / "y", paths[0]).load().entries) == 1


def _gone(path):
    path.unlink()


def _flipped(path):
    data = path.read_bytes()
    path.write_bytes(data.replace(b"0", b"1", 1) if b"0" in data else data.replace(b"1", b"2", 1))


@pytest.mark.parametrize("spoil", [_gone, _flipped])
@pytest.mark.parametrize("party", ["a", "b"])
def test_a_lost_key_is_refused_and_never_replaced_also_for_a_party_that_may_hold_rows_that_were_charged(
    tmp_path, spoil, party
):
    _charge(_store(tmp_path, _write(tmp_path / "1.csv", [_row(1)])), "1")
    spoil(tmp_path / "ledgers" / "rows.key")
    other = _write(tmp_path / "2.csv", [_row(1), _row(2)])
    for _ in range(2):
        with pytest.raises(DataError, match=r"key .*rows.key must be there, whole") as caught:
            _charge(_store(tmp_path, other, party), "2")
        assert caught.value.code is Code.LEDGER_LOST


def test_a_key_of_another_folder_is_refused(tmp_path):
    for name in ("x", "y"):
        _charge(_store(tmp_path / name, _write(tmp_path / "1.csv", [_row(1)])), "1")
    shutil.copy(tmp_path / "y" / "ledgers" / "rows.key", tmp_path / "x" / "ledgers" / "rows.key")
    with pytest.raises(DataError, match="be the one that the ledger's rows were hashed with") as caught:
        _charge(_store(tmp_path / "x", tmp_path / "1.csv"), "2")
    assert caught.value.code is Code.LEDGER_LOST


def test_nothing_of_a_row_stands_in_the_files_and_another_key_gives_other_hashes(tmp_path):
    path = _write(tmp_path / "1.csv", [_row(1), _row(2)])
    stores = [_store(tmp_path / name, path) for name in ("x", "y")]
    for store in stores:
        _charge(store, "1")
    assert not set(stores[0].hashes().tolist()) & set(stores[1].hashes().tolist())
    assert all(b"note, 1" not in file.read_bytes() for file in (tmp_path / "x").rglob("*") if file.is_file())
