"""The commands that simulate: ``fedkd simulate`` a whole federation, ``fedkd choose`` one for each candidate."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from fedkd_flwr.app.find_run import LOG
from fedkd_flwr.cli import INTERRUPTED, TERMINATED
from fedkd_flwr.cli.options import (
    AsJson,
    Quiet,
    complete_runs,
    complete_settings,
    echo,
    find_own_modules,
    open_page,
    print_json,
)
from fedkd_flwr.errors import ConfigError, DataError, explain

if TYPE_CHECKING:
    from fedkd_flwr.app.progress import ProgressLine
    from fedkd_flwr.record.run_record import RunRecord

__all__ = ["Interrupts", "Resume", "RunSettings", "Verbose", "choose", "simulate"]

RunSettings = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILE.toml] [KEY=VALUE]...", help="The run's settings.", autocompletion=complete_settings),
]

Resume = Annotated[
    str,
    typer.Option(
        metavar="RUN",
        help="Continue a run that was lost, with the settings it began with: its id, name or path.",
        autocompletion=complete_runs,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the whole log.")]


def simulate(
    settings: RunSettings = None,
    parties: Annotated[int | None, typer.Option(help="How many parties; 10 by default.", min=1)] = None,
    resume: Resume = "",
    name: Annotated[str, typer.Option(help="What to call the run, for `fedkd runs list` and others.")] = "",
    seeds: Annotated[int, typer.Option(help="Run so many times, each with the next seed.", min=1)] = 1,
    processes: Annotated[int, typer.Option(help="Parties that compute at a time. 0: one for each core.", min=0)] = 0,
    open_: Annotated[bool, typer.Option("--open", help="Open the report in a browser at the end.")] = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Simulate a federation on this machine.

    Parties, server and all run here, and it says how good their models are. `fedkd settings` lists what can be set.
    What stands later wins; texts need no quotes. Paths in the file start from its folder, others from the current one.
    Your own modules are found in the current folder.

    Examples
    --------
    fedkd simulate
    fedkd simulate table=patients.csv label=outcome --parties 5 --name first --open
    fedkd simulate my-run.toml model=knn dirichlet-alpha=0.1 --seeds 5
    fedkd simulate --resume last
    """
    from fedkd_flwr.settings.config import parse_run_config
    from fedkd_flwr.settings.run_settings import read_settings, resumed_settings
    from fedkd_flwr.simulation.starter import party_starter

    find_own_modules()
    given = read_settings(settings or [], num_parties=parties, name=name)
    if resume:
        given = resumed_settings(resume, given.get("output-dir", "")) | given
    if table := parse_run_config(given).table:  # mistakes are told before seconds of imports
        from fedkd_flwr.data.formats import require_file

        require_file(table)
    starter = party_starter(given)  # it imports what parties need, and loads the rows, while this process does
    from fedkd_flwr.app.progress import ProgressLine
    from fedkd_flwr.simulation.parties import printed_to
    from fedkd_flwr.simulation.run import checked, in_processes

    ended: list[tuple[RunRecord, Path]] = []

    def show(text: str) -> None:
        if not (verbose or quiet):
            line.show((f"run {len(ended) + 1} of {seeds}, " if seeds > 1 else "") + text)

    with Interrupts(line := ProgressLine()) as interrupts:
        while len(ended) < seeds and (not ended or ended[-1][0].status == "completed"):
            with printed_to(os.devnull):
                config = checked(given)
            show("loading the data")
            ended.append(in_processes(config, starter, show, processes=processes, verbose=verbose))
            given["seed"] = config.seed + 1
    lines = [_line(record, folder) for record, folder in ended]
    print_json({"runs": lines}) if as_json else _print(ended, lines, name)
    record, _ = ended[-1]
    if record.status != "completed":
        _complain(record, lines[-1])
    if open_ and lines[-1]["report"]:
        open_page(Path(lines[-1]["report"]).as_uri())
    return TERMINATED if interrupts.terminated else {"completed": 0, "stopped": INTERRUPTED}.get(record.status, 1)


class Interrupts:
    """Turns the signals that end a command into a question, or into a stop where nobody can be asked."""

    def __init__(self, line: ProgressLine, *, asks: bool = True) -> None:
        self.line, self.asks = line, asks
        self.agreed = self.terminated = False

    def __enter__(self) -> Self:
        numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # else a shell started the command with &
            numbers.append(signal.SIGINT)
        self.before = {number: signal.signal(number, self.interrupted) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        self.line.clear()
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def interrupted(self, number: int, _: object) -> None:
        """Raise `KeyboardInterrupt` unless the user, asked after Ctrl-C, says no; a second Ctrl-C means yes."""
        self.terminated |= number != signal.SIGINT
        if number == signal.SIGINT and self.asks and sys.stdin.isatty() and not self.agreed:
            self.agreed = self.line.held = True  # also where a second one interrupts the question
            self.line.clear()
            self.line.stream.write("\nStop the run? The rounds done stay in the record. [y/N] ")
            self.line.stream.flush()
            self.agreed = self.line.held = sys.stdin.readline().strip().lower() in ("y", "yes")
            if not self.agreed:
                return
        raise KeyboardInterrupt


def _line(record: RunRecord, folder: Path) -> dict[str, Any]:
    """Return what ``--json`` says of a run: its line in the list of runs, why it ended so, and where its files are."""
    from fedkd_flwr.report.status import run_line
    from fedkd_flwr.report.table import warnings

    files = {"record": folder / "record.json", "report": folder / "report.html", "log": folder / LOG}
    where = {what: str(path) if path.is_file() else "" for what, path in files.items()}
    return {**run_line(record), "reason": record.reason, "warnings": [text for _, text in warnings(record)], **where}


def _print(ended: list[tuple[RunRecord, Path]], lines: list[dict[str, Any]], name: str) -> None:
    """Print what the runs that completed gave: of one its table, of several their means, and what some warn of."""
    from fedkd_flwr.data.look import note_lines
    from fedkd_flwr.report.compare import compare
    from fedkd_flwr.report.table import footer, summary_table, warnings

    done = [record for record, _ in ended if record.status == "completed"]
    if done and done[0].columns:
        typer.echo("\n".join(note_lines(done[0].columns)))
    if len(ended) == 1 and done:
        typer.echo(summary_table(done[0]))
        for what in ("record", "report"):
            if path := lines[0][what]:
                typer.echo(f"{what}: {path}")
    if len(done) > 1:
        said: dict[str, list[tuple[int, str]]] = {}
        for record in done:
            for kind, text in warnings(record):
                said.setdefault(kind, []).append((record.seed, text))
        for found in said.values():
            echo(f"WARNING in {len(dict(found))} of {len(done)} seeds (of seed {found[0][0]}): {found[0][1]}")
        typer.echo(compare(done).text())
        typer.echo("\n".join([f"Of seed {done[0].seed}:", *footer(done[0])]))
        for record, line in zip(done, lines, strict=False):
            typer.echo(f"record of seed {record.seed}: {line['record']}")
        typer.echo("Compare them with others: fedkd compare " + (name or " ".join(one.run_id for one in done)))


def _complain(record: RunRecord, line: dict[str, Any]) -> None:
    """Say on stderr, in at most five lines, why a run did not complete, and where what it left is."""
    from fedkd_flwr.app.find_run import way_to_continue

    reason = " ".join(record.reason.split())
    reason = reason if len(reason) <= 600 else f"{reason[:600]} ..."
    echo(f"{'The run was stopped' if record.status == 'stopped' else 'error: the run failed'}: {reason}", err=True)
    for what in ("record", "report", "log"):
        if line[what]:
            typer.echo(f"{what}: {line[what]}", err=True)
    if command := way_to_continue(record, Path(line["record"])):
        typer.echo(f"continue it with: {command}", err=True)


def choose(
    settings: RunSettings = None,
    parties: Annotated[int, typer.Option(help="Parties to simulate. 0: those in the data, else 5.", min=0)] = 0,
    thorough: Annotated[bool, typer.Option("--thorough", help="All candidates, each with five seeds.")] = False,
    seeds: Annotated[int, typer.Option(help="Repetitions, each with other parties. 0: 1, or 5 if thorough.")] = 0,
    whose: Annotated[str, typer.Option("--for", help="Whose model counts: parties, home or server.")] = "parties",
    figure: Annotated[str, typer.Option("--by", help="accuracy or balanced-accuracy; empty: what fits.")] = "",
    candidate: Annotated[list[str] | None, typer.Option(help="Only this candidate; may be repeated.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Compare algorithms and votes on your table.

    Parties are simulated, and it says which differences are more than noise. Settings are those of fedkd simulate,
    but for the algorithm's; models are forests unless given. Whose model counts: the parties' models on rows like
    those of all parties (parties), on rows like each party's own (home), or the server's model (server). With
    epsilon=1.0 the candidates are those that claim it for one record, against the server: noisy sums and FedKT L2.
    Runs that ended are kept: the same command goes on there.

    Examples
    --------
    fedkd choose table=patients.csv label=outcome id-column=PatNr
    fedkd choose table=patients.csv label=outcome partition-column=hospital --thorough
    fedkd choose table=patients.csv label=outcome epsilon=1.0 --for server --thorough
    fedkd choose dataset=digits --candidate fedct:majority --candidate fedkt:majority --seeds 3
    """
    from fedkd_flwr.app.choose import choose as compare_candidates
    from fedkd_flwr.app.choose_text import WHOSE
    from fedkd_flwr.settings.run_settings import read_settings

    for name, value, known in (("--for", whose, tuple(WHOSE)), ("--by", figure, ("", "accuracy", "balanced-accuracy"))):
        if value not in known:
            raise ConfigError(explain(name, f"be one of {', '.join(filter(None, known))}", value))
    values = read_settings(settings or [], num_parties=parties or None)
    if not values.get("dataset"):
        way_out = "Write table=FILE label=COLUMN, or dataset=NAME (docs/howto/your-data.md)."
        raise ConfigError(explain("fedkd choose", "be told which rows", "neither table nor dataset", way_out))
    find_own_modules()
    try:
        found = compare_candidates(
            values,
            names=candidate or [],
            thorough=thorough,
            seeds=seeds,
            whose=whose,  # type: ignore[arg-type]
            figure=figure.replace("-", "_"),
            progress=lambda line: None if quiet else typer.echo(line, err=True),
        )
    except DataError as error:
        raise DataError(str(error).replace("fedkd simulate ", "fedkd choose "), code=error.code) from error
    print_json(found.as_dict()) if as_json else typer.echo(found.text())
    return INTERRUPTED if found.stopped else 0
