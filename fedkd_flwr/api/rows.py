"""A user's rows, in whatever form they come, as settings of a run; and the values that its class names stand for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedkd_flwr.algorithms import find_card
from fedkd_flwr.checks import check_whole, meant
from fedkd_flwr.data import datasets
from fedkd_flwr.data.columns import canonical, factorize, short_list
from fedkd_flwr.data.tables import giving, lacking
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.settings.config import RunConfig

__all__ = ["class_values", "free_name", "given_rows", "settings_of", "table_of"]

_FORMS = "be a table, (X, y), tables by party, a file, a folder, files, or the name of a data set"


@contextmanager
def given_rows(
    data: Any, *, label: str, parties: Any = None, public: Any = None, test: Any = None
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the settings that name a user's rows, and the values of classes by name; parameters as of `simulate`.

    Data of none of the known forms, or ``parties`` that do not fit them, are a `DataError`.
    """
    with ExitStack() as held:
        settings, values = _named_data(data), dict[str, Any]()
        if settings is None:
            table, column = _one_table(data, label, parties)
            settings = {"table": held.enter_context(giving(table)), "label": label}
            values = class_values(table[label]) if label in table else {}
            settings |= {"partition-column": column} if column else {}
        elif isinstance(parties, str):
            settings["partition-column"] = parties
        if isinstance(parties, int | np.integer):
            settings["num-parties"] = check_whole("parties", parties, 1)
        if {"table", "tables"} & settings.keys():
            settings |= {"dataset": "table", "label": label}
        for key, rows in (("public-rows", public), ("test-table", test)):
            if isinstance(rows, str | os.PathLike):
                settings[key] = str(Path(rows).expanduser().absolute())
            elif rows is not None:
                settings[key] = held.enter_context(giving(table_of(rows, label)))
        yield settings, values


def _named_data(data: Any) -> dict[str, Any] | None:
    """Return the settings of a data set's name, of a file, or of one file for each party; None for anything else."""
    if isinstance(data, str) and data in datasets.NAMES:
        return {"dataset": data}
    if isinstance(data, str | os.PathLike):
        path = Path(data).expanduser().absolute()
        return {"tables" if path.is_dir() else "table": str(path)}
    if isinstance(data, list) and data and all(isinstance(one, str | os.PathLike) for one in data):
        return {"tables": ",".join(str(Path(one).expanduser().absolute()) for one in data)}
    return None


def _one_table(data: Any, label: str, parties: Any) -> tuple[pd.DataFrame, str]:
    """Return all rows as one table, and the column that says whose row each is, "" where none does."""
    if isinstance(data, Mapping) and not hasattr(data, "columns"):
        if parties is not None:
            raise DataError(explain("parties", "not be given with tables by party", parties, "Leave it out."))
        tables = {str(name): table_of(rows, label) for name, rows in data.items()}
        if not tables:
            raise DataError(explain("data", _FORMS, "an empty dict"))
        if none := [name for name, rows in tables.items() if not len(rows)]:
            raise DataError(explain(f"party {none[0]!r}", "hold at least one row", "none", "Leave it out."))
        column = free_name("party", [name for one in tables.values() for name in one.columns])
        whole = pd.concat([one.assign(**{column: name}) for name, one in tables.items()], ignore_index=True)
        whole.attrs["lacks"] = {canonical(party): columns for party, columns in lacking(tables).items()}
        return whole, column
    table = table_of(data, label)
    if parties is None or isinstance(parties, int | np.integer):
        return table, ""
    if isinstance(parties, str):
        if parties not in table.columns:
            way_out = meant(parties, table.columns, f"Its columns are {short_list(list(table.columns))}.")
            raise DataError(explain("parties", "be a column, one name a row, or a number", parties, way_out))
        return table, parties
    names = _values(parties)
    if np.ndim(names) != 1 or len(names) != len(table):
        seen = f"{len(names)} names" if np.ndim(names) == 1 else type(parties).__name__
        raise DataError(explain("parties", f"have one name for each of {len(table)} rows", seen))
    column = free_name("party", table.columns)
    return table.assign(**{column: names}), column


def free_name(name: str, taken: Any) -> str:
    """Return a name that no column has, as like this one as can be."""
    while name in taken:
        name += "_"
    return name


def table_of(data: Any, label: str = "") -> pd.DataFrame:
    """Return a frame of pandas, polars or pyarrow, an array, or a pair (X, y) as one table with an index from 0.

    Columns of an array are ``x0``, ``x1`` and so on; ``y`` becomes column ``label``. Anything else, or X and y of other
    lengths, is a `DataError`.

    >>> table_of(([[1.5], [2.5]], ["no", "yes"]), "outcome").columns.tolist()
    ['x0', 'outcome']
    """
    if isinstance(data, tuple) and len(data) == 2:
        table, y = table_of(data[0]), _values(data[1])
        if len(table) != len(y):
            raise DataError(explain("X and y", "have equally many rows", f"{len(table)} and {len(y)}"))
        if label in table.columns:
            raise DataError(explain("label", "be no column of X beside y", label, 'Name y otherwise: label="outcome".'))
        return table.assign(**{label: y})
    if hasattr(data, "to_pandas"):
        data = data.to_pandas()
    if not isinstance(data, pd.DataFrame):
        rows = np.asarray(data) if isinstance(data, np.ndarray | Sequence) and not isinstance(data, str) else None
        if rows is None or rows.ndim != 2:
            seen = type(data).__name__ if rows is None else f"an array of shape {rows.shape}"
            way_out = "A frame of another library: give its .to_pandas()."
            raise DataError(explain("data", _FORMS, seen, way_out))
        data = pd.DataFrame(rows, columns=[f"x{i}" for i in range(rows.shape[1])])
    named: pd.DataFrame = data.set_axis([str(name) for name in data.columns], axis=1)
    return named.reset_index(drop=True)


def _values(column: Any) -> Any:
    """Return a column as pandas or NumPy holds it, without an index that could match other rows."""
    column = column.to_pandas() if hasattr(column, "to_pandas") else column
    return column.array if isinstance(column, pd.Series) else np.asarray(column)


def class_values(labels: Any) -> dict[str, Any]:
    """Return by the name that a run gives each class what the user's column holds.

    >>> class_values(pd.Series([0.0, 1.0, None]))
    {'0': 0.0, '1': 1.0}
    """
    found: dict[str, Any] = {}
    for value in factorize(labels)[1]:
        if (name := canonical(value)) is not None:
            found.setdefault(name, value.item() if isinstance(value, np.generic) else value)
    return found


def settings_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords in snake_case as a run config writes them; None is passed over.

    >>> settings_of({"algorithm": "fedct", "quorum": 0.8, "drop": ["name", "id"]})
    {'algorithm': 'fedct', 'fedct.quorum': 0.8, 'drop': 'name,id'}
    >>> settings_of({"algorithm": "fedkt", "fedkt_level": "L1"})
    {'algorithm': 'fedkt', 'fedkt.level': 'L1'}
    """
    own = find_card(str(given.get("algorithm", RunConfig.default("algorithm")))).config
    keys = {**own.keys(), **RunConfig.keys()}
    keys |= {key.replace(".", "_").replace("-", "_"): key for key in keys.values()}
    return {keys.get(n, n.replace("_", "-")): _plain(value) for n, value in given.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(str, value))
    if isinstance(value, os.PathLike):
        return str(Path(value).expanduser().absolute())
    return value.item() if isinstance(value, np.generic) else value
