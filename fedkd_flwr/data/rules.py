"""What a user says about a messy table: columns to leave out, how cells are read, and what the label is."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fedkd_flwr.checks import check_choice
from fedkd_flwr.data.choices import read_target
from fedkd_flwr.data.columns import column_name
from fedkd_flwr.errors import DataError

__all__ = ["NO_RULES", "Rules", "spelt"]


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
