"""The commands ``fedkd file ...``: a federation whose questions and answers go by file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkd_flwr.silo.cli.node import without_file

if TYPE_CHECKING:
    from fedkd_flwr.algorithms.card import Config
    from fedkd_flwr.silo.file_server import FileRun
    from fedkd_flwr.silo.letters import Letter

__all__ = ["answer", "ask", "count", "show"]

Out = Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The file to write.")]
Words = Annotated[list[str], typer.Argument(metavar="FILE.toml [KEY=VALUE]...", help="The settings, with [file].")]


def ask(words: Words, out: Out = Path("question.fedkd")) -> None:
    """Ask silos by file: write a run's first question.

    The section [file] of the run's settings names the keys: key, the server's own, and parties, those of the parties:
    the public key of st-mary is st-mary.pub.

    Examples
    --------
    fedkd file ask run.toml -o question.fedkd
    """
    from fedkd_flwr.settings.config import RunConfig
    from fedkd_flwr.silo import file_server

    values, (key, *_), parties = _settings(words, RunConfig, "key", "parties")
    _say(file_server.ask(values, key, parties, out), out)


def answer(
    question: Annotated[Path, typer.Argument(metavar="QUESTION.fedkd", help="The server's file.")],
    words: Words,
    out: Out = Path("answer.fedkd"),
) -> None:
    """Answer a question's file, or take in the result.

    The node config decides as at a node: algorithms, rules, budget, approval, log. Its section [file] names key, this
    party's own, and server, the server's public key. The same question gets the same file.

    Examples
    --------
    fedkd file answer question.fedkd node.toml -o answer.fedkd
    fedkd file answer next.fedkd node.toml
    """
    from fedkd_flwr.settings.node_config import NodeConfig
    from fedkd_flwr.silo import file_silo
    from fedkd_flwr.silo.door import NotYetApprovedError

    values, (key, *_), (server, *_) = _settings(words, NodeConfig, "key", "server")
    state = values.get("state-dir") or "~/.fedkd"
    try:
        asked, again = file_silo.answer(question, values, key, server, out)
    except NotYetApprovedError:
        typer.echo(f"The answer waits for an approval here. See it: fedkd node egress pending {state}")
        typer.echo(f"Then: fedkd node egress approve last --state-dir {state}, and this command once more.")
        raise typer.Exit(1) from None
    if asked.stage == "evaluate":
        typer.echo(f"taken in: {asked.title}. Your model and page: {Path(state).expanduser() / 'runs' / asked.run}")
        return
    typer.echo(f"{'the same answer as before' if again else 'answered'}: {asked.title}")
    typer.echo(f"{out}  {out.stat().st_size:,} bytes: send it back")


def count(
    answers: Annotated[list[Path], typer.Argument(metavar="ANSWER.fedkd...", help="The answers' files.")],
    out: Out = Path("next.fedkd"),
    without: Annotated[list[str] | None, typer.Option(metavar="PARTY", help="Do not wait for this party.")] = None,
    output_dir: Annotated[str, typer.Option(metavar="FOLDER", help="The run's output-dir; ~/.fedkd by default.")] = "",
) -> None:
    """Count the answers of a round by file.

    Writes the next round's question, or at the end the result for the parties. One file that is forged, cut, of another
    round or given twice is named, and nothing is counted.

    Examples
    --------
    fedkd file count answers/*.fedkd
    fedkd file count answers/*.fedkd --without st-mary -o question-2.fedkd
    """
    from fedkd_flwr.silo import file_server

    _say(file_server.count(answers, out, output_dir=output_dir, without=without or ()), out)


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE.fedkd", help="A question or an answer.")],
    key: Annotated[Path | None, typer.Option(metavar="NAME.pub", help="The public key of whoever signed it.")] = None,
) -> None:
    """Show what a question's or an answer's file holds.

    Examples
    --------
    fedkd file show question.fedkd --key server.pub
    """
    from fedkd_flwr.report.formatting import one_line
    from fedkd_flwr.silo.letters import public_key, read_letter

    letter = read_letter(file, {key.stem: public_key(key)} if key else None)
    right = f"right, of {letter.sender}" if key else "not checked: anybody can have written this; give --key NAME.pub"
    for line in (f"signature  {right}", *_lines(letter)):
        typer.echo(one_line(line))


def _lines(letter: Letter) -> Iterator[str]:
    yield f"{letter.title}, for {', '.join(letter.contents)}" if letter.kind == "question" else letter.title
    yield f"digest  {letter.digest}" + (f"  answers {letter.about}" if letter.about else "")
    yield from (f"setting  {key} = {value!r}" for key, value in letter.settings.items())
    for party in letter.contents:
        content: Any = letter.record(party)  # Flower does not say what its records hold
        for arrays in content.array_records.values():
            for name, array in arrays.items():
                yield f"{party}  {name}: {array.dtype}, {list(array.shape)}, {len(array.data):,} bytes"
        for plain in (*content.metric_records.values(), *content.config_records.values()):
            yield from (f"{party}  {name} = {value!r}" for name, value in plain.items())


def _settings(words: list[str], of: type[Config], *wanted: str) -> tuple[dict[str, Any], list[Path], list[Path]]:
    """Return settings, and the paths of the two ``wanted`` under ``[file]``, which start from the file's folder."""
    from fedkd_flwr.errors import ConfigError, explain
    from fedkd_flwr.settings.run_settings import read_settings

    values = read_settings(words, of=of)
    folder = next((Path(word).expanduser().absolute().parent for word in words if "=" not in word), Path.cwd())
    own = {key: str(value).split(",") for key, value in values.items() if key.startswith("file.")}
    for key in sorted({*own} ^ {f"file.{name}" for name in wanted}):
        way_out = f"Under [file] stand {' and '.join(wanted)}, paths of keys that ssh-keygen -t ed25519 made."
        raise ConfigError(explain(key, "be known" if key in own else "be given", "no such one", way_out))
    first, second = ([folder / Path(one.strip()).expanduser() for one in own[f"file.{name}"]] for name in wanted)
    return without_file(values), first, second


def _say(run: FileRun, out: Path) -> None:
    """Say what a server's command has done."""
    parties = ", ".join(run.question.contents)
    if run.record is None:
        typer.echo(f"run {run.question.run}: {out} is for {parties}. Then: fedkd file count")
        return
    from fedkd_flwr.report.table import summary_table

    typer.echo(summary_table(run.record))
    typer.echo(f"page    {run.folder / 'report.html'}\nresult  {out}, for {parties}")
