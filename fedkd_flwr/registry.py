"""What stands beside the core, as import strings: the core imports none of it, and finds it here.

The core is everything but ``silo``, ``baselines``, ``audit`` and ``text``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["BUNDLE", "CARDS", "CERTIFICATE", "COMMANDS", "DOOR", "GROUPS", "SITE_RULES", "TASKS", "TEXT_MODEL", "load"]

#: Modules of cards beside those of `fedkd_flwr.algorithms`.
CARDS = ("fedkd_flwr.baselines.cards",)

#: A node's door, the rules of its site; a fault of a server's certificate; the bundle of an app.
DOOR = "fedkd_flwr.silo.door:door_of"
SITE_RULES = "fedkd_flwr.silo.site_rules:rules_of"
CERTIFICATE = "fedkd_flwr.silo.check_link:certificate_fault"
BUNDLE = "fedkd_flwr.silo.bundles:build_bundle"

#: The pretrained nets that read texts.
TEXT_MODEL = "fedkd_flwr.text.transformers:TextTransformer"

_CLI, _SILO = "fedkd_flwr.cli", "fedkd_flwr.silo.cli"
#: The commands of ``fedkd`` by their words, in the order of the help, as ``module:function``.
COMMANDS = {
    **{verb: f"{_CLI}.simulate:{verb}" for verb in ("simulate", "choose")},
    **{verb: f"{_CLI}.runs:{verb}" for verb in ("compare", "report")},
    **{verb: f"{_CLI}.predict:{verb}" for verb in ("predict", "export")},
    "settings": f"{_CLI}.settings:settings",
    "doctor": f"{_SILO}.doctor:doctor",
    "runs list": f"{_CLI}.runs:runs",
    "runs forget": f"{_CLI}.runs:forget",
    "server run": f"{_CLI}.server:run",
    "server bundle": f"{_SILO}.node:bundle",
    **{f"server {verb}": f"{_CLI}.server:{verb}" for verb in ("schema", "public")},
    **{f"node {verb}": f"{_SILO}.node:{verb}" for verb in ("run", "approve", "revoke")},
    "node list": f"{_SILO}.node:list_approved",
    "node ledger": f"{_SILO}.egress:ledger",
    **{f"node egress {verb}": f"{_SILO}.egress:{verb}" for verb in ("pending", "approve", "reject", "log", "verify")},
    **{f"file {verb}": f"{_SILO}.file:{verb}" for verb in ("ask", "show", "answer", "count")},
    "dev net": f"{_SILO}.net:net",
    "dev audit": "fedkd_flwr.audit.cli:audit",
}
#: Groups of commands, and what each is about.
GROUPS = {
    "runs": "The runs on this machine: list, forget.",
    "server": "Run a federation of real silos: the server's side.",
    "node": "Take part in a federation: a silo's side.",
    "node egress": "What leaves a silo: see, approve, reject, log.",
    "file": "Federate by files: no port, no SuperNode.",
    "dev": "Try a federation here, or attack a simulated one.",
}
#: What stands at the top of the help, by task.
TASKS = {
    "Simulate": ("simulate", "choose", "settings"),
    "Results": ("runs", "report", "compare", "predict", "export"),
    "Real silos": ("server", "node", "file", "doctor"),
    "Development": ("dev",),
}


def load(name: str) -> Any:
    """Return the object that an import string ``package.module:attribute`` names."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
