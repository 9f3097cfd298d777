"""How the label column of a table is read: as classes, grades, or a number in bins; what is not clear is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.cell_rules import NumberSigns, number_rule
from fedkd_flwr.data.choices import read_target
from fedkd_flwr.data.columns import canonical, column_texts, counted, factorize, missing_words, short_list, sorted_texts
from fedkd_flwr.data.reading import Reading, column_numbers
from fedkd_flwr.data.rules import Rules
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.labels.target import Target, bins_at, bins_of

__all__ = ["ask_about_missing", "ask_about_numbers", "label_numbers", "look_at_classes", "look_at_target"]

# Of more different numbers it is asked what they are, and more texts, of which most stand in one row, are no classes.
_MOST_CLASSES = 20


def label_numbers(values: Any, label: str, rules: Rules) -> NDArray[np.float64]:
    """Return raw labels as numbers, NaN where there is none; `DataError` names what is no number."""
    return column_numbers(values, label, _label_reading(values, rules))


def _label_reading(values: Any, rules: Rules) -> Reading:
    """Return how the label is read as a number; its own cells tell the sign before decimals that no rule names."""
    signs = NumberSigns([text for text in column_texts(values, rules.missing) if text is not None])
    reading = number_rule(signs, rules.decimal or signs.sign)
    return replace(reading, missing=rules.missing, unit=read_target(rules.target)[1].get("unit", "") or reading.unit)


def ask_about_numbers(values: Any, label: str, rules: Rules, command: Callable[[Mapping[str, str]], str]) -> None:
    """Refuse a label of many different numbers until it is said what they are; ``command`` is the next one."""
    texts = {text for text in column_texts(values, rules.missing) if text is not None}
    if rules.target or len(texts) <= _MOST_CLASSES or _label_reading(values, rules).distinct([*texts])[1].any():
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


def ask_about_missing(
    values: pd.Series[Any], label: str, rules: Rules, known: Rules, command: Callable[[Mapping[str, str]], str]
) -> None:
    """Refuse a label such as NA, which may be a class or mean that there is none, until ``missing`` names it."""
    if found := {word: number for word, number in missing_words(values).items() if word not in known.missing}:
        seen = ", ".join(f"{counted(number, 'row')} with {word!r}" for word, number in found.items())
        rule = "tell a class from a missing label"
        way_out = f"If {' and '.join(map(repr, found))} is a class, write it otherwise in the file, such as no-value."
        of_label = (word if "," in label else f"{label}:{word}" for word in found)  # other columns keep their notes
        words = rules.words() | {"missing": ",".join((*rules.missing, *of_label))}
        asked = explain(f"label column {label!r}", rule, seen, way_out)
        raise DataError(f"{asked}\nIf it means that the label is missing: {command(words)}")


def look_at_classes(
    values: pd.Series[Any], label: str, rules: Rules, rare: int, needs_label: bool
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the classes, and what a note says: rows without one, rare classes, classes that differ only in case."""
    texts = column_texts(values, rules.missing)
    codes, distinct = factorize(texts)
    counts = dict(zip(distinct, np.bincount(codes[codes >= 0], minlength=len(distinct)).tolist(), strict=True))
    classes, known = sorted_texts(distinct), sum(counts.values())
    if rules.target != "classes" and len(classes) > _MOST_CLASSES and 2 * len(classes) > known:
        seen = f"{len(classes):,} different values in {known:,} rows"
        way_out = "Name the column that holds the class, or put its values into a few groups first."
        raise DataError(explain(f"label column {label!r}", "hold classes", seen, way_out))
    emptied = column_texts(values)[codes < 0]
    words = sorted({text for text in emptied if text is not None})
    said = []
    if words:
        number = sum(text is not None for text in emptied)
        lost = f"{counted(number, 'row')} with {short_list(list(map(repr, words)), 3)}, which missing calls empty"
        if len(classes) < 2:
            seen, way_out = f"{len(classes)} beside {lost}", f"For one column alone: missing=COLUMN:{words[0]}."
            raise DataError(explain(f"label column {label!r}", "keep two classes or more", seen, way_out))
        said.append(f"no label for {lost}")
    if missing := len(texts) - known:
        first = int(np.flatnonzero(codes < 0)[0]) + 1
        done = ": left out" if needs_label else ""
        said.append(f"{counted(missing, 'row')} without a label (first: row {first}){done}")
    if few := [f"{name!r} ({counted(number, 'row')})" for name, number in counts.items() if number < rare]:
        said.append(
            f"rare: {short_list(sorted(few), 5)}, so figures of it say little, and most parties hold none"
            " (give forests, trees and logistic regression class_weight='balanced' in brackets, and compare runs with"
            " --by balanced-accuracy)"
        )
    alike = {name.casefold() for name in classes}
    if len(alike) < len(classes):
        twins = [name for name in classes if sum(name.casefold() == other.casefold() for other in classes) > 1]
        said.append(f"classes {short_list(twins, 6)} differ only in case, and are different classes")
    note = "; ".join([short_list(classes, 6), *said])
    return classes, {"read_as": f"label, {len(classes)} classes", "missing": missing, "note": note}
