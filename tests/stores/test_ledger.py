"""A ledger on a disk: one charge and one reply for each request, whatever crashes, repeats, races or is put back."""

import contextlib
import errno
import json
import os
import random
import shutil
import signal
import sqlite3
import stat
import time
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pytest
from ledgers import DIGEST, charge, edited, make_reply, make_store, refused_as_lost, same, three

from fedkd_flwr.errors import Code, DataError, RefusalError
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.stores import book as books
from fedkd_flwr.stores.book import FILE, HEAD
from fedkd_flwr.stores.party_state import StoredReply

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX only")


# -------------------------------------------------------------------------------------------------------- charging


def test_a_first_look_finds_nothing_and_writes_nothing(tmp_path):
    store = make_store(tmp_path)
    assert store.load().entries == ()
    assert store.answered("r1", 1) is None
    store.ask([(PureEvent(1.0), 1)], Budget(epsilon=2.0))
    assert not list(tmp_path.iterdir())


def test_a_repeated_request_gets_the_same_bytes_and_is_charged_once_also_after_a_restart(tmp_path):
    first = charge(make_store(tmp_path), reply=make_reply(1))
    same(first, make_reply(1))
    restarted = make_store(tmp_path)
    same(restarted.answered("r1", 1), first)
    same(charge(restarted, reply=make_reply(2), epsilon=99.0, budget=Budget(epsilon=0.1)), first)  # and is not covered
    assert len(restarted.load().entries) == 1
    assert restarted.load().spent(0.0) == pytest.approx(0.4)


def test_an_entry_says_what_was_released_and_when(tmp_path):
    before = datetime.now(UTC).replace(microsecond=0)
    charge(make_store(tmp_path), 3, run_id="run 7")
    entry = make_store(tmp_path).load().entries[0]
    assert (entry.run_id, entry.server_round, entry.algorithm) == ("run 7", 3, "fedct")
    assert entry.events == (({"kind": "pure", "epsilon": 0.4}, 1),)
    assert before <= datetime.fromisoformat(entry.when) <= datetime.now(UTC)


def test_a_budget_of_one_refuses_the_third_round_and_neither_restart_nor_new_run_changes_that(tmp_path):
    budget = Budget(epsilon=1.0, delta=0.0)
    for server_round in (1, 2):
        charge(make_store(tmp_path), server_round, budget=budget)
    numbers = r"epsilon <= 1 at delta 0, got epsilon 0\.8 spent before, 0\.4 asked, 1\.2 together"
    for call in (
        lambda: make_store(tmp_path).ask([(PureEvent(0.4), 1)], budget),
        lambda: charge(make_store(tmp_path), 3, budget=budget),
        lambda: charge(make_store(tmp_path), 1, run_id="r2", budget=budget),
    ):
        with pytest.raises(RefusalError, match=numbers) as caught:
            call()
        assert caught.value.code is Code.BUDGET_EXCEEDED
    assert len(make_store(tmp_path).load().entries) == 2
    same(make_store(tmp_path).answered("r1", 2), make_reply(2))


def test_data_sets_whose_rows_nobody_told_are_counted_one_by_one(tmp_path):
    budget = Budget(epsilon=0.5, delta=0.0)
    for digest in (DIGEST, "cd" * 32):
        store = make_store(tmp_path, digest=digest)
        store.ask([(PureEvent(0.4), 1)], budget)
        charge(store, run_id=digest, budget=budget)
        with pytest.raises(RefusalError, match=r"0\.4 spent before"):
            store.ask([(PureEvent(0.4), 1)], budget)


@POSIX
def test_files_and_folders_are_for_their_owner_alone_also_while_a_charge_is_written(tmp_path):
    old = os.umask(0)
    try:
        store = make_store(tmp_path / "state")
        charge(store)
        with store.held() as book:
            book.db.execute("PRAGMA cache_size = 5")  # pages: the others go to the disk, and so does the journal
            book.put("draw", bytes(10**6))
            found = {path: path.stat().st_mode for path in (tmp_path / "state", *(tmp_path / "state").rglob("*"))}
    finally:
        os.umask(old)
    names = {FILE, f"{FILE}-journal", HEAD, "rows.key", "rows.lock"}
    assert {path.name for path, mode in found.items() if stat.S_ISREG(mode)} == names
    assert {stat.S_IMODE(mode) for mode in found.values() if stat.S_ISREG(mode)} == {0o600}
    assert {stat.S_IMODE(mode) for mode in found.values() if stat.S_ISDIR(mode)} == {0o700}


# ------------------------------------------------------------------------------------------------- replies are kept


def test_the_last_three_rounds_of_each_run_are_kept_and_an_older_request_is_refused_with_a_code(tmp_path):
    store = make_store(tmp_path)
    charge(store, 1, run_id="other", reply=make_reply(100))
    for server_round in range(1, 6):
        charge(store, server_round)
        store.note_no_noise(run_id="r1", algorithm="fedct")
    for server_round in (3, 4, 5):
        same(store.answered("r1", server_round), make_reply(server_round))
    same(store.answered("other", 1), make_reply(100))
    for call in (lambda: store.answered("r1", 2), lambda: charge(store, 2)):
        with pytest.raises(DataError, match=r"be among the last 3 .*, got round 2 of run r1: charged") as caught:
            call()
        assert caught.value.code is Code.STATE_LOST
    assert len(store.load().entries) == 7
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
@pytest.mark.parametrize("rounds_before", [0, 3])
def test_a_kill_anywhere_leaves_no_charge_or_one_charge_and_exactly_that_reply(tmp_path, rounds_before):
    this, charged = rounds_before + 1, []
    for server_round in range(1, this):
        charge(make_store(tmp_path / "before"), server_round)
    for step in range(1, 1000):
        root = tmp_path / str(step)
        if rounds_before:
            shutil.copytree(tmp_path / "before", root)
        if not _killed(step, lambda root=root: charge(make_store(root), this, reply=make_reply(1000))):
            break
        store = make_store(root)
        stored = store.answered("r1", this)
        charged.append(stored is not None)
        assert len(store.load().entries) == rounds_before + charged[-1]
        if stored is not None:
            same(stored, make_reply(1000))
        if step % 2:
            charge(store, this + 1)
        again = make_reply(2000 if step % 3 else 1000)
        final = charge(make_store(root), this, reply=again)
        same(final, stored if stored is not None else again)
        same(make_store(root).answered("r1", this), final)
        assert [e.server_round for e in make_store(root).load().entries].count(this) == 1
        charge(make_store(root), this + 2)
        shutil.rmtree(root)
    # no charge up to one step, a charge from there on
    assert len(charged) >= 20
    assert charged == sorted(charged)
    assert set(charged) == {False, True}


@POSIX
@pytest.mark.usefixtures("as_on_a_disk")
def test_a_process_that_is_killed_at_any_time_has_kept_all_replies_that_it_could_have_sent(tmp_path):
    rng, last = random.Random(1), 0
    for _ in range(5):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            store = make_store(tmp_path)
            for server_round in range(last + 1, 10**6):
                charge(store, server_round)
                os.write(write, b"%d " % server_round)
        os.close(write)
        first = os.read(read, 1)  # it has answered once
        time.sleep(rng.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(read, "rb") as pipe:
            sent = max(map(int, (first + pipe.read()).split()), default=last)
        entries = make_store(tmp_path).load().entries
        assert [entry.server_round for entry in entries] == list(range(1, len(entries) + 1))
        assert sent <= len(entries) <= sent + 1
        last = len(entries)
        if last:
            same(make_store(tmp_path).answered("r1", last), make_reply(last))
    assert last


@POSIX
@pytest.mark.parametrize("kilobytes", [0, 12])
def test_a_disk_without_room_leaves_no_charge_and_says_so(tmp_path, kilobytes):
    import resource

    charge(make_store(tmp_path), 1)
    before = (tmp_path / "ledgers" / "a" / FILE).stat().st_size
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (before + 1024 * kilobytes, -1))
        big = StoredReply(arrays={"labels": np.zeros((1, 50_000), dtype=np.int16)})
        try:
            charge(make_store(tmp_path), 2, reply=big)
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert [entry.server_round for entry in make_store(tmp_path).load().entries] == [1]
    same(charge(make_store(tmp_path), 2, reply=make_reply(7)), make_reply(7))


@pytest.mark.usefixtures("as_on_a_disk")
def test_a_charge_is_on_the_disk_and_then_its_head_before_the_reply_is_returned(tmp_path, monkeypatch):
    charge(make_store(tmp_path))
    calls, real_connect, real_write = [], sqlite3.connect, books.write_sealed

    def connect(*args, **kwargs):
        db = real_connect(*args, **kwargs)
        db.set_trace_callback(calls.append)
        return db

    monkeypatch.setattr(sqlite3, "connect", connect)
    monkeypatch.setattr(books, "write_sealed", lambda *given: (calls.append("head"), real_write(*given)))
    charge(make_store(tmp_path), 2)
    with sqlite3.connect(make_store(tmp_path).path) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    wanted = ("PRAGMA synchronous = EXTRA", "BEGIN IMMEDIATE", "INSERT INTO entries", "COMMIT", "head")
    places = [next(i for i, call in enumerate(calls) if call.startswith(word)) for word in wanted]
    assert places == sorted(places)


def test_a_head_that_cannot_be_written_keeps_the_reply_back_and_the_charge_stays(tmp_path, monkeypatch):
    charge(make_store(tmp_path), 1)

    def full(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(books, "write_sealed", full)
        with pytest.raises(OSError, match="no space"):
            charge(make_store(tmp_path), 2)
    same(charge(make_store(tmp_path), 2, reply=make_reply(7)), make_reply(2))
    assert len(make_store(tmp_path).load().entries) == 2


# ------------------------------------------------------------------------------------- what cannot be believed


def test_a_removed_folder_is_a_deliberate_new_start(tmp_path):
    store = three(tmp_path)
    shutil.rmtree(store.directory)
    assert store.load().entries == ()


ANOTHER = "UPDATE replies SET data = (SELECT data FROM replies WHERE round = 2) WHERE round = 3"


@pytest.mark.parametrize("damage", ["DELETE FROM replies", "UPDATE replies SET data = zeroblob(length(data))", ANOTHER])
def test_a_lost_reply_is_refused_and_the_charge_stays(tmp_path, damage):
    store = three(tmp_path)
    edited(store.path, damage)
    message = r"must hold the reply charged for round 3 of run r1, got none, or other bytes\. The charge stays"
    refused_as_lost(lambda: store.answered("r1", 3), message)
    refused_as_lost(lambda: charge(store, 3, reply=make_reply(3)), message)
    assert len(store.load().entries) == 3
    charge(store, 4)
    assert len(store.load().entries) == 4


# ------------------------------------------------------------------------------------------------- at the same time


def _racer(root, number):
    """Answer twenty requests in another process; return its number."""
    if child := os.fork():
        return child
    signal.alarm(60)
    with contextlib.suppress(BaseException):
        (root / f"ready-{number}").touch()
        while len(list(root.glob("ready-*"))) < 2:
            time.sleep(0.001)
        store, said = make_store(root), []
        for server_round in range(1, 21):  # each has a run of its own: of one run only the last three replies are kept
            reply = StoredReply(arrays={"labels": np.array([number, server_round])})
            got = charge(store, server_round, run_id=f"r{server_round}", reply=reply)
            said.append(got.arrays["labels"].tolist())
        (root / f"said-{number}").write_text(json.dumps(said))
    os._exit(0)


@POSIX
def test_two_processes_that_answer_the_same_requests_charge_once_and_say_the_same(tmp_path):
    for racer in [_racer(tmp_path, number) for number in (1, 2)]:
        os.waitpid(racer, 0)
    first, second = (json.loads((tmp_path / f"said-{number}").read_text()) for number in (1, 2))
    assert first == second
    assert [server_round for _, server_round in first] == list(range(1, 21))
    assert [e.server_round for e in make_store(tmp_path).load().entries] == list(range(1, 21))


def test_a_ledger_that_another_process_holds_for_ever_is_an_error_in_time_and_can_be_read(tmp_path):
    store = three(tmp_path)
    message = r"ledger .* must be free within 0\.05 s, got held by another"
    with store.held():
        with pytest.raises(DataError, match=message) as caught:
            charge(make_store(tmp_path, lock_timeout_s=0.05), 4)
        assert caught.value.code is Code.INTERNAL
        assert len(make_store(tmp_path, lock_timeout_s=0.05).load().entries) == 3
    charge(make_store(tmp_path, lock_timeout_s=0.05), 4)


def test_a_first_visit_asks_for_all_rounds_and_a_later_one_for_its_own_and_neither_writes(tmp_path):
    store, events = make_store(tmp_path), [(PureEvent(1.0), 1)]

    def ask(epsilon, run_id="1"):
        store.ask(events, Budget(epsilon=epsilon, delta=0.0), run_id=run_id, rounds=3)

    with pytest.raises(RefusalError, match=r"cover the 3 rounds of this run: epsilon <= 2\.9"):
        ask(2.9)
    ask(3.0)
    assert not list(tmp_path.iterdir())
    charge(store, 1, run_id="1", epsilon=1.0)
    with pytest.raises(RefusalError, match=r"cover what is asked: epsilon <= 1\.9"):
        ask(1.9)
    ask(2.0)
    with pytest.raises(RefusalError, match="the 3 rounds of this run"):
        ask(3.9, run_id="2")
    ask(4.0, run_id="2")


def test_a_store_that_has_read_its_ledger_sees_what_another_process_charges_and_what_is_damaged_since(tmp_path):
    mine, other = make_store(tmp_path), make_store(tmp_path)
    charge(mine, 1)
    charge(other, 2)
    assert [entry.server_round for entry in mine.load().entries] == [1, 2]
    edited(mine.path, "UPDATE entries SET said = replace(said, '[\"r1\",2', '[\"r1\",3')")
    with pytest.raises(DataError, match="must be whole"):
        mine.load()
