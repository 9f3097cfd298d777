"""A ledger's file: whatever is changed, cut, older or another's in it is refused, and nothing repairs it."""

import os
import random
import shutil
from pathlib import Path

import pytest
from ledgers import charge, edited, make_store, refused_as_lost, three

from fedkd_flwr.errors import Code, DataError
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.stores.book import FILE, HEAD
from fedkd_flwr.stores.egress_log import EgressLog, output_of

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX only")


def _all_lost(root, message):
    """Nothing goes on with a ledger that cannot be believed, and nothing repairs it."""
    before = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    store = make_store(root)
    refused_as_lost(store.load, message)
    refused_as_lost(lambda: store.answered("r1", 1), message)
    refused_as_lost(lambda: store.ask([(PureEvent(0.1), 1)], Budget()), message)
    refused_as_lost(lambda: charge(store, 9), message)
    assert {p: p.read_bytes() for p in root.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\x00", b"SQLite format 3\x00" * 100, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("file", [FILE, HEAD])
def test_a_file_that_is_damaged_or_cut_is_refused_and_not_reset(tmp_path, file, damage):
    path = three(tmp_path).directory / file
    data = path.read_bytes()
    path.write_bytes(damage if isinstance(damage, bytes) else data[: int(damage * len(data))])
    _all_lost(tmp_path, rf"{file} must (be whole|hold the 3 entries)")


def _values(root):
    """Return all that can be read of a ledger, replies too."""
    store = make_store(root)
    replies = [store.answered(run, number).to_bytes() for run in ("r1", "r2") for number in (1, 2)]
    with store.looked_at() as book:
        return book.entries(), book.parts, replies


def test_one_changed_byte_anywhere_is_refused_or_changes_no_value(tmp_path):
    store = make_store(tmp_path)
    for run in ("r1", "r2"):
        for server_round in (1, 2):
            charge(store, server_round, run_id=run)
    right, rng, refused = _values(tmp_path), random.Random(1), 0
    for path in (store.path, store.directory / HEAD, store.key_path):
        data = path.read_bytes()
        written = [place for place in range(len(data)) if data[place]]  # unused parts of pages are zeros
        for place in [*rng.sample(written, min(60, len(written))), *rng.sample(range(len(data)), 15)]:
            path.write_bytes(data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :])
            try:
                assert _values(tmp_path) == right
            except DataError as error:
                refused += error.code is Code.LEDGER_LOST
        path.write_bytes(data)
    assert refused > 90
    assert _values(tmp_path) == right


def test_another_party_s_ledger_is_refused(tmp_path):
    other, own = make_store(tmp_path / "o", party="b"), make_store(tmp_path)
    charge(other)
    shutil.copytree(other.directory, own.directory)
    _all_lost(tmp_path, "must belong to party a, got party b")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET said = replace(said, '20', '19') WHERE number = 2",
        "UPDATE entries SET kind = kind + 1 WHERE number = 2",
        "UPDATE kinds SET said = replace(said, '0.4', '0.1')",
        "DELETE FROM entries WHERE number = 1",
        "DELETE FROM entries WHERE number = 3",
        "INSERT INTO entries SELECT 4, kind, said FROM entries WHERE number = 3",
        "UPDATE entries SET number = 7 - number",
        "DELETE FROM parts WHERE name = 'rows'",
        "DELETE FROM parts WHERE name = 'head'",
        "UPDATE parts SET data = zeroblob(40) WHERE name = 'rows'",
        "UPDATE parts SET name = 'draw' WHERE name = 'rows'",
        "DELETE FROM parts WHERE name = 'draw'",
        "UPDATE parts SET data = 'null' WHERE name = 'draw'",
        "DROP TABLE entries",
    ],
)
def test_a_ledger_that_was_changed_is_refused(tmp_path, statement):
    with (store := three(tmp_path)).held() as book:
        book.put("draw", b"{}")
    edited(store.path, statement)
    _all_lost(tmp_path, f"{FILE} must be whole")


def test_a_ledger_that_was_written_again_unchanged_is_read_so_that_the_changes_above_are_the_reason(tmp_path):
    edited(three(tmp_path).path, "UPDATE entries SET said = said", "VACUUM")
    assert len(make_store(tmp_path).load().entries) == 3


def test_an_older_copy_of_the_ledger_alone_is_refused(tmp_path):
    store = make_store(tmp_path)
    charge(store, 1)
    old = store.path.read_bytes()
    charge(store, 2)
    store.path.write_bytes(old)
    message = rf"hold the 2 entries that {HEAD} counts, got 1 entries: an older copy.*Restore the newest backup"
    _all_lost(tmp_path, message)


@pytest.mark.parametrize("older", ["file and head", "whole folder", "journal", "removed", "removed file and head"])
def test_an_older_ledger_beside_a_newer_egress_log_is_refused(tmp_path, older):
    """The log names the last reply that was charged: an older copy without it would answer that request once more."""
    store, log = make_store(tmp_path), EgressLog(tmp_path, party="a")

    def charged(server_round):
        reply = charge(store, server_round)
        return {"round": server_round, "claim": {"unit": "record"}, "left": True, "output": output_of(reply)}

    log.append(charged(1))
    assert len(make_store(tmp_path).load().entries) == 1
    shutil.copytree(store.directory, tmp_path / "old")
    log.append(charged(2))
    for number in range(3):  # what came after it has no claim
        log.append({"round": number, "claim": None, "left": False, "output": None, "code": "busy"})
    assert len(make_store(tmp_path).load().entries) == 2
    if older == "journal":  # an old one, which SQLite takes back what was written with
        with store.held() as book:
            book.db.execute("PRAGMA cache_size = 5")
            book.put("draw", bytes(10**6))
            journal = Path(f"{store.path}-journal").read_bytes()
        shutil.copy(tmp_path / "old" / FILE, store.path)
        Path(f"{store.path}-journal").write_bytes(journal)
        shutil.copy(tmp_path / "old" / HEAD, store.directory / HEAD)
    elif older.startswith("removed"):
        shutil.rmtree(store.directory)
        if "head" in older:
            store.directory.mkdir()
    else:
        for name in (FILE, HEAD):
            shutil.copy(tmp_path / "old" / name, store.directory / name)
    message = r"must (hold the charge of the last reply that .*log\.jsonl names, .* older copy|be whole)"
    refused_as_lost(make_store(tmp_path).load, message)  # which also lets SQLite take back what that journal says
    _all_lost(tmp_path, message)


def test_a_ledger_with_another_history_than_its_head_is_refused(tmp_path):
    store, other = three(tmp_path), make_store(tmp_path / "o")
    for server_round in (1, 2, 3):
        charge(other, server_round, epsilon=0.1)
    shutil.copy(other.path, store.path)
    _all_lost(tmp_path, rf"agree with {HEAD} after 3 entries")


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        (FILE, rf"hold the 3 entries that {HEAD} counts, got no such file"),
        (HEAD, rf"{HEAD} must be there, got no such file, and a ledger with charges"),
    ],
)
def test_a_missing_file_is_refused_where_the_other_remains(tmp_path, gone, message):
    (three(tmp_path).directory / gone).unlink()
    _all_lost(tmp_path, message)


@POSIX
def test_a_link_to_a_disk_that_is_not_there_is_no_new_ledger(tmp_path):
    directory = three(tmp_path).directory
    for name in (FILE, HEAD):
        (directory / name).unlink()
        (directory / name).symlink_to(tmp_path / "unmounted" / name)
    refused_as_lost(make_store(tmp_path).load, "must be (readable|whole)")


def test_an_entry_of_a_hundred_thousand_is_written_alone(tmp_path):
    """A charge changes what it is about: the file's other pages stay as they are."""
    store = make_store(tmp_path)
    charge(store, 1)
    first = store.load().entries[0]
    with store.held() as book:
        for number in range(2000):
            book.add(first.__class__(**{**vars(first), "run_id": f"run {number}"}), None, kept=3)
    before = store.path.read_bytes()
    charge(store, 2)
    after = store.path.read_bytes()
    pages = [slice(at, at + 4096) for at in range(0, len(after), 4096)]
    assert len(pages) > 50
    assert sum(before[page] != after[page] for page in pages) < 10
