"""Every setting as a row: its key, default, rule and meaning, as the models of the settings declare them."""

from __future__ import annotations

from typing import NamedTuple

from fedkd_flwr.algorithms import cards, find_card
from fedkd_flwr.algorithms.card import Config
from fedkd_flwr.settings.config import RunConfig, reads
from fedkd_flwr.settings.node_config import NodeConfig

__all__ = ["SettingRow", "node_settings", "run_settings"]

_BY_COMMANDS = {"partition-id", "num-partitions"}
"""Set by Flower, never by hand."""


class SettingRow(NamedTuple):
    """One setting; its default is written as in a TOML file. ``first``: whether it is one of the few to know first."""

    key: str
    default: str
    rule: str
    meaning: str
    first: bool


def run_settings(algorithm: str = "") -> list[SettingRow]:
    """Return the settings of a run: of one algorithm, or of all."""
    chosen = [find_card(algorithm)] if algorithm else list(cards().values())
    rows = _rows(RunConfig, [name for name in dict(RunConfig.keys()) if any(reads(name, card) for card in chosen)])
    for card in chosen:
        for key, row in _rows(card.config, list(card.config.keys())).items():
            rows.setdefault(key, row)
    return sorted(rows.values(), key=lambda row: (row.key.startswith("paper."), "." in row.key, not row.first))


def node_settings() -> list[SettingRow]:
    """Return the settings of a node."""
    return sorted(_rows(NodeConfig, list(NodeConfig.keys())).values(), key=lambda row: not row.first)


def _rows(config: type[Config], names: list[str]) -> dict[str, SettingRow]:
    from fedkd_flwr.app.submit import toml

    keys, first = config.keys(), config.shown_first()
    return {
        key: SettingRow(key, toml(config.shown_default(name)), config.rule(name), config.meaning(name), key in first)
        for name in names
        if (key := keys[name]) not in _BY_COMMANDS
    }
