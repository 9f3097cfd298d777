"""How commands are told a silo's node: its settings as words, the way to its SuperLink as options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from fedkd_flwr.cli.options import complete_node_settings

__all__ = ["Insecure", "Key", "NodeText", "NodeWords", "RootCertificates", "node_options", "without_file"]

NodeWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE.toml] [KEY=VALUE]... [-- SUPERNODE_OPTIONS]",
        help="The node's settings; behind -- further options as flower-supernode takes them.",
        autocompletion=complete_node_settings,
    ),
]
NodeText = Annotated[
    str, typer.Option("--node-config", help="Its settings as flower-supernode takes them: one text, or a TOML file.")
]
RootCertificates = Annotated[str, typer.Option("--root-certificates", help="At a silo: the CA's certificate.")]
Key = Annotated[str, typer.Option("--auth-supernode-private-key", help="At a silo: the node's private key.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="At a silo: connect without TLS.")]


def node_options(
    words: Sequence[str] | None, *, insecure: bool = False, **given: str
) -> tuple[list[str], list[str], dict[str, Any]]:
    """Return the words that are settings, the options of flower-supernode, and the node's settings of the words.

    ``given``: options by their names, with _ for -; "" is passed over.
    """
    from fedkd_flwr.settings.node_config import NodeConfig
    from fedkd_flwr.settings.run_settings import read_settings

    found = list(words or [])
    first = next((i for i, word in enumerate(found) if word.startswith("--")), len(found))
    options = found[first:] + ["--insecure"] * insecure
    for name, value in given.items():
        options += [f"--{name.replace('_', '-')}", value] if value else []
    values = read_settings(found[:first], of=NodeConfig)
    return found[:first], options, without_file(values)


def without_file(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without those of the section ``[file]``, which `fedkd file` alone reads."""
    return {key: value for key, value in values.items() if not key.startswith("file.")}
