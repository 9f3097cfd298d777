"""The process that runs the simulations of one command: the server, and the processes of the parties.

`fedkd_flwr.simulation.watch` starts it and reads what it says, one JSON object a line. It ends when it is told to
stop, and when whoever started it is gone.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from fedkd_flwr import files
from fedkd_flwr.simulation.watch import TOGETHER, Ended

if TYPE_CHECKING:
    from fedkd_flwr.record.run_record import RunRecord

__all__ = ["main"]


def main() -> None:
    """Read a job from stdin, run it, and say on stdout what happens; what else is printed goes to the log."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the first may be ignored where a shell started the command with &
        signal.signal(number, _interrupted)
    files.durable = False
    told = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    say = _Say(told)
    from joblib import cpu_count

    from fedkd_flwr.simulation.parties import PartyProcesses

    if not (line := sys.stdin.readline()):  # refused before it was sent
        return
    job = json.loads(line)
    processes = PartyProcesses(job["processes"] or cpu_count())
    threading.Thread(target=_watch, daemon=True).start()
    try:
        _check(job["runs"], say)
        for one in job["runs"]:
            if not _run(one["run_id"], one["config"], processes, say):
                break
    except _RefusedError:
        pass


class _RefusedError(Exception):
    """The run was refused before it began; what is wrong has been said."""


class StarterGone(KeyboardInterrupt):
    """The command that started this process has ended, and did not tell it to stop: that stops it as Ctrl-C does."""


_starter_gone = threading.Event()


def _interrupted(number: int, frame: object) -> None:
    """Stop the run, with the reason that the record is to give."""
    raise StarterGone if _starter_gone.is_set() else KeyboardInterrupt


def _stop_without_starter() -> None:
    _starter_gone.set()
    os.kill(os.getpid(), signal.SIGINT)


class _Say:
    """Says events to whoever started this process, from any thread."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.lock = stream, threading.Lock()

    def __call__(self, event: str, **more: Any) -> None:
        with self.lock:
            try:
                print(json.dumps({"event": event, **more}), file=self.stream, flush=True)
            except OSError:  # nobody listens any more
                _stop_without_starter()


def _watch() -> None:
    """Interrupt the run when it is to stop, or when whoever started it is gone."""
    if sys.stdin.readline():
        os.kill(os.getpid(), signal.SIGINT)
    else:  # nobody holds the other end any more
        _stop_without_starter()


def _check(runs: list[dict[str, Any]], say: _Say) -> None:
    """Check settings and data of all runs before anything is written or any party asked; count their parties."""
    from fedkd_flwr.errors import FedkdError
    from fedkd_flwr.settings.config import parse_run_config
    from fedkd_flwr.simulation.rows import check_simulation, count_parties

    try:
        for one in runs:
            say("step", text=f"loading {one['config'].get('dataset', 'digits')}")
            config = parse_run_config(one["config"])
            one["config"]["num-parties"] = count_parties(config)
            check_simulation(config, one["config"]["num-parties"])
    except (FedkdError, OSError) as error:
        say("refused", text=str(error))
        raise _RefusedError from error


def _run(run_id: str, values: dict[str, Any], processes: Any, say: _Say) -> bool:
    """Run one federation; return whether it completed."""
    from flwr.app import Context, RecordDict

    from fedkd_flwr.app.find_run import LOG
    from fedkd_flwr.app.output import output_root
    from fedkd_flwr.app.server_app import federate
    from fedkd_flwr.errors import FedkdError, explain
    from fedkd_flwr.record.run_record import RunRecord
    from fedkd_flwr.settings.config import parse_run_config
    from fedkd_flwr.simulation.drawn_rows import with_drawn_rows
    from fedkd_flwr.simulation.parties import ProcessGrid, write_to

    config = parse_run_config(values)
    make_grid = partial(ProcessGrid, processes, config.num_parties)
    try:
        values = with_drawn_rows(config, values, make_grid, lambda text: say("step", text=text))
    except (FedkdError, OSError) as error:
        say("refused", text=f"public rows could not be drawn: {error}")
        raise _RefusedError from error
    folder = output_root(config.output_dir) / "runs" / run_id
    log = folder / LOG
    try:
        files.make_folder(folder)
        write_to(str(log))
    except OSError as error:
        way_out = "Name another folder: output-dir=FOLDER, and --output-dir FOLDER where other commands look for it."
        say("refused", text=explain("output-dir", "be a folder that can be written", f"{folder} ({error})", way_out))
        raise _RefusedError from error
    say("begin", run_id=run_id, folder=str(folder), rounds=config.rounds, parties=config.num_parties)

    def progress(kind: str, number: int, answered: int, asked: int) -> None:
        say("progress", kind=kind, round=number, answered=answered, asked=asked)

    grid = make_grid(values, run_id=int(run_id), log=str(log), progress=progress)
    record = None
    try:
        record = federate(grid, Context(int(run_id), 0, {}, RecordDict(), values))
    except (Exception, KeyboardInterrupt) as error:
        import traceback

        traceback.print_exception(error)  # into the log; the record says how the run ended
    finally:
        grid.close()
    ended = _ended(folder, config.name, log, record or RunRecord.load(folder / "record.json"))
    say("end", **dataclasses.asdict(ended))
    return ended.status == "completed"


def _ended(folder: Path, name: str, log: Path, record: RunRecord) -> Ended:
    """Return how a run ended, as its record says."""
    from fedkd_flwr.data.look import note_lines
    from fedkd_flwr.report import results
    from fedkd_flwr.report.table import notes, summary_table, warnings

    report = folder / "report.html"
    lead = results.figure_used(record, results.rows_used(record))
    balanced = lead == "balanced_accuracy"
    fixed = {rows: results.baseline(record, rows) for rows in results.ROWS}
    fixed_balanced = {rows: results.fixed_answer(record, rows) for rows in results.ROWS if balanced}
    pooled = record.centralised.get("own") or record.server.get("own")  # measured on all own rows together
    if pooled is not None and pooled.baseline is not None:
        fixed[TOGETHER] = pooled.baseline
        if balanced and pooled.support and None not in pooled.support:
            fixed_balanced[TOGETHER] = 1 / sum(map(bool, pooled.support))
    return Ended(
        run_id=record.run_id,
        status=record.status,
        name=name,
        seed=record.seed,
        reason=record.reason,
        figures=record.figures_by_model("rmse" if lead == "r2" else "accuracy"),
        figure="RMSE" if lead == "r2" else "accuracy",
        balanced=record.figures_by_model("balanced_accuracy") if balanced else {},
        n=results.test_rows(record),
        baseline={rows: value for rows, value in fixed.items() if value is not None},
        balanced_baseline={rows: value for rows, value in fixed_balanced.items() if value is not None},
        warnings=warnings(record),
        notes=notes(record),
        columns="\n".join(note_lines(record.columns)) if record.columns else "",
        table=summary_table(record),
        record=str(folder / "record.json"),
        report=str(report) if report.is_file() else "",
        log=str(log),
    )
