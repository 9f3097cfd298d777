"""Simulations from the outside: what is refused before anything starts, and what becomes of what the process says."""

import queue
import subprocess
import time
from types import SimpleNamespace

import pytest

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.simulation import watch
from fedkd_flwr.simulation.watch import Ended, Simulation, jobs, once

END = {"event": "end", "run_id": "7", "status": "completed", "log": ""}
BEGIN = {"event": "begin", "run_id": "7", "folder": "/nowhere", "rounds": 5, "parties": 2}


def progress(number, answered):
    return {"event": "progress", "kind": "train", "round": number, "answered": answered, "asked": 2}


@pytest.fixture
def said(tmp_path):
    """Return a simulation whose process has said these events, and what was done to it."""

    def make(*events, begin=(), log="last words\n"):
        one = Simulation.__new__(Simulation)
        one.events, one.runs = queue.Queue(), 1
        for event in events:
            one.events.put(dict(event))
        (tmp_path / "early.log").write_text(log, encoding="utf-8")
        one.early_log = SimpleNamespace(name=str(tmp_path / "early.log"))
        one.done = []
        one.stop = lambda: one.done.append("stop")
        one.end = lambda: one.done.append("end")
        return one

    return make


def test_each_seed_is_a_run_of_its_own_with_the_same_name():
    runs = jobs({"name": "x", "seed": 3}, 3)
    assert [one["config"]["seed"] for one in runs] == [3, 4, 5]
    assert {one["config"]["name"] for one in runs} == {"x"}
    assert len({one["run_id"] for one in runs}) == 3
    assert all(parse_run_config(one["config"]).num_parties == watch.DEFAULT_PARTIES for one in runs)
    assert all(2**62 <= int(one["run_id"]) < 2**63 for one in runs)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"modl": "knn"}, "Did you mean model"),
        ({"public-path": "/srv/public.csv"}, "public-path must not be given to a simulation.*fedkd server run"),
        ({"dataset": "table", "table": "/no/rows.csv", "label": "y"}, "table must be there, got no /no/rows.csv"),
        ({"num-parties": 1}, "min-parties"),
    ],
)
def test_wrong_settings_are_refused_before_anything_starts(values, message):
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        jobs(values)


def test_a_folder_that_cannot_be_written_to_is_refused_and_not_made(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigError, match=r"output-dir must be a folder that this user may write to.*output-dir=FOLDER"
    ):
        jobs({"output-dir": str(tmp_path / "file")})
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(ConfigError, match="output-dir must be a folder"):
        jobs({"output-dir": str(tmp_path / "new" / "folder")})
    assert not (tmp_path / "new").exists()


def test_a_run_is_followed_to_its_end(said):
    lines = []
    one = said(BEGIN, progress(1, 0), progress(1, 2), END, {"event": "gone", "code": 0})
    assert one.watch(lines.append) == [Ended(run_id="7", status="completed")]
    assert lines[0] == "round 1 of 5: 0 of 2 parties have answered"
    assert lines[1].startswith("round 1 of 5: 2 of 2 parties have answered, at most ")


def test_of_several_runs_it_says_which_one_goes_on(said):
    lines = []
    one = said(BEGIN, END, BEGIN, progress(1, 0), END, {"event": "gone", "code": 0})
    one.runs = 5
    one.watch(lines.append)
    assert lines == ["run 2 of 5, round 1 of 5: 0 of 2 parties have answered"]


def test_refused_data_are_a_config_error(said):
    with pytest.raises(ConfigError, match="no such column"):
        said({"event": "step", "text": "loading"}, {"event": "refused", "text": "no such column"}).watch(print)


def test_a_process_that_is_killed_is_said_to_be_killed(said):
    (ended,) = said(BEGIN, progress(1, 1), {"event": "gone", "code": -9}).watch(lambda _: None)
    assert (ended.status, ended.run_id, ended.log) == ("killed", "7", "/nowhere/log.txt")
    assert (
        ended.reason == "its process ended (signal 9, as where memory ran out) and left no record"
    )  # as where the disk is full
    (ended,) = said({"event": "gone", "code": 1}, log="Traceback\nMemoryError: none left\n").watch(lambda _: None)
    assert ended.reason == "its process ended (exit code 1). MemoryError: none left"


def test_a_run_that_is_stopped_before_it_began_left_nothing(said, monkeypatch):
    one = said({"event": "step", "text": "loading"})
    monkeypatch.setattr(one, "stop", lambda: one.events.put({"event": "gone", "code": 1}))

    def show(text):
        if text == "loading":
            raise KeyboardInterrupt

    (ended,) = one.watch(show)
    assert (ended.status, ended.reason) == ("stopped", "before any party was asked")


def test_ctrl_c_asks_once_and_a_second_one_kills(said):
    answers, lines = iter([False, True]), []

    class Interrupted(queue.Queue):
        turns = 0

        def get(self, timeout=None):
            self.turns += 1
            if self.turns in (2, 4, 6):
                raise KeyboardInterrupt
            return super().get(timeout=timeout)

    one = said()
    one.events = Interrupted()
    for event in (BEGIN, progress(1, 1), progress(1, 2), {"event": "gone", "code": -15}):
        one.events.put(dict(event))
    one.watch(lines.append, may_stop=lambda: next(answers))
    assert one.done == ["stop", "end"]
    assert "stopping" in lines


def test_two_interrupts_at_once_kill_the_run_and_its_end_is_still_told(said):
    def interrupted(*_):
        raise KeyboardInterrupt

    one = said(BEGIN, progress(1, 1), {"event": "gone", "code": -9})
    (ended,) = one.watch(interrupted, may_stop=interrupted)
    assert (ended.status, one.done) == ("killed", ["end"])


def test_the_process_ends_with_all_that_it_started():
    one = Simulation()
    try:
        assert one.process.poll() is None
    finally:
        one.end()
    assert one.process.returncode is not None
    listed = subprocess.run(["ps", "-A", "-o", "pgid="], capture_output=True, text=True, check=True)
    assert str(one.process.pid) not in listed.stdout.split()


def test_a_process_that_a_model_forked_and_left_behind_is_not_waited_for(monkeypatch, tmp_path):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\nsleep 60 &\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(fake))
    begun = time.monotonic()
    simulation = Simulation()
    (ended,) = simulation.watch(lambda _: None)
    assert simulation.listener.is_alive()  # it holds the pipe open
    simulation.end()
    assert not simulation.listener.is_alive()  # it is ended, too
    assert (ended.status, time.monotonic() - begun < 20) == ("killed", True)


def test_what_several_seeds_say_is_said_once_for_each_kind():
    said = [
        (1, [("losers", "1 of 4 loses."), ("a few-rows", "a: 3 rows")]),
        (2, [("losers", "2 of 4 lose."), ("b few-rows", "b: 3 rows")]),
        (3, [("b few-rows", "b: 3 rows"), ("failed", "twice"), ("failed", "in one run")]),
    ]
    assert once(said) == [
        "in 2 of 3 seeds (of seed 1): 1 of 4 loses.",
        "in 1 of 3 seeds: a: 3 rows",
        "in 2 of 3 seeds: b: 3 rows",
        "in 1 of 3 seeds: twice",
        "in 1 of 3 seeds: in one run",
    ]
