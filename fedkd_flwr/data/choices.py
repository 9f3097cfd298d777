"""Words with parameters in brackets that say how rows are dealt, and what a label is; no table is read for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedkd_flwr.checks import check_parameters, check_whole, read_word
from fedkd_flwr.errors import ConfigError, explain

__all__ = ["PARTITIONERS", "TARGETS", "read_target"]

PARTITIONERS: dict[str, tuple[str, ...]] = {
    "iid": (),
    "dirichlet": ("min_rows", "second_alpha", "class_order"),
    "inner-dirichlet": ("min_rows", "class_order"),
    "pathological": ("classes",),
    "shard": ("blocks",),
    "size-skewed": (),
    "file": ("index",),
}
"""Every way to deal rows, and the parameters of `partition` that may stand in its brackets."""

TARGETS: dict[str, tuple[str, ...]] = {"": (), "classes": (), "grades": ("order", "unit")}
TARGETS["number"] = ("bins", "edges", "unit")
"""What a label may be said to be, and the parameters that may stand in its brackets."""


def read_target(word: str) -> tuple[str, dict[str, Any]]:
    """Return what a label is said to be, and its parameters: ``bins`` and ``edges`` of numbers, ``order`` of texts.

    >>> read_target("number(edges=[0, 18, 65], unit='years')")
    ('number', {'edges': [0, 18, 65], 'unit': 'years'})

    Raises `ConfigError` if the word is none of `TARGETS`, or a parameter is none of its own or of another kind.
    """
    kind, given = read_word("target", word)
    if kind not in TARGETS:
        raise ConfigError(explain("target", "be classes, grades or number", kind))
    check_parameters(f"target {kind}", given, TARGETS[kind])
    check_whole("bins of target", given.get("bins", 10), 2, 100)
    edges = _list("edges", given)
    if not all(isinstance(one, int | float) for one in edges):
        raise ConfigError(explain("edges of target", "be numbers", edges, "Write for example: edges=[0, 18, 40, 65]."))
    _list("order", given)
    if not isinstance(given.get("unit", ""), str):
        raise ConfigError(explain("unit of target", "be text in quotes", given["unit"]))
    return kind, given


def _list(name: str, given: Mapping[str, Any]) -> list[Any]:
    if not isinstance(found := given.get(name, []), list):
        way_out = "Write for example: order=['mild', 'severe'], or edges=[0, 18, 40]."
        raise ConfigError(explain(f"{name} of target", "be a list", found, way_out))
    return found
