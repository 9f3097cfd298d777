"""What a user says about a messy table: columns to leave out, how cells are read, and what the label is."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice
from fedkd_flwr.data.choices import read_target
from fedkd_flwr.data.columns import canonical, column_name, column_texts, counted, short_list, sorted_texts
from fedkd_flwr.data.reading import Reading, column_numbers
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.labels.target import Target, bins_at, bins_of

__all__ = ["NO_RULES", "Rules", "ask_about_numbers", "label_numbers", "look_at_target", "spelt"]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the user says about a table; what is left empty is found by looking."""

    id_column: str = ""  # a column that is no feature
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()  # columns of free text
    decimal: str = ""  # the sign before the decimals; the other one then stands between thousands
    missing: tuple[str, ...] = ()  # further words for an empty cell, in every column, or as age:-999 in one
    date_order: str = ""  # "day-first" or "month-first": how dates are read whose order is not clear
    header: str = ""  # this and `encoding` are as for `fedkd_flwr.data.csv_table.csv_table`
    encoding: str = ""
    target: str = ""  # what the label is, as for `read_target`; empty: classes, but many numbers are asked about

    def __post_init__(self) -> None:
        object.__setattr__(self, "id_column", column_name(self.id_column))
        for key in ("drop", "text", "missing"):
            object.__setattr__(self, key, tuple(map(column_name, getattr(self, key))))
        read_target(self.target)
        check_choice("decimal", self.decimal, ("", ".", ","), error=DataError)
        check_choice("date-order", self.date_order, ("", "day-first", "month-first"), error=DataError)

    def words(self) -> dict[str, str]:
        """Return the rules that are set, as they stand in a command: ``{"id-column": "id", "drop": "a,b"}``."""
        values = {key.replace("_", "-"): getattr(self, key) for key in self.__dataclass_fields__}
        return {key: value if isinstance(value, str) else ",".join(value) for key, value in values.items() if value}

    def of_column(self, name: str, names: Iterable[str]) -> Rules:
        """Return the rules with the words for an empty cell that one of a table's columns has.

        >>> Rules(missing=("unknown", "age:0", "crp:-1")).of_column("age", ["age", "crp"]).missing
        ('unknown', '0')
        """
        if not any(":" in word for word in self.missing):
            return self
        by_length = sorted(names, key=len, reverse=True)  # a name may hold a colon, too
        owners = [next((one for one in by_length if word.startswith(f"{one}:")), None) for word in self.missing]
        pairs = zip(owners, self.missing, strict=True)
        words = (word if owner is None else word[len(owner) + 1 :] for owner, word in pairs if owner in (None, name))
        return replace(self, missing=tuple(words))


NO_RULES = Rules()


def spelt(key: str, value: str) -> str:
    """Return one rule as it stands in a command: ``'drop=patient id'``."""
    return shlex.quote(f"{key}={value}")


# ---------------------------------------------------- a label that is no set of classes, but grades or numbers

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
