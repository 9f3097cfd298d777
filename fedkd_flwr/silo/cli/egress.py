"""The commands ``fedkd node egress ...`` and ``fedkd node ledger``: what leaves a silo, and what its rows have paid."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli.options import AsJson, OutputDir, print_json
from fedkd_flwr.errors import ConfigError, FedkdError, explain

__all__ = ["approve", "ledger", "log", "pending", "reject", "verify"]

StateDir = Annotated[Path, typer.Argument(metavar="[STATE_DIR]", help="The party's state-dir.")]
State = Annotated[Path, typer.Option("--state-dir", help="The party's state-dir.")]
Rows = Annotated[int, typer.Option(help="How many rows of the table to print.", min=0)]
Run = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's id or the start of it, its name, or `last`, among those that wait."),
]
Digest = Annotated[
    str | None,
    typer.Option(metavar="SHA256", help="The digest of the reply, or its start: only these bytes are decided about."),
]
By = Annotated[str, typer.Option(help="Who decides; by default whoever is logged in.")]
Place = Annotated[str, typer.Argument(metavar="[PATH]", help="A party's state-dir, its log.jsonl or the log's folder.")]


def pending(state_dir: StateDir = OUTPUT, rows: Rows = 10, as_json: AsJson = False) -> None:
    """Print the replies that wait for approval.

    Each stands with the start of its table, and until when it waits.

    Examples
    --------
    fedkd node egress pending /srv/st-mary/state
    fedkd node egress pending /srv/st-mary/state --rows 1000 | less
    """
    from fedkd_flwr.silo.review import answer_lines
    from fedkd_flwr.silo.review import pending as waiting

    found = waiting(state_dir.expanduser())
    if as_json:
        print_json([{**one.facts, "table_file": f"{one.path}.csv"} for one in found])
        return
    for number, one in enumerate(found):
        typer.echo("\n" * bool(number) + "\n".join(answer_lines(one.facts, one.table, rows=rows)))
        typer.echo(f"\nwaits      until {one.facts['until']}; the whole table: {one.path}.csv")
        seen = f"--digest {str(one.facts['output']['sha256'])[:16]}"
        where = f"--state-dir {shlex.quote(str(state_dir))}"
        typer.echo(f"decide     fedkd node egress approve {one.facts['run']} {seen} {where}")
    if not found:
        typer.echo("No reply waits for approval.")


def approve(
    run: Run,
    state_dir: State = OUTPUT,
    reason: Annotated[str, typer.Option(help="Why it may leave; kept in the log.")] = "",
    digest: Digest = None,
    by: By = "",
) -> None:
    """Let a reply that waits leave.

    These very bytes leave, and no others. Without --digest it is the reply that waits now, perhaps another than you
    looked at: a node that was started again computes its answer anew.

    Examples
    --------
    fedkd node egress approve last --digest cc201209be2787dc --state-dir /srv/st-mary/state --reason "seen: labels only"
    """
    _decide(run, state_dir, approved=True, reason=reason, digest=digest, by=by)


def reject(
    run: Run,
    state_dir: State = OUTPUT,
    reason: Annotated[str, typer.Option(help="Why it may not leave; kept in the log.")] = "",
    digest: Digest = None,
    by: By = "",
) -> None:
    """Keep a reply that waits in the house.

    Only the code `held-back` leaves, and the run goes on without this party. Where the ledger was charged for its
    noise, the charge stays (docs/understand/beside-a-claim.md says why).

    Examples
    --------
    fedkd node egress reject last --state-dir /srv/st-mary/state --reason "three labels give a ward away"
    """
    _decide(run, state_dir, approved=False, reason=reason, digest=digest, by=by)


def _decide(run: str, state_dir: Path, **words: Any) -> None:
    from fedkd_flwr.silo.review import decide

    held, decision = decide(run, state_dir.expanduser(), **words)
    about = "round {round} of run {run} ({party})".format(**held.facts)
    typer.echo(f"{decision.verdict}: {about}, by {decision.by}\ndigest   {decision.sha256}")


def log(place: Place = str(OUTPUT), as_json: AsJson = False) -> None:
    """Print what has left, and what was held back.

    Each reply of this party is one line. It only reads.

    Examples
    --------
    fedkd node egress log /srv/st-mary/state
    fedkd node egress log /srv/st-mary/state --json > egress.json
    """
    from fedkd_flwr.silo.review import log_text
    from fedkd_flwr.stores.egress_log import egress_logs_in, read_log

    found = [read_log(path) for path in egress_logs_in(Path(place).expanduser())]
    everything = [line for one in found for line in one.lines]
    if as_json:
        print_json(everything)
    else:
        typer.echo(log_text(everything))
    if problems := [f"{one.path}: {problem}" for one in found for problem in one.problems]:
        raise FedkdError("\n".join(problems))


def verify(
    place: Place = str(OUTPUT),
    head: Annotated[
        list[str] | None, typer.Option("--head", help="A head that was kept elsewhere; the log must go on from it.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check that an egress log is whole.

    No line was altered, removed, added or put in another order; its head is printed. Keep the head where nobody who
    can write to the log can change it, and give it with --head next time: who can rewrite both of the log's files
    can make a whole one, and only the head shows that. Exit code 1: it does not hold.

    Examples
    --------
    fedkd node egress verify /srv/st-mary/state
    fedkd node egress verify /srv/st-mary/state --head 12-3f2a-9c01-77b1-e0d4
    """
    from fedkd_flwr.stores.egress_log import egress_logs_in, read_log

    paths = egress_logs_in(Path(place).expanduser())
    if head and len(paths) > 1:
        raise ConfigError(explain("PATH", "name one log with --head", f"{len(paths)} logs", f"Give {paths[0]}, say."))
    said = []
    for path in paths:
        found = read_log(path)
        problems = found.problems + [why for kept in head or [] if (why := found.check_kept(kept))]
        one = {"path": str(path), "holds": not problems, "lines": len(found.lines), "head": found.head}
        said.append({**one, "problems": problems, "notes": found.notes})
        if not as_json:
            holds = "no" if problems else "no line was altered, removed or moved"
            marked = [*(f"WRONG  {text}" for text in problems), *(f"note   {text}" for text in found.notes)]
            shown = (f"log    {path}", f"lines  {len(found.lines)}", f"head   {found.head}", *marked, f"holds  {holds}")
            typer.echo("\n".join(shown))
    if as_json:
        print_json(said)
    return 0 if all(one["holds"] for one in said) else 1


def ledger(
    place: Annotated[
        str,
        typer.Argument(
            metavar="[STATE_DIR|RUN]",
            help="A party's state-dir, a ledger.sqlite3 or its folder; of a simulation: the run.",
        ),
    ] = str(OUTPUT),
    delta: Annotated[float, typer.Option(help="Where epsilon is measured.")] = 1e-5,
    epsilon_budget: Annotated[
        float | None, typer.Option(metavar="EPSILON", help="Also print what is left of this budget.")
    ] = None,
    output_dir: OutputDir = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Print what a party has charged to its rows.

    Each charge has its time, run and mechanism; the end says what all of it costs. It only reads, and may be called
    while a node runs. A charge stays whether its answer was sent or not (`fedkd node egress log` says that).

    Examples
    --------
    fedkd node ledger
    fedkd node ledger /srv/st-mary/state --epsilon-budget 3.3
    fedkd node ledger last
    fedkd node ledger /srv/st-mary/state --json
    """
    from fedkd_flwr.app.find_run import find_run
    from fedkd_flwr.privacy.ledger.ledger import Budget
    from fedkd_flwr.silo.ledger import ledger_dict, ledger_text, ledgers_in, read_ledger

    budget = Budget(epsilon=math.inf if epsilon_budget is None else epsilon_budget, delta=delta)
    path = Path(place).expanduser()
    paths = ledgers_in(path if path.exists() else find_run(place, output_dir).parent)
    known: list[Any] = []
    failed: list[str] = []
    for one in paths:
        try:
            read, rows = read_ledger(one)
            words: dict[str, Any] = {"delta": budget.delta, "budget": budget.epsilon, "rows": rows}
            known.append({"path": str(one), **ledger_dict(read, **words)} if as_json else ledger_text(read, **words))
        except (FedkdError, OSError) as error:
            failed.append(str(error))
    if as_json:
        print_json(known)
    else:
        known += ["Each ledger counts the releases of its own party only.\n"] if len(paths) > 1 else []
        typer.echo("\n".join(known), nl=False)
    if failed:
        raise FedkdError("\n".join(failed))
