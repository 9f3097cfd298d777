"""Sentences about keys that nobody knows, and settings that nobody reads in this run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fedkd_flwr.algorithms import Card, cards
from fedkd_flwr.checks import nearest
from fedkd_flwr.errors import explain
from fedkd_flwr.settings.node_config import NodeConfig

__all__ = ["not_read", "unknown", "unread_by"]


def unknown(what: str, key: str, values: Mapping[str, Any], known: Iterable[str]) -> str:
    """Return a sentence with the key that was meant: one of that name in a section, or out of it; else one alike."""
    keys, name = sorted(known), key.rpartition(".")[2]
    near = [one for one in keys if one.rpartition(".")[2] == name]
    near = near or nearest(key, [one for one in keys if one not in values]) or nearest(key, keys)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known keys: {', '.join(keys)}."
    if what == "run config key" and key in NodeConfig.keys().values():
        hint = "It is a party's own setting: give it in the node config."
    return explain(f"{what} {key}", "be a known key", values[key], hint)


def not_read(key: str, value: Any, card: Card) -> Iterator[str]:
    """Yield a sentence where a setting of other algorithms has another value than its default."""
    readers = {
        name: one.config.default(field)
        for name, one in cards().items()
        for field, its_key in one.config.keys().items()
        if its_key == key
    }
    default = next(iter(readers.values()))
    if isinstance(value, bool) is not isinstance(default, bool) or value != default:
        own = [one for one in card.config.keys().values() if re.split(r"[.-]", one)[-1] == key]
        yield unread_by(key, value, card.name, list(readers), own)


def unread_by(key: str, value: Any, algorithm: str, readers: list[str], own: Sequence[str] = ()) -> str:
    """Return a sentence with the settings alike that the algorithm has, else with the algorithms that have this one."""
    instead = f"; {algorithm} has {' and '.join(own)}" if own else f", or use {' or '.join(readers)}"
    way_out = f"It would be ignored: drop it{instead}."
    return explain(key, f"not be set for {algorithm}", value, way_out)
