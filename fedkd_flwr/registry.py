"""What stands beside the core, as import strings: the core imports none of it, and finds it here.

The core is everything but ``silo``, ``baselines``, ``audit`` and ``text``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "BUNDLE",
    "CARDS",
    "CERTIFICATE",
    "COMMANDS",
    "DOOR",
    "GROUPS",
    "OWNERS_PAGE",
    "REHEARSAL",
    "SITE_RULES",
    "TEXT_MODEL",
    "load",
]

#: Modules of cards beside those of `fedkd_flwr.algorithms`.
CARDS = ("fedkd_flwr.baselines.cards",)

#: A node's door, the rules of its site, and its owner's page; what is wrong with a server's certificate; a rehearsal;
#: the bundle of an app.
DOOR = "fedkd_flwr.silo.egress:door_of"
SITE_RULES = "fedkd_flwr.silo.site_rules:rules_of"
OWNERS_PAGE = "fedkd_flwr.silo.owner:owners_page"
CERTIFICATE = "fedkd_flwr.silo.server_certificate:certificate_fault"
REHEARSAL = "fedkd_flwr.silo.rehearsal:rehearse"
BUNDLE = "fedkd_flwr.silo.bundles:build_bundle"

#: The pretrained nets that read texts.
TEXT_MODEL = "fedkd_flwr.text.transformers:TextTransformer"

_CLI = ["choose", "compare", "export", "predict", "report", "run", "runs", "schema", "simulate"]
_SILO = ["bundle", "check", "devnet", "ledger", "rehearse"]
#: The subcommands of ``fedkd``, as ``module:function``.
COMMANDS = (
    *(f"fedkd_flwr.cli.{name}:{name}" for name in _CLI),
    *(f"fedkd_flwr.cli.runs:{name}" for name in ("forget", "log", "stop")),
    *(f"fedkd_flwr.silo.cli.{name}:{name}" for name in _SILO),
    "fedkd_flwr.audit.cli:audit",
)
#: Groups of subcommands.
GROUPS = ("fedkd_flwr.silo.cli.egress:egress", "fedkd_flwr.silo.cli.node:node")


def load(name: str) -> Any:
    """Return the object that an import string ``package.module:attribute`` names."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
