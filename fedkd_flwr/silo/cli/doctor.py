"""Before a run: ``fedkd doctor`` looks at one place, ``fedkd server rehearse`` at all of them together."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from fedkd_flwr.cli.options import AsJson, echo, print_json
from fedkd_flwr.cli.simulate import RunSettings
from fedkd_flwr.silo.cli.node import Insecure, Key, NodeText, NodeWords, RootCertificates, node_options, without_file

__all__ = ["doctor", "rehearse"]


def doctor(
    words: NodeWords = None,
    node_config: NodeText = "",
    superlink: Annotated[
        str, typer.Option(help="At a server: the SuperLink's name in Flower's configuration. At a silo: its host:port.")
    ] = "",
    root_certificates: RootCertificates = "",
    key: Key = "",
    insecure: Insecure = False,
    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="FILE.toml|KEY=VALUE", help="At a silo: settings of a run it is asked to join."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Look whether a silo or a server is ready.

    A silo is told by its node config (data-path, party), a server by a run's settings, as `fedkd server run` takes
    them. Nothing is sent, charged or kept. Ends with 0 if all is ready, 1 with warnings, 3 if not ready.

    Examples
    --------
    fedkd doctor party=st-mary data-path=patients.csv public-path=public.csv state-dir=/srv/state
    fedkd doctor -- --superlink link.example.org:50800 --root-certificates ca.crt --node-config node.toml
    fedkd doctor node.toml --run algorithm=fedkt --run fedkt.level=L2
    fedkd doctor my-run.toml --superlink ops
    """
    from fedkd_flwr.app.progress import ProgressLine
    from fedkd_flwr.errors import ConfigError, explain
    from fedkd_flwr.settings.config import RunConfig
    from fedkd_flwr.settings.node_config import NodeConfig
    from fedkd_flwr.settings.run_settings import read_settings
    from fedkd_flwr.silo.check import as_json as findings_json
    from fedkd_flwr.silo.check import as_text, exit_code
    from fedkd_flwr.silo.check_link import read_supernode_options

    settings, options, values = node_options(
        words,
        insecure=insecure,
        root_certificates=root_certificates,
        auth_supernode_private_key=key,
        node_config=node_config,
    )
    own = set(NodeConfig.keys().values()) - set(RunConfig.keys().values())
    line = ProgressLine()
    line.show("importing")
    if options or own & set(values):
        from fedkd_flwr.silo.check_silo import check_silo

        options += ["--superlink", superlink] if superlink else []
        from_options, link = read_supernode_options(options)
        asked = read_settings(run) if run else None
        findings = check_silo({**from_options, **values}, link=link, run=asked, show=line.show)
    elif run:
        way_out = "At a silo name its data-path, or give its --node-config."
        raise ConfigError(explain("--run", "be given at a silo", "settings of a server", way_out))
    else:
        from fedkd_flwr.silo.check_server import check_server

        findings = check_server(without_file(read_settings(settings)), superlink=superlink or None, show=line.show)
    line.clear()
    if as_json:
        print_json(findings_json(findings))
    else:
        for text in as_text(findings):
            echo(text)
    sys.stdout.flush()
    return exit_code(findings)


_ANSWERS = re.compile(r"(.*) answers")
_MISSING = re.compile(r"(.*) would be missing: ([a-z-]+)\. (.*)")


def rehearse(
    settings: RunSettings = None,
    superlink: Annotated[
        str, typer.Option(help="The SuperLink's name in Flower's configuration; by default its default.")
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Rehearse a run with constant labels.

    Every party answers through the real network. Says who would be missing, and why. Nothing private leaves a party,
    and no privacy ledger is charged. Settings are those of the run. Ends with 0 if everybody answers, 1 if somebody
    would be missing, 2 if the run would fail for too few answers.

    Examples
    --------
    fedkd server rehearse public-path=/srv/public.csv num-parties=3 --superlink ops
    fedkd server rehearse my-run.toml --superlink ops --json
    """
    from fedkd_flwr.app.progress import ProgressLine
    from fedkd_flwr.app.submit import follow, status, submit
    from fedkd_flwr.errors import FedkdError
    from fedkd_flwr.settings.run_settings import read_settings
    from fedkd_flwr.silo.rehearsal import WORD

    values = read_settings(settings or []) | {"rehearsal": True}
    line = ProgressLine()
    line.show("waiting for the parties")
    made = submit(values, superlink=superlink)
    said = [one.partition(WORD)[2].strip() for one in follow(made.run_id, superlink) if WORD in one]
    how, details = status(made.run_id, superlink)
    reason = "" if how == "finished:completed" else " ".join(details.split()) or how
    line.clear()
    answered = [found[1] for one in said if (found := _ANSWERS.fullmatch(one))]
    missing = [found.groups() for one in said if (found := _MISSING.fullmatch(one))]
    if not answered and not missing:
        raise FedkdError(reason or "The rehearsal ended without a word: see the log of the SuperLink.")
    code = 2 if reason else int(bool(missing))
    if as_json:
        parts = [{"party": name, "code": word, "what_to_do": text} for name, word, text in missing]
        print_json({"exit_code": code, "answered": answered, "missing": parts, "reason": reason})
        return code
    for text in said:
        typer.echo(text)
    if reason:
        typer.echo(f"error: the run would fail: {reason}", err=True)
    return code
