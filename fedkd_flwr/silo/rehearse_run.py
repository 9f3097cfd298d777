"""Rehearsals as a command asks for them: at a SuperLink, or of a simulation in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fedkd_flwr.app.captured_log import captured_log
from fedkd_flwr.errors import TooFewPartiesError
from fedkd_flwr.silo.rehearsal import WORD

__all__ = ["Rehearsed", "rehearse_at", "rehearse_here"]


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal said: its lines of the log, and why the run would fail, "" where it would not."""

    lines: list[str]
    reason: str = ""


def rehearse_at(values: Mapping[str, Any], superlink: str = "") -> Rehearsed:
    """Rehearse a run at a SuperLink, and wait for its end.

    Raises `ConfigError` if a setting is wrong. Raises `FlowerError` if the SuperLink refuses the run or cannot be
    reached.
    """
    from fedkd_flwr.app.submit import follow, status, submit

    made = submit(values, superlink=superlink)
    lines = _lines(follow(made.run_id, superlink))
    how, details = status(made.run_id, superlink)
    return Rehearsed(lines, "" if how == "finished:completed" else " ".join(details.split()) or how)


def rehearse_here(values: Mapping[str, Any]) -> Rehearsed:
    """Rehearse a simulation in this process; its record is thrown away.

    Raises `ConfigError` or `DataError` if a setting is wrong, or the data set cannot be loaded.
    """
    from flwr.app import Context, RecordDict

    from fedkd_flwr.app.client_app import app
    from fedkd_flwr.app.server_app import federate
    from fedkd_flwr.settings.config import parse_run_config
    from fedkd_flwr.simulation.grid import InProcessGrid
    from fedkd_flwr.simulation.watch import DEFAULT_PARTIES

    count = int(values.get("num-parties") or DEFAULT_PARTIES)
    with tempfile.TemporaryDirectory(prefix="fedkd-rehearsal-") as folder, captured_log() as said:
        config = {**values, "num-parties": count, "output-dir": folder}
        parse_run_config(config)
        nodes = [{"partition-id": i, "num-partitions": count} for i in range(count)]
        try:
            federate(InProcessGrid(app, nodes, config), Context(1, 1, {}, RecordDict(), config), page=False)
        except TooFewPartiesError as error:
            return Rehearsed(_lines(said), str(error))
    return Rehearsed(_lines(said))


def _lines(log_lines: Iterable[str]) -> list[str]:
    """Return what stands behind the word in lines of a log."""
    return [one.partition(WORD)[2].strip() for one in log_lines if WORD in one]
