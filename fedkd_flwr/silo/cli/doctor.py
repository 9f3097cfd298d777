"""The command ``fedkd doctor``: whether a silo or a server is ready for a run."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fedkd_flwr.cli.options import AsJson, echo, print_json
from fedkd_flwr.silo.cli.node import Insecure, Key, NodeText, NodeWords, RootCertificates, node_options, without_file

__all__ = ["doctor"]


def doctor(
    words: NodeWords = None,
    node_config: NodeText = "",
    superlink: Annotated[
        str, typer.Option(help="At a server: the SuperLink's name in Flower's configuration. At a silo: its host:port.")
    ] = "",
    root_certificates: RootCertificates = "",
    key: Key = "",
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> int:
    """Look whether a silo or a server is ready.

    A silo is told by its node config (data-path, party), a server by a run's settings, as `fedkd server run` takes
    them. Nothing is sent, charged or kept. Ends with 0 if all is ready, 1 with warnings, 3 if not ready.

    Examples
    --------
    fedkd doctor party=st-mary data-path=patients.csv public-path=public.csv state-dir=/srv/state
    fedkd doctor -- --superlink link.example.org:50800 --root-certificates ca.crt --node-config node.toml
    fedkd doctor my-run.toml --superlink ops
    """
    from fedkd_flwr.app.progress import ProgressLine
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
        from fedkd_flwr.silo.doctor import check_silo

        options += ["--superlink", superlink] if superlink else []
        from_options, link = read_supernode_options(options)
        findings = check_silo({**from_options, **values}, link=link, show=line.show)
    else:
        from fedkd_flwr.silo.doctor import check_server

        findings = check_server(without_file(read_settings(settings)), superlink=superlink or None, show=line.show)
    line.clear()
    if as_json:
        print_json(findings_json(findings))
    else:
        for text in as_text(findings):
            echo(text)
    sys.stdout.flush()
    return exit_code(findings)
