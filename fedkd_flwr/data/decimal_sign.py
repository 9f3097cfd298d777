"""Decide for a whole file what commas and points in its numbers mean, where a column alone does not tell."""

from __future__ import annotations

from dataclasses import replace

from fedkd_flwr.data.found_column import ColumnLook
from fedkd_flwr.data.rules import Rules, mark
from fedkd_flwr.errors import explain

__all__ = ["one_decimal_sign"]


def one_decimal_sign(seen: list[ColumnLook], rules: Rules) -> list[ColumnLook]:
    """Read the columns whose commas or points may mean two things as the other columns of the file are read."""
    comma = any(one.kind == "numeric" and one.reading.decimal == "," for one in seen)
    point = any(one.kind == "numeric" and (one.shapes["point"] or one.shapes["thousands-comma"]) for one in seen)
    of_file = rules.decimal or ("," if comma else "." if point else "")
    done = []
    for one in seen:
        if one.kind != "numeric" or one.reading.dates or one.problem:
            done.append(one)
            continue
        shapes = one.shapes
        unclear = bool(shapes["comma?"]) and not (shapes["comma"] or shapes["thousands-comma"] or shapes["point"])
        if one.looked is not None and of_file == "," and shapes["point?"] and not shapes["point"]:
            one = one.looked(",")
        elif one.looked is not None and of_file == "," and not shapes["point"] and one.reading.decimal == ".":
            one.reading = replace(one.reading, decimal=",")  # whole numbers here; another silo may have decimals
        elif one.looked is not None and shapes["point?"] and not shapes["point"] and not rules.decimal:
            other = mark("decimal", ",")
            one.notes.append(f"three decimals each: read with a decimal point ({other} reads them as thousands)")
        elif unclear and not of_file:
            rule = "hold numbers that can be read in one way"
            one.problem = explain(f"column {one.name!r}", rule, f"commas before three digits only ({one.example})")
            one.choices = {
                "If 1,234 there means 1.234": {"decimal": ","},
                "If 1,234 means one thousand": {"decimal": "."},
            }
        elif unclear and of_file == "," and one.reading.thousands == ",":
            one.reading = replace(one.reading, decimal=",", thousands="")
        done.append(one)
    return done
