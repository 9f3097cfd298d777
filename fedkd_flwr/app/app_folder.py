"""The Flower app that this package is, as a folder for ``flwr run``: the checkout, or one made for the purpose."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Iterable
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

from fedkd_flwr.algorithms import Card, cards
from fedkd_flwr.algorithms.card import Config
from fedkd_flwr.settings.config import RunConfig

__all__ = ["app_folder", "run_config_toml", "settings_of", "toml"]

_PACKAGE = Path(__file__).parents[1]
_PROJECT = """[project]
name = "fedkd-flwr"
version = {version}
description = {description}
license = "Apache-2.0"

[tool.flwr.app]
publisher = "fedkd"

[tool.flwr.app.components]
serverapp = "fedkd_flwr.app.server_app:app"
clientapp = "fedkd_flwr.app.client_app:app"

[tool.flwr.app.config]
"""


def app_folder(scratch: Path) -> Path:
    """Return the folder of this app: the checkout that this package is imported from, else one made in ``scratch``.

    Equal releases make equal folders, and so equal bundles.
    """
    checkout = _PACKAGE.parent / "pyproject.toml"
    if checkout.is_file() and "flwr" in tomllib.loads(checkout.read_text(encoding="utf-8")).get("tool", {}):
        return checkout.parent
    made = scratch / "app"
    shutil.copytree(_PACKAGE, made / _PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    about = metadata("fedkd-flwr")
    head = _PROJECT.format(version=json.dumps(about["Version"]), description=json.dumps(about["Summary"]))
    (made / "pyproject.toml").write_text(head + run_config_toml(cards().values()) + "\n", encoding="utf-8")
    return made


def settings_of(chosen: Iterable[Card]) -> dict[str, tuple[type[Config], str, list[Card]]]:
    """Return each algorithm's setting once: key -> (a class that has it, field name, the algorithms that read it)."""
    found: dict[str, tuple[type[Config], str, list[Card]]] = {}
    for card in chosen:
        for name, key in card.config.keys().items():
            found.setdefault(key, (card.config, name, []))[2].append(card)
    return dict(sorted(found.items(), key=lambda item: ("." in item[0], item[0])))


def run_config_toml(chosen: Iterable[Card], *, general: bool = True) -> str:
    """Return the run config's defaults as TOML, sections last."""
    lines: list[str] = []
    sections: dict[str, list[str]] = {}
    every: list[tuple[str, type[Config], str]] = []
    if general:
        every += [(key, RunConfig, name) for name, key in RunConfig.keys().items()]
    every += [(key, config, name) for key, (config, name, _) in settings_of(chosen).items()]
    for key, config, name in every:
        section, _, last = key.rpartition(".")
        line = f"{last} = {toml(config.default(name))}"
        (sections.setdefault(section, []) if section else lines).append(line)
    for section, entries in sections.items():
        lines += ["", f"[tool.flwr.app.config.{section}]", *entries]
    return "\n".join(lines)


def toml(value: Any) -> str:
    """Return a plain value as TOML."""
    if isinstance(value, str) or value is True or value is False:
        return json.dumps(value)
    return "inf" if value == float("inf") else repr(value)
