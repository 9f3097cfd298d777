"""Whatever ends a run, its record says how, in which round, and what may have left the parties."""

import errno
import logging
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from federation import fedct_grid, handler, parties, public_set
from flwr.supercore.run import RunNotRunningException
from pages import check_safe_and_alone
from rounds import make

from fedkd_flwr.app import live_run
from fedkd_flwr.app.live_run import LiveRun, captured_log, end_with_parent
from fedkd_flwr.clients import FedCTClient
from fedkd_flwr.errors import ConfigError, TooFewPartiesError
from fedkd_flwr.privacy.claims.claim import label_privacy
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import summary_table, write_page
from fedkd_flwr.report.status import run_status
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.stores import record_file
from fedkd_flwr.strategies import FedCT, FedCTConfig
from fedkd_flwr.wire.records import open_instruction

PARTIES = 3
QUICK = {"nodes_stable_s": 1e-6, "node_deadline_s": 0.5}


def _watched(folder, strike, in_round):
    """Return a grid that compares the record on the disk with what is sent; ``strike`` is called within a round."""
    clients = handler([FedCTClient(one) for one in parties(PARTIES)])

    def handle(message, context):
        if not record_open:
            return clients(message, context)
        record = RunRecord.load(folder / "record.json")
        if message.metadata.message_type == "evaluate":
            assert record.final_asked == PARTIES
            return clients(message, context)
        server_round = open_instruction(message.content)[1]["server-round"]
        asked.append(server_round)
        assert record.status == "running"
        assert (record.open_round.server_round, record.open_round.asked) == (server_round, PARTIES)
        if strike is not None and server_round == in_round and asked.count(server_round) == 2:  # one party has answered
            record_open.clear()
            strike()
        return clients(message, context)

    asked: list[int] = []
    record_open = [True]  # until something strikes
    grid = fedct_grid(parties(PARTIES))
    grid.handler, grid.asked = handle, asked
    return grid


def _run(folder, strike=None, *, in_round=2, rounds=3, **keywords):
    """Run FedCT in a context of its own, and return the grid."""
    record = RunRecord(run_id="7", algorithm="fedct", sends="labels", simulation=True)
    grid = _watched(folder, strike, in_round)
    grid.tamper = keywords.pop("tamper", None)
    config = FedCTConfig(stop_when_converged=False, **QUICK, **keywords)
    with LiveRun(record, folder) as live:
        strategy = FedCT(public=public_set(), record=record, config=config, on_round=live.on_round)
        strategy.start(grid, num_rounds=rounds, timeout=0.05)
    return grid


def _raise(error):
    def strike():
        raise error

    return strike


def _left(folder):
    """Return the record on the disk and the text of the page that it makes."""
    record = RunRecord.load(folder / "record.json")
    page = write_page(record, folder / "again.html")
    return record, check_safe_and_alone(page.read_text(encoding="utf-8")).text


def test_each_round_is_in_the_record_before_it_is_sent_and_the_last_record_says_completed(tmp_path):
    grid = _run(tmp_path)
    assert grid.asked == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    record, _ = _left(tmp_path)
    assert (record.status, record.num_rounds, record.final_asked) == ("completed", 3, PARTIES)
    assert all(one.ended for one in record.rounds)
    times = [one.asked_at for one in record.rounds]
    assert times == sorted(times)
    assert times[0].startswith("20")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyboardInterrupt(), "Ctrl-C, or its process was told to end"),
        (RunNotRunningException(), "flwr stop"),
        (SystemExit(0), "its process was told to end"),
    ],
)
def test_what_stops_the_exchange_is_written_down_with_its_round(tmp_path, error, reason):
    with pytest.raises(type(error)):
        _run(tmp_path, _raise(error))
    record, page = _left(tmp_path)
    assert record.status == "stopped"
    assert reason in record.reason
    assert [one.ended for one in record.rounds] == [True, False]
    for text in (page, " ".join(summary_table(record).split())):
        assert "stopped in round 2" in text
        assert "1 of 3 rounds ended; round 2 began with 3 parties" in text
        assert reason in text


def test_a_failure_after_an_answered_round_names_the_round_it_failed_in(tmp_path):
    seen = []
    with pytest.raises(TooFewPartiesError, match="valid replies in round 2"):
        _run(tmp_path, tamper=lambda node, reply: seen.append(node) or (reply if len(seen) < 5 else None))
    record, page = _left(tmp_path)
    assert record.status == "failed"
    assert "failed in round 2: 1 of 3 rounds ended; round 2 began with 3 parties" in page
    assert "1 of which answered validly" in page


def _signalled(signalnum):  # its parameter has the name of that of Flower's handler, which calls ours
    live_run._stop_all()


@pytest.mark.parametrize(
    ("strike", "status", "reason"),
    [
        (
            lambda: _signalled(signal.SIGINT),
            "stopped",
            "Flower was told to end it (signal 2): `flwr stop`, Ctrl-C, or the end of the SuperLink",
        ),
        (live_run._stop_all, "failed", "Flower ended its process after an error of its own: see flwr log"),
    ],
)
def test_flower_s_exit_closes_the_record_at_once_and_nothing_is_sent_after_it(tmp_path, strike, status, reason):
    with pytest.raises(SystemExit):
        _run(tmp_path, strike)
    record, page = _left(tmp_path)
    assert (record.status, record.reason) == (status, reason)
    assert [one.ended for one in record.rounds] == [True, False]  # the round did end, and its end is not written
    assert f"{status} in round 2" in page


def test_an_ended_run_is_not_stopped_any_more(tmp_path):
    _run(tmp_path, rounds=1)
    before = (tmp_path / "record.json").read_bytes()
    _signalled(signal.SIGTERM)
    assert (tmp_path / "record.json").read_bytes() == before


def test_a_record_that_cannot_be_written_any_more_ends_the_run_before_anything_is_sent(tmp_path, monkeypatch):
    asked = []

    def full():
        asked.append(1)
        monkeypatch.setattr(live_run.RecordFile, "write", lambda *_: _raise(OSError(28, "No space left"))())

    with pytest.raises(OSError, match="No space left"):
        _run(tmp_path, full, in_round=1)
    assert asked == [1]
    record, _ = _left(tmp_path)
    assert run_status(record, alive=False).headline == "This run was killed in round 1"


def test_a_folder_that_cannot_be_written_is_said_before_anybody_is_asked(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="output-dir must be writable"):
        _run(tmp_path / "file")


def test_of_two_runs_that_begin_within_a_second_the_later_one_is_the_newest():
    began = [live_run.new_record(parse_run_config({}), run_id).started for run_id in "21"]
    assert began[0] < began[1]


def test_a_killed_process_leaves_a_record_that_is_true(tmp_path):
    def doomed(folder):
        _run(Path(folder), lambda: os.kill(os.getpid(), signal.SIGKILL))

    child = multiprocessing.get_context("fork").Process(target=doomed, args=(str(tmp_path),))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    record, page = _left(tmp_path)
    assert record.status == "running"
    stands = run_status(record)
    assert (stands.word, stands.headline) == ("killed", "This run was killed in round 2")
    assert "1 of 3 rounds ended; round 2 began with 3 parties" in stands.sentence
    assert "nothing was released" not in page
    assert "This run was killed in round 2" in page


RESPONSE = {"label_mechanism": "randomized-response", "noise_strength": 0.5}


L2 = {"level": "L2", "noise": "gaussian", "noise_strength": 2.0, "teachers_per_student": 4, "num_queries": 30}
NOISY = [
    ("fedct", RESPONSE),
    ("fedmd", {"score_noise": "laplace", "noise_strength": 5.0}),
    ("fedmd", {"party_rows": [20] * 3, "subset_rows": 5}),
    ("fedkt", L2),
    ("pate", {"noise": "gaussian", "noise_strength": 5.0}),
    ("privatekt", {}),
]


@pytest.mark.parametrize(("algorithm", "settings"), NOISY, ids=str)
def test_the_claims_of_a_run_killed_in_round_1_are_on_the_disk_before_it_is_asked(tmp_path, algorithm, settings):
    record = RunRecord(run_id="7", algorithm=algorithm, sends="labels", simulation=True)

    def handle(message, context):
        found.append(RunRecord.load(tmp_path / "record.json"))
        raise KeyboardInterrupt

    found: list[RunRecord] = []
    grid = fedct_grid(parties(PARTIES))
    grid.handler = handle
    live = LiveRun(record, tmp_path)
    strategy = make(algorithm, record=record, on_round=live.on_round, **settings, **QUICK)
    with pytest.raises(KeyboardInterrupt), live:
        strategy.start(grid, num_rounds=1)
    assert found[0].claims == record.claims != []
    assert found[0].claims[0]["publishable"] is True
    assert "shared as they are" not in _left(tmp_path)[1]


def test_the_claim_of_a_stopped_run_counts_the_round_that_had_begun(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        _run(tmp_path, _raise(KeyboardInterrupt()), **RESPONSE)
    record, _ = _left(tmp_path)
    mechanism = FedCTConfig(**RESPONSE).mechanism(num_classes=3)
    two = label_privacy(mechanism, num_labels=60, rounds=2, delta=1e-5, num_parties=PARTIES)
    assert record.claims == [two.as_dict()]


def test_a_disk_that_fills_during_a_run_loses_neither_the_table_nor_how_the_run_ended(tmp_path, monkeypatch, caplog):
    def fill():
        def full(path, data):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

        monkeypatch.setattr(record_file, "write_atomic", full)

    with pytest.raises(OSError, match="No space left"), caplog.at_level(logging.INFO, logger="flwr"):
        _run(tmp_path, fill)
    assert re.search(
        r"run failed: The server's disk is full \(OSError: \[Errno 28\].*fedct, run 7: failed.*2 of 3 rounds ended",
        caplog.text,
        re.DOTALL,
    )
    assert RunRecord.load(tmp_path / "record.json").status == "running"  # of an earlier moment, as the log says
    assert "record.json is of an earlier moment" in caplog.text


def test_the_log_of_a_run_says_notes_in_sentences_because_strategies_know_codes_alone(tmp_path, caplog):
    record = RunRecord(run_id="7", algorithm="fedct")
    note = Note(NoteCode.TRACKING_ENDED, {"tool": "csv", "failure": "full"})
    with caplog.at_level(logging.INFO, logger="flwr"), LiveRun(record, tmp_path, page=False):
        logging.getLogger("flwr").warning("%s", note)
    assert caplog.messages[0] == "tracking by csv ended early: full"
    assert str(note) == "tracking-ended: tool csv, failure full"  # what a project without our app reads


HANGS = """
import signal, sys, threading
from fedkd_flwr.app.live_run import end_with_parent
signal.signal(signal.SIGINT, signal.SIG_IGN)
end_with_parent(grace_s=0.2)
print("waits", flush=True)
threading.Lock().acquire(), threading.Event().wait()
"""


@pytest.fixture
def parent():
    """A process that runs until it is told to end."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_a_process_that_hangs_ends_when_the_one_that_it_watches_has_ended_and_not_before(parent):
    command = [sys.executable, "-c", HANGS, "--parent-pid", str(parent.pid)]
    hanging = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert hanging.stdout.readline() == "waits\n"
        with pytest.raises(subprocess.TimeoutExpired):
            hanging.wait(0.8)  # several times the grace
        parent.communicate()
        assert hanging.wait(30) == 1
    finally:
        hanging.kill()
        hanging.communicate()


@pytest.mark.parametrize("arguments", [[], ["--parent-pid"], ["--parent-pid", "none"], ["--run-id", "7"]])
def test_without_a_process_to_watch_nothing_is_watched(arguments):
    assert end_with_parent(arguments) is None


def test_messages_are_collected_not_printed_and_loggers_are_afterwards_as_before(capsys):
    loggers = [logging.getLogger(name) for name in ("flwr", "flwr.party")]
    before = [(one.handlers, one.propagate) for one in loggers]
    with captured_log() as said:
        loggers[1].error("lost")
        loggers[0].warning("of Flower")
    assert said == ["lost", "of Flower"]
    assert capsys.readouterr() == ("", "")
    assert [(one.handlers, one.propagate) for one in loggers] == before
