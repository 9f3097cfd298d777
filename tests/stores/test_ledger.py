"""A ledger on a disk: one charge and one reply for each request, whatever crashes, repeats, races or is put back."""

import contextlib
import errno
import logging
import math
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fedkd_flwr.errors import Code, ConfigError, DataError, RefusalError
from fedkd_flwr.privacy.cost.accountant import PureEvent
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.stores import book as books
from fedkd_flwr.stores import ledger as ledger_store
from fedkd_flwr.stores.book import FILE, HEAD
from fedkd_flwr.stores.egress_log import EgressLog, output_of
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import StoredReply

ROOT = Path(__file__).parents[2]
DIGEST = "ab" * 32
POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX only")


def _store(root, party="a", digest=DIGEST, **options):
    return LedgerStore(root, party=party, data_digest=digest, **options)


def _reply(seed=0):
    labels = np.random.default_rng(seed).integers(0, 10, (1, 50), dtype=np.int16)
    return StoredReply(arrays={"labels": labels}, metrics={"party": "a", "number": seed})


def _charge(store, server_round=1, *, run_id="r1", reply=None, budget=None, epsilon=0.4, **changes):
    values = {
        "run_id": run_id,
        "server_round": server_round,
        "algorithm": "fedct",
        "mechanism": "randomised response",
        "unit": "record",
        "adversary": "server",
        "neighbouring_relation": "replace one record",
        "events": [(PureEvent(epsilon), 1)],
        "reply": reply or _reply(server_round),
        "budget": budget or Budget(),
    }
    return store.charge(**{**values, **changes})


def _same(one, other):
    assert one.to_bytes() == other.to_bytes()


def _lost(call, message):
    with pytest.raises(DataError, match=message) as caught:
        call()
    assert caught.value.code is Code.LEDGER_LOST


def _all_lost(root, message):
    """Nothing goes on with a ledger that cannot be believed, and nothing repairs it."""
    before = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    store = _store(root)
    _lost(store.load, message)
    _lost(lambda: store.answered("r1", 1), message)
    _lost(lambda: store.ask([(PureEvent(0.1), 1)], Budget()), message)
    _lost(lambda: _charge(store, 9), message)
    assert {p: p.read_bytes() for p in root.rglob("*") if p.is_file()} == before


# --------------------------------------------------------------------------------------------------------- replies


def test_a_run_keeps_its_own_last_three_replies_whatever_notes_and_other_runs_come_between(tmp_path):
    store = _store(tmp_path)
    for server_round in (1, 2, 3):
        _charge(store, server_round)
    store.note_no_noise(run_id="r1", algorithm="fedct")
    for server_round in (1, 2, 3):
        _charge(store, server_round, run_id="r2")
    _charge(store, 4)
    for server_round in (2, 3, 4):
        _same(store.answered("r1", server_round), _reply(server_round))
    with pytest.raises(DataError, match="be among the last 3 that a answered in its run"):
        store.answered("r1", 1)


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1, -1]], dtype=np.int16),
        np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3)),
        np.array([np.nan, -0.0, np.inf], dtype=np.float32),
        np.arange(10)[::3],
        np.zeros((0, 4)),
        np.array(7, dtype=">i4"),
    ],
)
def test_a_reply_comes_back_bit_by_bit(array):
    def message_bytes(array):  # what Flower's Array holds
        import io

        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        return buffer.getvalue()

    metrics = {"party": "a\ud800", "count": 2**70, "flag": True, "share": 0.1, "nan": -math.inf, "raw": b"\x00\xff"}
    reply = StoredReply(arrays={"z": array, "labels": array, "a/../b": array}, metrics=metrics)
    back = StoredReply.from_bytes(reply.to_bytes())
    assert list(back.arrays) == ["z", "labels", "a/../b"]
    assert all(message_bytes(one) == message_bytes(array) for one in back.arrays.values())
    assert back.metrics == metrics
    assert type(back.metrics["flag"]) is bool


def test_a_reply_of_python_objects_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        _charge(_store(tmp_path), reply=StoredReply(arrays={"x": np.array([{}])}))
    with pytest.raises(ConfigError, match="metric x must be a plain number"):
        _charge(_store(tmp_path), reply=StoredReply(metrics={"x": [1]}))
    assert not list(tmp_path.iterdir())


# -------------------------------------------------------------------------------------------------------- charging


def test_a_first_look_finds_nothing_and_writes_nothing(tmp_path):
    store = _store(tmp_path)
    assert store.load().entries == ()
    assert store.answered("r1", 1) is None
    store.ask([(PureEvent(1.0), 1)], Budget(epsilon=2.0))
    assert not list(tmp_path.iterdir())


def test_a_repeated_request_gets_the_same_bytes_and_is_charged_once_also_after_a_restart(tmp_path):
    first = _charge(_store(tmp_path), reply=_reply(1))
    _same(first, _reply(1))
    restarted = _store(tmp_path)
    _same(restarted.answered("r1", 1), first)
    _same(_charge(restarted, reply=_reply(2), epsilon=99.0), first)
    assert len(restarted.load().entries) == 1
    assert restarted.load().spent(0.0) == pytest.approx(0.4)


def test_a_repeated_request_is_answered_even_where_the_budget_would_no_longer_cover_it(tmp_path):
    _charge(_store(tmp_path))
    _same(_charge(_store(tmp_path), reply=_reply(2), budget=Budget(epsilon=0.1)), _reply(1))


def test_an_entry_says_what_was_released_and_when(tmp_path):
    before = datetime.now(UTC).replace(microsecond=0)
    _charge(_store(tmp_path), 3, run_id="run 7")
    entry = _store(tmp_path).load().entries[0]
    assert (entry.run_id, entry.server_round, entry.algorithm) == ("run 7", 3, "fedct")
    assert entry.events == (({"kind": "pure", "epsilon": 0.4}, 1),)
    assert before <= datetime.fromisoformat(entry.when) <= datetime.now(UTC)


@pytest.mark.parametrize("restart", ["new store", "new run"])
def test_a_budget_of_one_refuses_the_third_round_and_neither_restart_nor_new_run_changes_that(tmp_path, restart):
    budget = Budget(epsilon=1.0, delta=0.0)
    for server_round in (1, 2):
        _charge(_store(tmp_path), server_round, budget=budget)
    again = {"run_id": "r2", "server_round": 1} if restart == "new run" else {"server_round": 3}
    numbers = r"epsilon <= 1 at delta 0, got epsilon 0\.8 spent before, 0\.4 asked, 1\.2 together"
    for call in (
        lambda: _store(tmp_path).ask([(PureEvent(0.4), 1)], budget),
        lambda: _charge(_store(tmp_path), budget=budget, **again),
    ):
        with pytest.raises(RefusalError, match=numbers) as caught:
            call()
        assert caught.value.code is Code.BUDGET_EXCEEDED
    assert len(_store(tmp_path).load().entries) == 2
    _same(_store(tmp_path).answered("r1", 2), _reply(2))


def test_the_same_round_of_another_run_is_another_request(tmp_path):
    store = _store(tmp_path)
    _charge(store, 1, run_id="a-1", reply=_reply(1))
    _charge(store, 11, run_id="a", reply=_reply(2))
    _charge(store, 1, run_id="a/1", reply=_reply(3))
    _same(store.answered("a-1", 1), _reply(1))
    _same(store.answered("a", 11), _reply(2))
    _same(store.answered("a/1", 1), _reply(3))


def test_parties_have_their_own_ledgers(tmp_path):
    _charge(_store(tmp_path))
    other = _store(tmp_path, party="b", digest="cd" * 32)
    assert other.load().entries == ()
    _charge(other, reply=_reply(5))
    _same(other.answered("r1", 1), _reply(5))
    _same(_store(tmp_path).answered("r1", 1), _reply(1))


def test_data_sets_whose_rows_nobody_told_are_counted_one_by_one(tmp_path):
    budget = Budget(epsilon=0.5, delta=0.0)
    for digest in (DIGEST, "cd" * 32):
        store = _store(tmp_path, digest=digest)
        store.ask([(PureEvent(0.4), 1)], budget)
        _charge(store, run_id=digest, budget=budget)
        with pytest.raises(RefusalError, match=r"0\.4 spent before"):
            store.ask([(PureEvent(0.4), 1)], budget)


@pytest.mark.parametrize(("party", "digest"), [("", DIGEST), ("a", ""), ("a", "../../../../x")])
def test_a_store_needs_an_owner_and_a_digest(tmp_path, party, digest):
    with pytest.raises(ConfigError, match="must be"):
        _store(tmp_path, party=party, digest=digest)


@POSIX
def test_files_and_folders_are_for_their_owner_alone_also_while_a_charge_is_written(tmp_path):
    old = os.umask(0)
    try:
        store = _store(tmp_path / "state")
        _charge(store)
        with store.held() as book:
            book.db.execute("PRAGMA cache_size = 5")  # pages: the others go to the disk, and so does the journal
            book.put("plans", bytes(10**6))
            found = {path: path.stat().st_mode for path in (tmp_path / "state", *(tmp_path / "state").rglob("*"))}
    finally:
        os.umask(old)
    names = {FILE, f"{FILE}-journal", HEAD, "rows.key", "rows.lock"}
    assert {path.name for path, mode in found.items() if stat.S_ISREG(mode)} == names
    assert {stat.S_IMODE(mode) for mode in found.values() if stat.S_ISREG(mode)} == {0o600}
    assert {stat.S_IMODE(mode) for mode in found.values() if stat.S_ISDIR(mode)} == {0o700}


@pytest.mark.parametrize("party", ["../../x", "a/b", "x" * 500, "é", "a\nb"])
def test_a_hostile_name_stays_inside_the_folder(tmp_path, party):
    _charge(_store(tmp_path / "in", party=party), run_id=party)
    _same(_store(tmp_path / "in", party=party).answered(party, 1), _reply(1))
    assert {p.parent.parent.name for p in tmp_path.rglob(FILE)} == {"ledgers"}
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


# ------------------------------------------------------------------------------------------------- replies are kept


def test_the_last_three_rounds_of_each_run_are_kept_and_an_older_request_is_refused_with_a_code(tmp_path):
    store = _store(tmp_path)
    _charge(store, 1, run_id="other", reply=_reply(100))
    for server_round in range(1, 6):
        _charge(store, server_round)
    for server_round in (3, 4, 5):
        _same(store.answered("r1", server_round), _reply(server_round))
    _same(store.answered("other", 1), _reply(100))
    for call in (lambda: store.answered("r1", 2), lambda: _charge(store, 2)):
        with pytest.raises(DataError, match=r"be among the last 3 .*, got round 2 of run r1: charged") as caught:
            call()
        assert caught.value.code is Code.STATE_LOST
    assert len(store.load().entries) == 6
    with store.looked_at() as book:
        kept = book.db.execute("SELECT run, round FROM replies ORDER BY run, round").fetchall()
    assert kept == [('"other"', 1), ('"r1"', 3), ('"r1"', 4), ('"r1"', 5)]


# ---------------------------------------------------------------------------------------------------------- crashes


def _killed(step, work):
    """Do something in a process that is killed at the n-th thing that it does to the disk; return whether it was."""
    child = os.fork()
    if child == 0:
        done = 0

        def count(*_):
            nonlocal done
            done += 1
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)

        real = sqlite3.connect

        def connect(*args, **kwargs):
            count()
            db = real(*args, **kwargs)
            db.set_trace_callback(count)  # before each statement, of a transaction too
            db.set_progress_handler(count, 40)  # and in the middle of them
            return db

        def counted(real, *args, **kwargs):
            count()
            return real(*args, **kwargs)

        sqlite3.connect = connect
        for name in ("replace", "fsync", "open", "mkdir"):
            setattr(os, name, partial(counted, getattr(os, name)))
        with contextlib.suppress(BaseException):
            work()
            os._exit(0)
        os._exit(1)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@POSIX
@pytest.mark.usefixtures("no_power_cut")
@pytest.mark.parametrize("rounds_before", [0, 1, 3])
@pytest.mark.parametrize("retry", ["same reply", "new reply", "next round first"])
def test_a_kill_anywhere_leaves_no_charge_or_one_charge_and_exactly_that_reply(tmp_path, rounds_before, retry):
    this, charged = rounds_before + 1, []
    for server_round in range(1, this):
        _charge(_store(tmp_path / "before"), server_round)
    for step in range(1, 1000):
        root = tmp_path / str(step)
        if rounds_before:
            shutil.copytree(tmp_path / "before", root)
        if not _killed(step, lambda root=root: _charge(_store(root), this, reply=_reply(1000))):
            break
        store = _store(root)
        stored = store.answered("r1", this)
        charged.append(stored is not None)
        assert len(store.load().entries) == rounds_before + charged[-1]
        if stored is not None:
            _same(stored, _reply(1000))
        if retry == "next round first":
            _charge(store, this + 1)
        again = _reply(1000) if retry == "same reply" else _reply(2000)
        final = _charge(_store(root), this, reply=again)
        _same(final, stored if stored is not None else again)
        _same(_store(root).answered("r1", this), final)
        assert [e.server_round for e in _store(root).load().entries].count(this) == 1
        _charge(_store(root), this + 2)
        shutil.rmtree(root)
    # no charge up to one step, a charge from there on
    assert len(charged) >= 20
    assert charged == sorted(charged)
    assert set(charged) == {False, True}


@POSIX
def test_a_process_that_is_killed_at_any_time_has_kept_all_replies_that_it_could_have_sent(tmp_path):
    rng, last = random.Random(1), 0
    for _ in range(12):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            store = _store(tmp_path)
            for server_round in range(last + 1, 10**6):
                _charge(store, server_round)
                os.write(write, b"%d " % server_round)
        os.close(write)
        time.sleep(rng.uniform(0.02, 0.2))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(read, "rb") as pipe:
            sent = max(map(int, pipe.read().split()), default=last)
        entries = _store(tmp_path).load().entries
        assert [entry.server_round for entry in entries] == list(range(1, len(entries) + 1))
        assert sent <= len(entries) <= sent + 1
        last = len(entries)
        if last:
            _same(_store(tmp_path).answered("r1", last), _reply(last))
    assert last


@POSIX
@pytest.mark.parametrize("kilobytes", [0, 4, 12, 24])
def test_a_disk_without_room_leaves_no_charge_and_says_so(tmp_path, kilobytes):
    import resource

    _charge(_store(tmp_path), 1)
    before = (tmp_path / "ledgers" / "a" / FILE).stat().st_size
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (before + 1024 * kilobytes, -1))
        big = StoredReply(arrays={"labels": np.zeros((1, 50_000), dtype=np.int16)})
        try:
            _charge(_store(tmp_path), 2, reply=big)
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert [entry.server_round for entry in _store(tmp_path).load().entries] == [1]
    _same(_charge(_store(tmp_path), 2, reply=_reply(7)), _reply(7))


def test_a_charge_is_on_the_disk_and_then_its_head_before_the_reply_is_returned(tmp_path, monkeypatch):
    _charge(_store(tmp_path))
    calls, real_connect, real_write = [], sqlite3.connect, books.write_sealed

    def connect(*args, **kwargs):
        db = real_connect(*args, **kwargs)
        db.set_trace_callback(calls.append)
        return db

    monkeypatch.setattr(sqlite3, "connect", connect)
    monkeypatch.setattr(books, "write_sealed", lambda *given: (calls.append("head"), real_write(*given)))
    _charge(_store(tmp_path), 2)
    with sqlite3.connect(_store(tmp_path).path) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    wanted = ("PRAGMA synchronous = EXTRA", "BEGIN IMMEDIATE", "INSERT INTO entries", "COMMIT", "head")
    places = [next(i for i, call in enumerate(calls) if call.startswith(word)) for word in wanted]
    assert places == sorted(places)


def test_a_head_that_cannot_be_written_keeps_the_reply_back_and_the_charge_stays(tmp_path, monkeypatch):
    _charge(_store(tmp_path), 1)

    def full(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(books, "write_sealed", full)
        with pytest.raises(OSError, match="no space"):
            _charge(_store(tmp_path), 2)
    _same(_charge(_store(tmp_path), 2, reply=_reply(7)), _reply(2))
    assert len(_store(tmp_path).load().entries) == 2


# ------------------------------------------------------------------------------------- what cannot be believed


def _three(root):
    for server_round in (1, 2, 3):
        _charge(_store(root), server_round)
    return _store(root)


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\x00", b"SQLite format 3\x00" * 100])
@pytest.mark.parametrize("file", [FILE, HEAD])
def test_a_damaged_file_is_refused_and_not_reset(tmp_path, file, damage):
    (_three(tmp_path).directory / file).write_bytes(damage)
    _all_lost(tmp_path, rf"{file} must (be whole|hold the 3 entries)")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_file_that_was_cut_is_refused(tmp_path, share):
    path = _three(tmp_path).path
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    _all_lost(tmp_path, rf"{FILE} must be whole")


def _values(root):
    """Return all that can be read of a ledger, replies and plans too."""
    store = _store(root)
    replies = [store.answered(run, number).to_bytes() for run in ("r1", "r2") for number in (1, 2)]
    with store.looked_at() as book:
        return book.entries(), book.parts, replies


def test_one_changed_byte_anywhere_is_refused_or_changes_no_value(tmp_path):
    store = _store(tmp_path)
    for run in ("r1", "r2"):
        store.ask([(PureEvent(0.1), 1)], Budget(epsilon=50.0), run_id=run, rounds=9)
        for server_round in (1, 2):
            _charge(store, server_round, run_id=run)
    right, rng, refused = _values(tmp_path), random.Random(1), 0
    for path in (store.path, store.directory / HEAD, store.key_path):
        data = path.read_bytes()
        written = [place for place in range(len(data)) if data[place]]  # unused parts of pages are zeros
        for place in [*rng.sample(written, min(200, len(written))), *rng.sample(range(len(data)), 50)]:
            path.write_bytes(data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :])
            try:
                assert _values(tmp_path) == right
            except DataError as error:
                refused += error.code is Code.LEDGER_LOST
        path.write_bytes(data)
    assert refused > 300
    assert _values(tmp_path) == right


def test_another_party_s_ledger_is_refused(tmp_path):
    other, own = _store(tmp_path / "o", party="b"), _store(tmp_path)
    _charge(other)
    shutil.copytree(other.directory, own.directory)
    _all_lost(tmp_path, "must belong to party a, got party b")


def test_a_clock_that_was_once_far_ahead_locks_nothing_and_is_said_once(tmp_path, monkeypatch, caplog):
    with monkeypatch.context() as patch:
        patch.setattr(ledger_store, "_now", lambda: datetime.now(UTC) + timedelta(days=20_000))
        _charge(_store(tmp_path))
    with caplog.at_level(logging.WARNING):
        _charge(_store(tmp_path), 2)
        _same(_store(tmp_path).answered("r1", 1), _reply(1))
    assert len(caplog.messages) == 1
    assert "its last entry is dated in the future" in caplog.messages[0]
    assert _store(tmp_path).load().spent(0.0) == pytest.approx(0.8)


def _edited(path, *statements):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


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
        "DROP TABLE entries",
    ],
)
def test_a_ledger_that_was_changed_is_refused(tmp_path, statement):
    _edited(_three(tmp_path).path, statement)
    _all_lost(tmp_path, f"{FILE} must be whole")


def test_a_ledger_that_was_written_again_unchanged_is_read_so_that_the_changes_above_are_the_reason(tmp_path):
    _edited(_three(tmp_path).path, "UPDATE entries SET said = said", "VACUUM")
    assert len(_store(tmp_path).load().entries) == 3


def test_an_older_copy_of_the_ledger_alone_is_refused(tmp_path):
    store = _store(tmp_path)
    _charge(store, 1)
    old = store.path.read_bytes()
    _charge(store, 2)
    store.path.write_bytes(old)
    message = rf"hold the 2 entries that {HEAD} counts, got 1 entries: an older copy.*Restore the newest backup"
    _all_lost(tmp_path, message)


@pytest.mark.parametrize("older", ["file and head", "whole folder", "journal", "removed", "removed file and head"])
def test_an_older_ledger_beside_a_newer_egress_log_is_refused(tmp_path, older):
    """The log names the last reply that was charged: an older copy without it would answer that request once more."""
    store, log = _store(tmp_path), EgressLog(tmp_path, party="a")

    def charged(server_round):
        reply = _charge(store, server_round)
        return {"round": server_round, "claim": {"unit": "record"}, "left": True, "output": output_of(reply)}

    log.append(charged(1))
    assert len(_store(tmp_path).load().entries) == 1
    shutil.copytree(store.directory, tmp_path / "old")
    log.append(charged(2))
    for number in range(3):  # what came after it has no claim
        log.append({"round": number, "claim": None, "left": False, "output": None, "code": "busy"})
    assert len(_store(tmp_path).load().entries) == 2
    if older == "journal":  # an old one, which SQLite takes back what was written with
        with store.held() as book:
            book.db.execute("PRAGMA cache_size = 5")
            book.put("plans", bytes(10**6))
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
    _lost(_store(tmp_path).load, message)  # which also lets SQLite take back what that journal says
    _all_lost(tmp_path, message)


def test_a_ledger_with_another_history_than_its_head_is_refused(tmp_path):
    store, other = _three(tmp_path), _store(tmp_path / "o")
    for server_round in (1, 2, 3):
        _charge(other, server_round, epsilon=0.1)
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
    (_three(tmp_path).directory / gone).unlink()
    _all_lost(tmp_path, message)


def test_a_removed_folder_is_a_deliberate_new_start(tmp_path):
    store = _three(tmp_path)
    shutil.rmtree(store.directory)
    assert store.load().entries == ()


@POSIX
def test_a_link_to_a_disk_that_is_not_there_is_no_new_ledger(tmp_path):
    directory = _three(tmp_path).directory
    for name in (FILE, HEAD):
        (directory / name).unlink()
        (directory / name).symlink_to(tmp_path / "unmounted" / name)
    _lost(_store(tmp_path).load, "must be (readable|whole)")


@pytest.mark.parametrize("damage", ["DELETE FROM replies", "UPDATE replies SET data = zeroblob(length(data))"])
def test_a_lost_reply_is_refused_and_the_charge_stays(tmp_path, damage):
    store = _three(tmp_path)
    _edited(store.path, damage)
    message = r"must hold the reply charged for round 3 of run r1, got none, or other bytes\. The charge stays"
    _lost(lambda: store.answered("r1", 3), message)
    _lost(lambda: _charge(store, 3, reply=_reply(3)), message)
    assert len(store.load().entries) == 3
    _charge(store, 4)
    assert len(store.load().entries) == 4


# ------------------------------------------------------------------------------------------------- at the same time

RACER = """
import sys, time
from pathlib import Path
import numpy as np
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.ledger.entry import plain_events
from fedkd_flwr.stores.party_state import StoredReply
# each request has a run of its own: of one run only the last three replies are kept
root, number = Path(sys.argv[1]), int(sys.argv[2])
plain_events([(PureEvent(0.4), 1)])
(root / f"ready-{number}").touch()
while len(list(root.glob("ready-*"))) < 2:
    time.sleep(0.001)
store = LedgerStore(root, party="a", data_digest="ab" * 32)
for server_round in range(1, 21):
    reply = StoredReply(arrays={"labels": np.array([number, server_round])})
    got = store.charge(
        run_id=f"r{server_round}", server_round=server_round,
        algorithm="fedct", mechanism="m", unit="record", adversary="server",
        neighbouring_relation="replace one record", events=[(PureEvent(0.4), 1)], reply=reply, budget=Budget(),
    )
    print(*got.arrays["labels"])
"""


@POSIX
def test_two_processes_that_answer_the_same_requests_charge_once_and_say_the_same(tmp_path):
    command = [sys.executable, "-c", RACER, str(tmp_path)]
    racers = [
        subprocess.Popen([*command, str(number)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in (1, 2)
    ]
    (first, error1), (second, error2) = (racer.communicate(timeout=60) for racer in racers)
    assert (error1, error2) == ("", "")
    assert first == second
    assert [int(line.split()[1]) for line in first.splitlines()] == list(range(1, 21))
    assert {line.split()[0] for line in first.splitlines()} <= {"1", "2"}
    assert [e.server_round for e in _store(tmp_path).load().entries] == list(range(1, 21))


@POSIX
def test_threads_of_one_process_charge_once_and_readers_never_see_half_a_charge(tmp_path):
    got, errors = [], []

    def work(number):
        try:
            for server_round in range(1, 11):
                reply = _charge(_store(tmp_path), run_id=f"r{server_round}", reply=_reply(number))
                got.append((server_round, reply.to_bytes()))
                _store(tmp_path).load()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(got) == 40
    assert len(set(got)) == 10
    assert len(_store(tmp_path).load().entries) == 10


def test_a_ledger_that_another_process_holds_for_ever_is_an_error_in_time_and_can_be_read(tmp_path):
    store = _three(tmp_path)
    message = r"ledger .* must be free within 0\.05 s, got held by another"
    with store.held():
        with pytest.raises(DataError, match=message) as caught:
            _charge(_store(tmp_path, lock_timeout_s=0.05), 4)
        assert caught.value.code is Code.INTERNAL
        assert len(_store(tmp_path, lock_timeout_s=0.05).load().entries) == 3
    _charge(_store(tmp_path, lock_timeout_s=0.05), 4)


def test_all_rounds_that_a_run_has_begun_for_are_kept_for_it(tmp_path):
    from fedkd_flwr.privacy.cost.events import PureEvent

    store, events = LedgerStore(tmp_path, party="a", data_digest="ab" * 16), [(PureEvent(1.0), 1)]
    budget = Budget(epsilon=4.2, delta=0.0)
    store.ask(events, budget, run_id="1", rounds=3)
    with pytest.raises(RefusalError, match="beside rounds kept for runs that have begun"):
        store.ask(events, budget, run_id="2", rounds=2)
    store.ask(events, budget, run_id="3", rounds=1)


def test_what_is_kept_for_a_run_shrinks_with_each_charge_and_ends_with_the_run(tmp_path):
    store, events = _store(tmp_path), [(PureEvent(1.0), 1)]

    def fits(run_id, epsilon, rounds=1, **more):
        try:
            store.ask(events, Budget(epsilon=epsilon, delta=0.0), run_id=run_id, rounds=rounds, **more)
        except RefusalError:
            return False
        store.end_plan(run_id)  # only asked
        return True

    budget = Budget(epsilon=9.0, delta=0.0)
    store.ask(events, budget, run_id="1", rounds=3)
    assert [fits("2", epsilon) for epsilon in (3.9, 4.0)] == [False, True]  # 3 kept, 1 asked
    assert [fits("2", epsilon, rounds=2) for epsilon in (4.9, 5.0)] == [False, True]
    assert [fits("2", epsilon, continues={"1"}) for epsilon in (0.9, 1.0)] == [False, True]
    _charge(store, 1, run_id="1", epsilon=1.0)
    assert [fits("2", epsilon) for epsilon in (3.9, 4.0)] == [False, True]  # 1 spent, 2 kept, 1 asked
    store.ask(events, budget, run_id="3", rounds=4)
    # a run that has begun asks for its round alone, whatever is kept for others: its plan was there first
    with pytest.raises(RefusalError, match=r"cover what is asked: epsilon <= 1\.9"):
        store.ask(events, Budget(epsilon=1.9, delta=0.0), run_id="1", rounds=2)
    store.ask(events, Budget(epsilon=2.0, delta=0.0), run_id="1", rounds=2)
    store.end_plan("3")
    store.end_plan("1")
    assert [fits("2", epsilon) for epsilon in (1.9, 2.0)] == [False, True]


def test_nothing_is_kept_for_a_run_where_no_budget_can_be_spent_first(tmp_path):
    store = _store(tmp_path)
    store.ask([(PureEvent(1.0), 1)], Budget(), run_id="1", rounds=3)
    store.end_plan("1")
    assert not list(tmp_path.iterdir())


def test_a_store_that_has_read_its_ledger_sees_what_another_process_charges_and_what_is_damaged_since(tmp_path):
    mine, other = _store(tmp_path), _store(tmp_path)
    _charge(mine, 1)
    _charge(other, 2)
    assert [entry.server_round for entry in mine.load().entries] == [1, 2]
    _edited(mine.path, "UPDATE entries SET said = replace(said, '[\"r1\",2', '[\"r1\",3')")
    with pytest.raises(DataError, match="must be whole"):
        mine.load()


def test_an_entry_of_a_hundred_thousand_is_written_alone(tmp_path):
    """A charge changes what it is about: the file's other pages stay as they are."""
    store = _store(tmp_path)
    _charge(store, 1)
    first = store.load().entries[0]
    with store.held() as book:
        for number in range(2000):
            book.add(first.__class__(**{**vars(first), "run_id": f"run {number}"}), None, kept=3)
    before = store.path.read_bytes()
    _charge(store, 2)
    after = store.path.read_bytes()
    pages = [slice(at, at + 4096) for at in range(0, len(after), 4096)]
    assert len(pages) > 50
    assert sum(before[page] != after[page] for page in pages) < 10
