"""Rounds in other tools as they happen, read back with the tools' own libraries."""

import contextlib
import json
import sys

import pytest

from fedkd_flwr.app.live_run import LiveRun
from fedkd_flwr.app.tracking import TOOLS, parse_tools
from fedkd_flwr.errors import ConfigError, DataError, MissingExtraError
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import PartyRecord, RoundRecord, RunRecord
from fedkd_flwr.settings.config import parse_run_config


def _run(folder, tool, *, rounds=3, error=None, after_round=lambda number: None):
    """Run as the server does, without a federation: rounds are asked, and end."""
    record = RunRecord(run_id="7", algorithm="fedct", config={"algorithm": "fedct", "fedct.quorum": 0.9})
    ends = pytest.raises(type(error)) if error is not None else contextlib.nullcontext()
    with ends, LiveRun(record, folder, page=False, tracking=[tool]) as live:
        for number in range(1, rounds + 1):
            this = RoundRecord(server_round=number, asked=2, ended=False)
            record.rounds.append(this)
            live.on_round(record)
            this.agreement, this.answered, this.seconds, this.ended = number / 4, ["a", "b"], 1.5, True
            this.accuracy = {"a": 0.5, "b": 0.7}
            live.on_round(record)
            after_round(number)
        if error is not None:
            raise error
        record.parties = [PartyRecord(name="a", federated={"own": Metrics(n=4, accuracy=0.75)})]
    return record


class Lines:
    """A tool of somebody's own: a line for the start, for each round, and for the end."""

    def __init__(self, record, folder):
        self.path = folder / "lines.jsonl"
        self._write("w", config=record.config)

    def round(self, number, figures):
        self._write("a", round=number, **figures)

    def end(self, record, figures):
        self._write("a", status=record.status, reason=record.reason, **figures)

    def _write(self, mode, **values):
        with self.path.open(mode) as file:
            file.write(json.dumps(values) + "\n")


@pytest.fixture(autouse=True)
def lines(monkeypatch):
    monkeypatch.setitem(TOOLS, "lines", (Lines, ""))


def _lines(folder):
    return [json.loads(line) for line in (folder / "lines.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (None, "completed", ""),
        (DataError("the reason"), "failed", "the reason"),
        (KeyboardInterrupt(), "stopped", "Ctrl-C, or its process was told to end"),
    ],
)
def test_a_tool_gets_settings_each_round_as_soon_as_it_has_ended_and_the_end(tmp_path, error, status, reason):
    seen = []
    _run(tmp_path, "lines", error=error, after_round=lambda number: seen.append(len(_lines(tmp_path))))
    assert seen == [2, 3, 4]
    start, *rounds, end = _lines(tmp_path)
    assert start["config"]["fedct.quorum"] == 0.9
    assert [(one["round"], one["round/agreement"]) for one in rounds] == [(1, 0.25), (2, 0.5), (3, 0.75)]
    assert rounds[0]["round/parties-accuracy"] == pytest.approx(0.6)
    assert (end["status"], end["reason"], end["final/rounds"]) == (status, reason, 3)


# MLflow's own code and its migrations warn
@pytest.mark.filterwarnings("ignore")
def test_mlflow_holds_settings_rounds_and_status(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    client, live = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}"), []

    def found():
        experiment = client.get_experiment_by_name("fedkd")
        return client.search_runs([experiment.experiment_id])

    folder = tmp_path / "runs" / "7"
    _run(folder, "mlflow", after_round=lambda _: live.append(found()[0].data.metrics["round/agreement"]))
    assert live == [0.25, 0.5, 0.75]
    (run,) = found()
    history = client.get_metric_history(run.info.run_id, "round/agreement")
    assert [(one.step, one.value) for one in history] == [(1, 0.25), (2, 0.5), (3, 0.75)]
    assert run.data.params == {"algorithm": "fedct", "fedct.quorum": "0.9"}
    assert run.data.metrics["final/federated-own-accuracy"] == 0.75
    assert run.info.status == "FINISHED"
    _run(folder, "mlflow", error=KeyboardInterrupt(), rounds=1)
    _run(folder, "mlflow", error=DataError("why"), rounds=1)
    ended = {(run.info.status, run.data.tags.get("reason")) for run in found()}
    assert ended >= {("KILLED", "Ctrl-C, or its process was told to end"), ("FAILED", "why")}


def test_a_tool_that_is_not_installed_is_named_before_any_party_is_asked(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"got 'mlflow'.*pip install mlflow-skinny"):
        _run(tmp_path, "mlflow")
    record = RunRecord.load(tmp_path / "record.json")
    assert (record.status, record.rounds) == ("failed", [])


def test_a_tool_that_cannot_begin_is_named_before_any_party_is_asked(tmp_path):
    (tmp_path / "lines.jsonl").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"lines: .*leave lines out"):
        _run(tmp_path, "lines")


def test_a_tool_that_fails_later_is_left_with_a_note_and_the_run_goes_on(tmp_path):
    def lost(number):
        if number == 1:
            (tmp_path / "lines.jsonl").unlink()
            (tmp_path / "lines.jsonl").mkdir()

    record = _run(tmp_path, "lines", after_round=lost)
    assert record.status == "completed"
    assert len([note for note in record.notes if note.code == "tracking-ended"]) == 1
    assert RunRecord.load(tmp_path / "record.json").notes == record.notes


def test_several_tools_are_given_with_commas_and_others_are_refused():
    assert parse_tools("lines,lines, mlflow") == ["lines", "mlflow"]
    with pytest.raises(ConfigError, match="tracking must be none or name mlflow, lines"):
        parse_run_config({"tracking": "neptune"})
