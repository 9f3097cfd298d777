"""What stands beside the core, as import strings: the core imports none of it, and finds it here.

The core is everything but ``silo``, ``baselines``, ``audit`` and ``text``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["CARDS", "COMMANDS", "GROUPS", "load"]

#: Modules of cards beside those of `fedkd_flwr.algorithms`.
CARDS = ("fedkd_flwr.baselines.cards",)

_CLI = [
    "choose",
    "compare",
    "export",
    "forget",
    "log",
    "predict",
    "report",
    "run",
    "runs",
    "schema",
    "simulate",
    "stop",
    "bench",
]
_SILO = ["bundle", "check", "devnet", "ledger", "rehearse"]
#: The subcommands of ``fedkd``, as ``module:function``.
COMMANDS = (
    *(f"fedkd_flwr.cli.{name}:{name}" for name in _CLI),
    *(f"fedkd_flwr.silo.cli.{name}:{name}" for name in _SILO),
    "fedkd_flwr.audit.cli:audit",
)
#: Groups of subcommands.
GROUPS = ("fedkd_flwr.silo.cli.egress:egress", "fedkd_flwr.silo.cli.node:node")


def load(name: str) -> Any:
    """Return the object that an import string ``package.module:attribute`` names."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
