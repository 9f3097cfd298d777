"""A run's rounds in other tools, as they happen: MLflow, and whatever is added to `TOOLS`.

What is written is the operator's record, with figures that come from private rows. Each tool is a class of three
methods; it is imported when it is asked for. A tool that fails in the middle of a run is left, with a note, and the
run goes on.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable, Mapping
from importlib import import_module
from logging import getLogger
from pathlib import Path
from typing import Any

from fedkd_flwr.errors import ConfigError, MissingExtraError, explain
from fedkd_flwr.record.notes import Note, NoteCode, add_note
from fedkd_flwr.record.run_record import RoundRecord, RunRecord

__all__ = ["TOOLS", "Tracking", "parse_tools"]

Figures = dict[str, float]


def _numbers(of: str, values: Mapping[str, Any]) -> Figures:
    """Return what is a number among values, by names with a slash as the tools group them."""
    known = {name.replace("_", "-"): value for name, value in values.items() if type(value) in (int, float)}
    return {f"{of}/{name}": float(value) for name, value in known.items()}


def _round_figures(this: RoundRecord) -> Figures:
    accuracy = statistics.fmean(this.accuracy.values()) if this.accuracy else None
    return _numbers("round", vars(this) | {"answered": len(this.answered), "parties_accuracy": accuracy})


def _final_figures(record: RunRecord) -> Figures:
    rounds = [one for one in record.rounds if one.ended]
    totals = {name: sum(getattr(one, name) for one in rounds) for name in ("bytes_up", "bytes_down")}
    reached: dict[str, Any] = {f"{key}_accuracy": value for key, value in record.mean_accuracies().items()}
    reached |= {"server_accuracy": record.server_accuracy, "centralised_accuracy": record.centralised_accuracy}
    return _numbers("final", {**vars(record), **reached, **totals, "rounds": len(rounds)})


class MLflow:
    """A run of MLflow: at ``MLFLOW_TRACKING_URI``, or in the file ``mlflow.db`` of the output folder."""

    def __init__(self, record: RunRecord, folder: Path) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # before it is imported
        mlflow = import_module("mlflow")
        store = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.parents[1] / 'mlflow.db'}"
        self._entities = import_module("mlflow.entities")
        self._client = mlflow.MlflowClient(tracking_uri=store)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "fedkd")
        found = self._client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self._client.create_experiment(name)
        self._run = self._client.create_run(experiment, run_name=record.run_id).info.run_id
        params = [self._entities.Param(key, str(value)[:6000]) for key, value in record.config.items()]
        for i in range(0, len(params), 100):  # as many as MLflow takes at a time
            self._client.log_batch(self._run, params=params[i : i + 100])

    def round(self, number: int, figures: Figures) -> None:
        """Write a round's figures, at its number."""
        now = int(time.time() * 1000)
        metrics = [self._entities.Metric(name, value, now, number) for name, value in figures.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def end(self, record: RunRecord, figures: Figures) -> None:
        """Write the final figures and the status."""
        self.round(len(record.rounds), figures)
        for name, value in (("status", record.status), ("reason", record.reason)):
            self._client.set_tag(self._run, name, value)
        ended = {"completed": "FINISHED", "failed": "FAILED"}
        self._client.set_terminated(self._run, ended.get(record.status, "KILLED"))


# name -> class, and how what it imports is installed
TOOLS: dict[str, tuple[type[Any], str]] = {"mlflow": (MLflow, "mlflow-skinny sqlalchemy alembic")}


def parse_tools(text: str) -> list[str]:
    """Return the names in a list with commas, none for ``none``; a `ConfigError` names those that there are.

    >>> parse_tools("mlflow"), parse_tools("none")
    (['mlflow'], [])
    """
    names = [name.strip() for name in text.split(",") if name.strip() not in ("", "none")]
    for name in names:
        if name not in TOOLS:
            raise ConfigError(explain("tracking", f"be none or name {', '.join(TOOLS)}", name))
    return list(dict.fromkeys(names))


class Tracking:
    """All tools of a run, made before its first round; ``names`` as `parse_tools` returns them."""

    def __init__(self, names: Iterable[str], record: RunRecord, folder: Path) -> None:
        self.trackers: dict[str, Any] = {}
        self._told = 0
        for name in names:
            tool, packages = TOOLS[name]
            try:
                self.trackers[name] = tool(record, folder)
            except ImportError as error:
                way_out = f"Install it where the server runs: pip install {packages}"
                raise MissingExtraError(
                    explain("tracking", f"name an installed tool ({error})", name, way_out)
                ) from error
            except Exception as error:
                seen, way_out = f"{name}: {error}", f"Correct its settings, or leave {name} out of tracking."
                raise ConfigError(explain("tracking", "name a tool that can begin", seen, way_out)) from error

    def on_round(self, record: RunRecord) -> None:
        """Tell the tools of the rounds that ended since the last call."""
        while self._told < len(record.rounds) and record.rounds[self._told].ended:
            this = record.rounds[self._told]
            self._told += 1
            self._each(record, lambda tracker, this=this: tracker.round(this.server_round, _round_figures(this)))

    def end(self, record: RunRecord) -> None:
        """Tell the tools of the last rounds, and how the run ended."""
        self.on_round(record)
        self._each(record, lambda tracker: tracker.end(record, _final_figures(record)))
        self.trackers.clear()

    def _each(self, record: RunRecord, tell: Any) -> None:
        for name, tracker in list(self.trackers.items()):
            try:
                tell(tracker)
            except Exception as error:  # a tool's server may be gone; the run is worth more
                del self.trackers[name]
                note = Note(NoteCode.TRACKING_ENDED, {"tool": name, "failure": str(error)})
                add_note(record.notes, note)
                getLogger("flwr").warning("%s", note)
