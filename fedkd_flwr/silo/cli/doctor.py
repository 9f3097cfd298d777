"""The command ``fedkd doctor``: whether a silo or a server is ready for a run."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fedkd_flwr.cli.options import AsJson, echo, print_json
from fedkd_flwr.silo.cli.node import Insecure, Key, NodeWords, RootCertificates, node_settings, without_file

__all__ = ["doctor"]


def doctor(
    words: NodeWords = None,
    superlink: Annotated[
        str, typer.Option(help="At a server: the SuperLink's name in Flower's configuration. At a silo: its host:port.")
    ] = "",
    root_certificates: RootCertificates = None,
    key: Key = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> int:
    """Look whether a silo or a server is ready.

    A silo is told by its node config (data-path, party), a server by a run's settings, as `fedkd server run` takes
    them. Nothing is sent, charged or kept. Ends with 0 if all is ready, 1 with warnings, 3 if not ready.

    Examples
    --------
    fedkd doctor party=st-mary data-path=patients.csv public-path=public.csv state-dir=/srv/state
    fedkd doctor node.toml --superlink link.example.org:50800 --root-certificates ca.crt
    fedkd doctor my-run.toml --superlink ops
    """
    from fedkd_flwr.app.progress import ProgressLine
    from fedkd_flwr.settings.config import RunConfig
    from fedkd_flwr.settings.node_config import NodeConfig
    from fedkd_flwr.settings.run_settings import read_settings
    from fedkd_flwr.silo.check import as_json as findings_json
    from fedkd_flwr.silo.check import as_text, exit_code
    from fedkd_flwr.silo.check_link import Link
    from fedkd_flwr.silo.doctor import check_server, check_silo

    values = node_settings(words)
    own = set(NodeConfig.keys().values()) - set(RunConfig.keys().values())
    line = ProgressLine()
    line.show("importing")
    if own & set(values):
        link = Link(superlink, insecure, root_certificates, key) if superlink else None
        findings = check_silo(values, link=link, show=line.show)
    else:
        settings = without_file(read_settings(words or []))
        findings = check_server(settings, superlink=superlink or None, show=line.show)
    line.clear()
    if as_json:
        print_json(findings_json(findings))
    else:
        for text in as_text(findings):
            echo(text)
    sys.stdout.flush()
    return exit_code(findings)
