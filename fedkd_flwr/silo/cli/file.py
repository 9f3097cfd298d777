"""The commands ``fedkd file ...``: a federation whose questions and answers go by file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fedkd_flwr.algorithms.card import Config
    from fedkd_flwr.silo.file_server import Step
    from fedkd_flwr.silo.letters import Letter

__all__ = ["answer", "ask", "count", "key", "show"]

Out = Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The file to write.")]
Words = Annotated[list[str], typer.Argument(metavar="FILE.toml [KEY=VALUE]...", help="The settings, with [file].")]


def key(
    name: Annotated[str, typer.Argument(help="The party's name, as in its node config; or the server's.")],
    folder: Annotated[Path, typer.Option(help="Where the two files go.")] = Path(),
) -> None:
    """Make a key pair to sign files with.

    NAME.key stays here, for you alone. NAME.pub goes to the others, once. Compare the digits by telephone.

    Examples
    --------
    fedkd file key st-mary
    fedkd file key server --folder /srv/server
    """
    from fedkd_flwr.silo.letters import fingerprint, make_key, public_key

    own, public = make_key(name, folder)
    typer.echo(f"private  {own}\npublic   {public}\ndigits   {fingerprint(public_key(public)[1])}")
    typer.echo(public.read_text(encoding="utf-8").strip())


def ask(words: Words, out: Out = Path("question.fedkd")) -> None:
    """Ask silos by file: write a run's first question.

    The section [file] of the run's settings names the keys: key, the server's own, and parties, those of the parties.

    Examples
    --------
    fedkd file ask run.toml -o question.fedkd
    """
    from fedkd_flwr.settings.config import RunConfig
    from fedkd_flwr.silo import file_server

    values, keys = _settings(words, RunConfig, ("key", "parties"))
    _say(file_server.ask(values, Path(keys["key"]), list(map(Path, keys["parties"].split(","))), out))


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
    import socket

    socket.has_ipv6 = False  # urllib3, which Flower imports, opens a socket on import to look whether there is IPv6
    from fedkd_flwr.settings.node_config import NodeConfig
    from fedkd_flwr.silo.door import NotYetApprovedError
    from fedkd_flwr.silo.file_silo import answer as answered

    values, keys = _settings(words, NodeConfig, ("key", "server"))
    state = values.get("state-dir") or "~/.fedkd"
    try:
        done = answered(question, values, Path(keys["key"]), Path(keys["server"]), out)
    except NotYetApprovedError:
        typer.echo(f"The answer waits for an approval here. See it: fedkd node egress pending {state}")
        typer.echo(f"Then: fedkd node egress approve last --state-dir {state}, and this command once more.")
        raise typer.Exit(1) from None
    if done.question.stage == "evaluate":
        folder = Path(state).expanduser() / "runs" / done.question.run
        typer.echo(f"taken in: {done.question.title}. Your model and page: {folder}")
        return
    typer.echo(f"{'the same answer as before' if done.again else 'answered'}: {done.question.title}")
    typer.echo(f"{out}  {done.size:,} bytes: send it back")


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

    _say(file_server.count(answers, out, output_dir=output_dir, without=without or ()))


def show(file: Annotated[Path, typer.Argument(metavar="FILE.fedkd", help="A question or an answer.")]) -> None:
    """Show what a question's or an answer's file holds.

    The signature is not looked at: `fedkd file answer` and `fedkd file count` do that.

    Examples
    --------
    fedkd file show question.fedkd
    """
    from fedkd_flwr.report.terminal import one_line
    from fedkd_flwr.silo.letters import read_letter

    for line in _lines(read_letter(file, None)):
        typer.echo(one_line(line))


def _lines(letter: Letter) -> Iterator[str]:
    yield f"{letter.title}, for {', '.join(letter.parties)}" if letter.kind == "question" else letter.title
    yield f"digest  {letter.digest}" + (f"  answers {letter.about}" if letter.about else "")
    yield from (f"setting  {key} = {value!r}" for key, value in sorted(letter.settings.items()))
    for party, content in zip(letter.parties, letter.contents, strict=True):
        for arrays in content.array_records.values():
            for name, array in arrays.items():
                yield f"{party}  {name}: {array.dtype}, {list(array.shape)}, {len(array.data):,} bytes"
        for numbers in content.metric_records.values():
            yield from (f"{party}  {name} = {value!r}" for name, value in numbers.items())
        for plain in content.config_records.values():
            yield from (f"{party}  {name} = {value!r}" for name, value in plain.items())


def _settings(words: list[str], of: type[Config], keys: tuple[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return settings, and the paths of keys under ``[file]``, which start from the file's folder."""
    from fedkd_flwr.settings.run_settings import read_settings
    from fedkd_flwr.silo.letters import key_paths

    files = [Path(word).expanduser().absolute().parent for word in words if "=" not in word]
    return key_paths(read_settings(words, of=of), files[0] if files else Path.cwd(), keys)


def _say(step: Step) -> None:
    """Say what a server's command has done."""
    if step.record is None:
        typer.echo(f"run {step.run}: {step.question} is for {', '.join(step.parties)}. Then: fedkd file count")
        return
    from fedkd_flwr.report.table import summary_table

    typer.echo(summary_table(step.record))
    typer.echo(f"page    {step.folder / 'report.html'}\nresult  {step.question}, for {', '.join(step.parties)}")
