"""Look at a label that is no set of classes: grades, which have an order, or numbers, which are cut into bins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.data.choices import read_target
from fedkd_flwr.data.columns import canonical, column_texts, counted, short_list, sorted_texts
from fedkd_flwr.data.reading import Reading, column_numbers
from fedkd_flwr.data.rules import Rules
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.labels.target import Target, bins_at, bins_of

__all__ = ["ask_about_numbers", "label_numbers", "look_at_target"]

_MOST_CLASSES = 20  # of more different numbers it is asked what they are


def label_numbers(values: Any, label: str, rules: Rules) -> NDArray[np.float64]:
    """Return raw labels as numbers, NaN where there is none; `DataError` names what is no number."""
    reading = Reading(
        decimal=rules.decimal or ".", missing=rules.missing, unit=read_target(rules.target)[1].get("unit", "")
    )
    return column_numbers(values, label, reading)


def ask_about_numbers(values: Any, label: str, rules: Rules, command: Callable[[Mapping[str, str]], str]) -> None:
    """Refuse a label of many different numbers until it is said what they are; ``command`` is the next one."""
    texts = {text for text in column_texts(values, rules.missing) if text is not None}
    if rules.target or len(texts) <= _MOST_CLASSES or Reading(decimal=rules.decimal or ".").distinct([*texts])[1].any():
        return
    seen = f"{counted(len(texts), 'different number')} in {counted(len(values), 'row')}"
    ways = {"a number to estimate": "number", "grades with an order": "grades", "names of classes": "classes"}
    lines = [f"If they are {what}: {command({'target': kind})}" for what, kind in ways.items()]
    raise DataError("\n".join([explain(f"label column {label!r}", "be said what it is", seen), *lines]))


def look_at_target(values: Any, label: str, rules: Rules) -> tuple[Target, tuple[str, ...], dict[str, Any]]:
    """Return what classes of grades or a number stand for, their names, and what a note says; or `DataError`."""
    kind, given = read_target(rules.target)
    unit, order, edges = given.get("unit", ""), given.get("order", []), given.get("edges", [])
    if kind == "grades":
        texts = column_texts(values, rules.missing)
        classes = tuple(text for one in order if (text := canonical(str(one))) is not None)
        classes = classes or sorted_texts(texts)
        if unknown := sorted({text for text in texts if text is not None} - {*classes}):
            rule = f"hold only the grades of its order ({short_list(classes)})"
            raise DataError(explain(f"label column {label!r}", rule, short_list(list(map(repr, unknown)), 5)))
        numbers, bad = Reading().parse(np.array(classes, dtype=object))
        if bad.any() and not order:
            way_out = "Give target=\"grades(order=['mild', 'moderate', 'severe'])\", the lowest grade first."
            raise DataError(explain("grades without an order", "be numbers", short_list(classes, 6), way_out))
        target = Target(values=tuple(range(1, len(classes) + 1) if bad.any() else numbers.tolist()), unit=unit)
        missing, read_as = sum(text is None for text in texts), f"label, {len(classes)} grades"
        return target, classes, {"read_as": read_as, "missing": missing, "note": short_list(classes, 12)}
    numbers = label_numbers(values, label, rules)
    known = numbers[~np.isnan(numbers)]
    if not edges and len(np.unique(known)) < 2:
        raise DataError(explain(f"label column {label!r}", "hold two numbers or more", counted(len(known), "row")))
    how = "at the bounds given, each stands for its middle"
    if edges:
        target = bins_at([float(one) for one in edges], unit=unit)
        if outside := int(((known < target.edges[0]) | (known > target.edges[-1])).sum()):
            how += f"; {counted(outside, 'row')} outside all belong to the nearest"
    else:
        target = bins_of(known, given.get("bins", 10), unit=unit)
        how = "at quantiles of the whole table, each stands for its mean there: edges name public bounds"
    note = f"{short_list(target.names, 12)}{f' {target.unit}' if target.unit else ''}; {how}"
    read_as = f"label, a number in {len(target.values)} bins"
    return target, target.names, {"read_as": read_as, "missing": len(numbers) - len(known), "note": note}
