"""A ledger on a disk: one charge and one reply for each request, whatever crashes, repeats, races or is put back."""

from __future__ import annotations

import logging
import math
import os
import shutil
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from fedkd_flwr.errors import Code, ConfigError, DataError, RefusalError
from fedkd_flwr.privacy.cost.accountant import PureEvent
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.stores import files
from fedkd_flwr.stores import ledger as ledger_store
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
    before = {p: p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name != "lock"}
    store = _store(root)
    _lost(store.load, message)
    _lost(lambda: store.answered("r1", 1), message)
    _lost(lambda: store.ask([(PureEvent(0.1), 1)], Budget()), message)
    _lost(lambda: _charge(store, 9), message)
    assert {p: p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name != "lock"} == before


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
def test_files_are_for_their_owner_alone(tmp_path):
    _charge(_store(tmp_path))
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    (table,) = (p.name for p in files if p.suffix == ".table")
    names = {"ledger.json", "head.json", "r1-1.npz", "lock", "rows.key", "rows.lock", table}
    assert {p.name for p in files} == names
    assert {stat.S_IMODE(p.stat().st_mode) for p in files} == {0o600}


@pytest.mark.parametrize("party", ["../../x", "a/b", "x" * 500, "é", "a\nb"])
def test_a_hostile_name_stays_inside_the_folder(tmp_path, party):
    _charge(_store(tmp_path / "in", party=party), run_id=party)
    _same(_store(tmp_path / "in", party=party).answered(party, 1), _reply(1))
    assert {p.parent.parent.name for p in tmp_path.rglob("ledger.json")} == {"ledgers"}
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
    assert sorted(p.name for p in store.replies.iterdir()) == ["other-1.npz", "r1-3.npz", "r1-4.npz", "r1-5.npz"]


# ---------------------------------------------------------------------------------------------------------- crashes


class _PowerCut(BaseException):
    """Nothing catches it, and nothing cleans up after it."""


def _cut_at(monkeypatch, step):
    """Let the power fail at the n-th thing that touches the disk; return how many there were."""
    done = [0]

    def wrap(real):
        def call(*args, **kwargs):
            done[0] += 1
            if done[0] == step:
                raise _PowerCut
            if done[0] > step:
                raise FileNotFoundError  # a dead process removes no temporary file
            return real(*args, **kwargs)

        return call

    for name in ("replace", "fsync", "unlink", "mkdir", "fdopen"):
        monkeypatch.setattr(os, name, wrap(getattr(os, name)))
    return done


def _steps(tmp_path, monkeypatch, rounds_before):
    root = tmp_path / "count"
    for server_round in range(1, rounds_before + 1):
        _charge(_store(root), server_round)
    with monkeypatch.context() as patch:
        done = _cut_at(patch, 10**9)
        _charge(_store(root), rounds_before + 1)
    return done[0]


@pytest.mark.parametrize("rounds_before", [0, 1, 3])
@pytest.mark.parametrize("retry", ["same reply", "new reply", "next round first"])
def test_a_crash_anywhere_leaves_no_charge_or_one_charge_and_exactly_that_reply(
    tmp_path, monkeypatch, rounds_before, retry
):
    this, steps, charged = rounds_before + 1, _steps(tmp_path, monkeypatch, rounds_before), []
    assert steps >= 12
    for step in range(1, steps + 1):
        root = tmp_path / str(step)
        for server_round in range(1, rounds_before + 1):
            _charge(_store(root), server_round)
        with monkeypatch.context() as patch:
            _cut_at(patch, step)
            with pytest.raises(_PowerCut):
                _charge(_store(root), this, reply=_reply(1000))
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
        assert not list(store.replies.glob("*.pending"))
    # no charge up to one step, a charge from there on
    assert charged == sorted(charged)
    assert set(charged) == {False, True}


@pytest.mark.parametrize("call", [1, 2, 3, 4, 5, 6, 7])
def test_a_disk_that_fails_at_any_write_leaves_no_charge_or_one_and_its_reply(tmp_path, monkeypatch, call):
    store, calls, real = _store(tmp_path), [], ledger_store.write_atomic

    def failing(path, data):
        calls.append(Path(path).name)
        if len(calls) == call:
            raise OSError("no space left on device")
        return real(path, data)

    monkeypatch.setattr(ledger_store, "write_atomic", failing)
    with pytest.raises(OSError, match="no space"):
        _charge(store)
    monkeypatch.undo()
    table = next((name for name in calls if name.endswith(".table")), "")
    order = ["rows.key", "ledger.json", "head.json", table, "r1-1.npz.pending", "ledger.json", "head.json"]
    assert calls == order[:call]
    assert len(store.load().entries) == (1 if call == 7 else 0)
    _same(_charge(store, reply=_reply(7)), _reply(1 if call == 7 else 7))
    assert len(store.load().entries) == 1


def test_the_reply_lasts_before_the_charge_and_the_charge_before_the_reply_is_returned(tmp_path, monkeypatch):
    _charge(_store(tmp_path))
    order, real = [], ledger_store.write_atomic
    monkeypatch.setattr(
        ledger_store, "write_atomic", lambda path, data: (order.append(Path(path).name), real(path, data))
    )
    _charge(_store(tmp_path), 2)
    assert order == ["r1-2.npz.pending", "ledger.json", "head.json"]


# ------------------------------------------------------------------------------------- what cannot be believed


def _three(root):
    for server_round in (1, 2, 3):
        _charge(_store(root), server_round)
    return _store(root)


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\x00", b'{"version": 99}'])
@pytest.mark.parametrize("file", ["ledger.json", "head.json"])
def test_a_damaged_file_is_refused_and_not_reset(tmp_path, file, damage):
    (_three(tmp_path).directory / file).write_bytes(damage)
    _all_lost(tmp_path, rf"{file} must be (whole|of version <= 2)")


def test_another_party_s_ledger_is_refused(tmp_path):
    other, own = _store(tmp_path / "o", party="b"), _store(tmp_path)
    _charge(other)
    shutil.copytree(other.directory, own.directory)
    _all_lost(tmp_path, r"ledger\.json must belong to party a, got party b")


def test_a_clock_that_was_once_far_ahead_locks_nothing_and_is_said_once(tmp_path, monkeypatch, caplog):
    with monkeypatch.context() as patch:
        patch.setattr(ledger_store, "_now", lambda: datetime.now(UTC) + timedelta(days=20_000))
        _charge(_store(tmp_path))
    with caplog.at_level(logging.WARNING):
        _charge(_store(tmp_path), 2)
        _same(_store(tmp_path).answered("r1", 1), _reply(1))
    assert len(caplog.messages) == 1
    assert "1 entries are dated in the future" in caplog.messages[0]
    assert _store(tmp_path).load().spent(0.0) == pytest.approx(0.8)


def test_a_changed_date_is_noticed_whatever_the_clock_says(tmp_path):
    store = _three(tmp_path)
    date = store.load().entries[1].when
    store.path.write_text(store.path.read_text().replace(date, "2020-01-01T00:00:00+00:00"))
    _all_lost(tmp_path, "be an unbroken chain, got another link at entry 1 of 3")


def test_an_older_copy_of_the_ledger_alone_is_refused(tmp_path):
    store = _store(tmp_path)
    _charge(store, 1)
    old = store.path.read_bytes()
    _charge(store, 2)
    store.path.write_bytes(old)
    _all_lost(tmp_path, r"hold the 2 entries its head counts, got 1 entries: an older copy.*Restore the newest backup")


def test_an_older_copy_of_ledger_and_head_is_noticed_by_the_replies(tmp_path):
    store = _store(tmp_path)
    _charge(store, 1)
    old = store.path.read_bytes(), store.head_path.read_bytes()
    _charge(store, 2)
    store.path.write_bytes(old[0])
    store.head_path.write_bytes(old[1])
    _all_lost(tmp_path, r"hold an entry for every reply in replies, got none for r1-2\.npz: an older copy")


def test_a_ledger_with_another_history_than_its_head_is_refused(tmp_path):
    store, other = _three(tmp_path), _store(tmp_path / "o")
    for server_round in (1, 2, 3):
        _charge(other, server_round, epsilon=0.1)
    shutil.copy(other.path, store.path)
    _all_lost(tmp_path, r"agree with its head after 3 entries")


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        (["ledger.json"], r"ledger\.json must be there, got no such file, and a head, replies or rows"),
        (["ledger.json", "head.json"], r"ledger\.json must be there"),
        (["ledger.json", "replies"], r"ledger\.json must be there"),
        (["ledger.json", "head.json", "replies"], r"ledger\.json must be there"),
        (["head.json"], r"head\.json must be there, got no such file, and a ledger with charges"),
        (["head.json", "replies"], r"head\.json must be there"),
    ],
)
def test_a_missing_file_is_refused_where_others_remain(tmp_path, gone, message):
    directory = _three(tmp_path).directory
    for name in gone:
        shutil.rmtree(directory / name) if name == "replies" else (directory / name).unlink()
    _all_lost(tmp_path, message)


def test_a_removed_folder_is_a_deliberate_new_start(tmp_path):
    store = _three(tmp_path)
    shutil.rmtree(store.directory)
    assert store.load().entries == ()


@POSIX
def test_a_link_to_a_disk_that_is_not_there_is_no_new_ledger(tmp_path):
    directory = _three(tmp_path).directory
    for name in ("ledger.json", "head.json"):
        (directory / name).unlink()
        (directory / name).symlink_to(tmp_path / "unmounted" / name)
    shutil.rmtree(directory / "replies")
    _lost(_store(tmp_path).load, r"ledger\.json must be readable")


@pytest.mark.parametrize("damage", ["gone", "other", "cut"])
def test_a_lost_reply_is_refused_and_the_charge_stays(tmp_path, damage):
    store = _three(tmp_path)
    path = store.replies / "r1-3.npz"
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(_reply(9).to_bytes() if damage == "other" else path.read_bytes()[:-1])
    seen = "no such file" if damage == "gone" else "other bytes"
    message = rf"r1-3\.npz must hold the reply charged for round 3 of run r1, got {seen}\. The charge stays"
    _lost(lambda: store.answered("r1", 3), message)
    _lost(lambda: _charge(store, 3, reply=_reply(3)), message)
    assert len(store.load().entries) == 3
    _charge(store, 4)
    assert len(store.load().entries) == 4


def test_files_that_are_no_replies_do_not_disturb(tmp_path):
    store = _three(tmp_path)
    (store.replies / "notes.txt").write_bytes(b"the owner's own")
    (store.directory / ".hidden").write_bytes(b"the owner's own")
    assert len(store.load().entries) == 3
    assert (store.directory / ".hidden").exists()


@POSIX
def test_what_a_killed_process_left_half_written_is_gone_at_the_next_look(tmp_path):
    store = _three(tmp_path)
    for left in (store.replies / ".r1-9.npz.pending.x1.part", store.directory / ".ledger.json.abc.part"):
        left.write_bytes(b"left by a crash")
    _store(tmp_path).load()
    assert not list(store.directory.rglob("*.part"))


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


@POSIX
def test_a_lock_that_is_never_freed_is_an_error_in_time(tmp_path):
    store = _three(tmp_path)
    with (
        files.locked(store.directory / "lock", timeout_s=1.0),
        pytest.raises(DataError, match=r"lock .* must be free within 0\.05 s, got held by another"),
    ):
        _store(tmp_path, lock_timeout_s=0.05).load()
    assert len(_store(tmp_path, lock_timeout_s=0.05).load().entries) == 3


def test_a_system_without_locks_says_so_and_still_charges(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(files, "fcntl", None)
    files._warn_unlocked.cache_clear()
    with caplog.at_level(logging.WARNING):
        _charge(_store(tmp_path), 1)
        _charge(_store(tmp_path), 2)
    assert caplog.messages == ["This system locks no files: run one process per party, or a charge may be lost."]
    _same(_store(tmp_path).answered("r1", 1), _reply(1))


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
    written = mine.path.read_bytes()
    mine.path.write_bytes(written.replace(b'"server_round": 2', b'"server_round": 3'))
    with pytest.raises(DataError, match="be an unbroken chain, got another link at entry 2 of 2"):
        mine.load()
    mine.path.write_bytes(written)
    assert mine.load() == other.load()
