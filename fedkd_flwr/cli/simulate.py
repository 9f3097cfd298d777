"""The commands that simulate: ``fedkd simulate`` a whole federation, ``fedkd choose`` one for each candidate."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

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
    from fedkd_flwr.simulation.watch import Ended

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
    from fedkd_flwr.simulation.watch import Simulation

    simulation = Simulation()  # it needs seconds to import what it needs; meanwhile the settings are read
    try:
        from fedkd_flwr.app.progress import ProgressLine
        from fedkd_flwr.settings.run_settings import read_settings, resumed_settings
        from fedkd_flwr.simulation.watch import jobs

        find_own_modules()
        given = read_settings(settings or [], num_parties=parties, name=name)
        if resume:
            given = resumed_settings(resume, given.get("output-dir", "")) | given
        runs = jobs(given, seeds)
        simulation.begin(runs, processes=processes)
        line = ProgressLine()
        with Interrupts(line.clear) as interrupts:
            ended = simulation.watch(
                lambda text: None if verbose or quiet else line.show(text),
                may_stop=interrupts.may_stop,
                print_log=(lambda text: typer.echo(text, err=True, nl=False)) if verbose else None,
            )
        line.clear()
    finally:
        simulation.end()
    if as_json:
        print_json({"runs": [{k: v for k, v in vars(one).items() if k not in ("columns", "table")} for one in ended]})
    else:
        _print(ended, name)
    if ended[-1].status != "completed":
        _complain(ended[-1])
    if open_ and ended[-1].report:
        open_page(ended[-1].report)
    if interrupts.terminated:
        return TERMINATED
    if ended[-1].status == "stopped" or interrupts.agreed:
        return INTERRUPTED
    return 0 if ended[-1].status == "completed" else 1


class Interrupts:
    """Turns the signals that end a command into questions, or into a stop where nobody can be asked."""

    def __init__(self, clear: Callable[[], None]) -> None:
        self.clear = clear  # takes the progress line away
        self.agreed = self.terminated = False

    def __enter__(self) -> Self:
        def interrupted(number: int, _: object) -> None:
            self.terminated = True
            raise KeyboardInterrupt

        numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
        self.before = {number: signal.signal(number, interrupted) for number in numbers}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def may_stop(self) -> bool:
        """Ask whether the run is to stop; a second Ctrl-C means yes."""
        try:
            self.clear()
            if self.terminated or not sys.stdin.isatty():
                self.agreed = True
            else:
                typer.echo("\nStop the run? The rounds done stay in the record. [y/N] ", err=True, nl=False)
                self.agreed = sys.stdin.readline().strip().lower() in ("y", "yes")
        except KeyboardInterrupt:
            self.agreed = True
        return self.agreed


def _print(ended: list[Ended], name: str) -> None:
    """Print what the runs that completed gave."""
    from fedkd_flwr.simulation.watch import once, spread

    done = [one for one in ended if one.status == "completed"]
    if done and done[0].columns:
        typer.echo(done[0].columns)
    if len(ended) == 1 and done:
        typer.echo(done[0].table)
    balanced = bool(done) and all(one.balanced for one in done)
    found = [one.balanced if balanced else one.figures for one in done]
    if len(ended) > 1 and done:
        which = f"{'balanced ' if balanced else ''}{done[0].figure}"
        fixed = _fixed_answer(done, [one.balanced_baseline if balanced else one.baseline for one in done])
        for label, texts in (("WARNING", [one.warnings for one in done]), ("note", [one.notes for one in done])):
            for line in once([(one.seed, text) for one, text in zip(done, texts, strict=True)]):
                echo(f"{label} {line}")
        typer.echo(f"{which} by model and test rows, of parties' models the mean{fixed}:")
    for one, figures in zip(done, found, strict=True) if len(ended) > 1 else ():
        words = "  ".join(f"{key} {value:.3f}" for key, value in figures.items())
        typer.echo(f"seed {one.seed}  {words}  {one.record}")
    for key, (mean, deviation) in spread(found).items():
        typer.echo(f"{key}: mean {mean:.4f}, deviation {deviation:.4f} over {len(done)} seeds")
    if len(done) > 1:
        typer.echo("Compare them with: fedkd compare " + (name or " ".join(one.run_id for one in done)))
    for what in ("record", "report") if done and len(ended) == 1 else ():
        if path := getattr(done[0], what):
            typer.echo(f"{what}: {path}")


def _fixed_answer(done: list[Ended], baselines: list[dict[str, float]]) -> str:
    """Return for a heading how many test rows there are, and what one fixed answer reaches on them on average."""
    from fedkd_flwr.simulation.watch import TOGETHER

    found = []
    for rows in done[0].n:
        sizes = {one.n[rows] for one in done if rows in one.n}
        many = f"{min(sizes):,}" if len(sizes) == 1 else f"{min(sizes):,} to {max(sizes):,}"
        known = [one[rows] for one in baselines if rows in one]
        reached = f" (one fixed answer {sum(known) / len(known):.3f})" if known else ""
        together = [one[TOGETHER] for one in baselines if rows == "own" and TOGETHER in one]
        if known and together:
            mean = sum(together) / len(together)
            reached = f"{reached[:-1]} as the mean over parties, {mean:.3f} for server and centralised: all these rows)"
        found.append(f"{many} {rows}{reached}")
    return f"; test rows: {', '.join(found)}" if found else ""


def _complain(last: Ended) -> None:
    """Say on stderr, in at most five lines, why a run did not complete, and where what it left is."""
    reason = " ".join(last.reason.split())
    reason = reason if len(reason) <= 600 else f"{reason[:600]} ..."
    said = {"stopped": "The run was stopped", "killed": "error: the run was killed"}
    echo(f"{said.get(last.status, 'error: the run failed')}: {reason}", err=True)
    for what in ("record", "report", "log"):
        if path := getattr(last, what):
            typer.echo(f"{what}: {path}", err=True)
    if last.record and Path(last.record).is_file():
        from fedkd_flwr.app.find_run import way_to_continue
        from fedkd_flwr.record.run_record import RunRecord

        if command := way_to_continue(RunRecord.load(last.record), Path(last.record)):
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
    from fedkd_flwr.settings.config import parse_run_config
    from fedkd_flwr.settings.run_settings import read_settings

    for name, value, known in (("--for", whose, tuple(WHOSE)), ("--by", figure, ("", "accuracy", "balanced-accuracy"))):
        if value not in known:
            raise ConfigError(explain(name, f"be one of {', '.join(filter(None, known))}", value))
    values = {"model": "random-forest", **read_settings(settings or [], num_parties=parties or None)}
    if not values.get("dataset"):
        way_out = "Write table=FILE label=COLUMN, or dataset=NAME (docs/howto/your-data.md)."
        raise ConfigError(explain("fedkd choose", "be told which rows", "neither table nor dataset", way_out))
    if not values.get("num-parties") and not parse_run_config(values).has_parties:
        values["num-parties"] = 5
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
