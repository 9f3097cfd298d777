"""Columns that only one party has: read beside the shared ones, for its own final model alone.

The public rows lack them, so what is known of them comes from the party's training rows: which kind each column is,
its median, deviation and categories. The encoder made here therefore holds figures of private rows, unlike a public
set's; it lies in the party's own model and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.column_look import look_at_column
from fedkd_flwr.data.columns import column_name, column_texts
from fedkd_flwr.data.decimal_sign import one_decimal_sign
from fedkd_flwr.data.encoder import Encoder
from fedkd_flwr.data.found_column import ColumnLook
from fedkd_flwr.data.preprocessor import Preprocessor, without_bad_cells
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.data.rules import NO_RULES
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import DataError, explain

__all__ = ["OwnColumns", "find_columns"]


def find_columns(
    table: pd.DataFrame, names: Sequence[str], schema: Schema
) -> tuple[tuple[Column, ...], dict[str, str]]:
    """Return how a party's own columns are read, and why others of them cannot be used.

    Each is looked at by itself, as a column of a user's table is (`fedkd_flwr.data.column_look`): one that cannot be
    read costs no other. Its categories are those of the rows given.

    Parameters
    ----------
    table : DataFrame
        Raw private rows.
    names : sequence of str
        The columns that the party's owner named.
    schema : Schema
        The shared columns and the label, which are nobody's own.

    Returns
    -------
    columns : tuple of Column
    left_out : dict of str to str
        Why, by column.
    """
    if schema.shape is not None:
        return (), dict.fromkeys(names, "the shared columns are the pixels of images")
    looked: list[ColumnLook] = []
    left_out: dict[str, str] = {}
    for name in dict.fromkeys(map(column_name, names)):
        if name == schema.label:
            left_out[name] = "it is the label"
        elif name in schema.column_names:
            left_out[name] = "it is a shared column already"
        elif name not in table.columns:
            left_out[name] = "the file has no such column"
        elif not any(text is not None for text in column_texts(table[name])):
            left_out[name] = "it is empty in every row"
        else:
            try:
                looked.append(look_at_column(table[name], name, NO_RULES))
            except DataError as error:
                left_out[name] = str(error)
    columns = []
    for seen in one_decimal_sign(looked, NO_RULES):
        if seen.problem or seen.kind == "left out":
            why = seen.problem or "; ".join(seen.notes)
            left_out[seen.name] = _HINT.sub("", why).replace("\0", "")
        else:
            kind: Any = seen.kind
            columns.append(Column(name=seen.name, kind=kind, categories=seen.categories, reading=seen.reading))
    return tuple(columns), left_out


_HINT = re.compile(r"\s*\([^()\0]*\0[^()]*\)")  # how a command for a whole table would say it otherwise


@dataclass(frozen=True, kw_only=True)
class OwnColumns:
    """A party's own columns, as its training rows show them.

    Parameters
    ----------
    columns : tuple of Column
        How they are read; at least one.
    preprocessor : Preprocessor
        Fitted on the party's training rows.
    left_out : mapping of str to str
        Columns that cannot be used, and why.
    """

    columns: tuple[Column, ...]
    preprocessor: Preprocessor
    left_out: Mapping[str, str]

    @classmethod
    def fit(cls, table: pd.DataFrame, names: Sequence[str], schema: Schema) -> OwnColumns:
        """Learn from a party's raw training rows how its own columns are encoded; parameters as `find_columns`.

        Raises
        ------
        DataError
            If none of the columns can be used.
        """
        columns, left_out = find_columns(table, names, schema)
        known = []
        for column in columns:
            try:
                _fitted(table, (column,), schema)
                known.append(column)
            except DataError as error:  # numbers too large to average
                left_out[column.name] = str(error)
        if not known:
            seen = "; ".join(f"{name}: {why}" for name, why in left_out.items())
            way_out = "fedkd check says what is wrong with each of them."
            raise DataError(explain("own-columns", "name a column that can be used", seen, way_out))
        return cls(columns=tuple(known), preprocessor=_fitted(table, tuple(known), schema), left_out=left_out)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are used."""
        return tuple(column.name for column in self.columns)

    def features(self, table: pd.DataFrame) -> NDArray[np.float32]:
        """Return the own columns of raw rows as features, shape (n, num_own), float32.

        A cell that cannot be read counts as empty: own columns never decide whether a row can be used.
        """
        return self.preprocessor.transform(without_bad_cells(table, self.columns))

    def encoder(self, public: PublicSet) -> Encoder:
        """Return what turns raw rows into the features of a model of all columns: the shared ones, then the own ones.

        Parameters
        ----------
        public : PublicSet
            The public set, as the party's model reads it: by numbers.
        """
        shared = public.schema
        if public.preprocessor is None:  # raw numbers are the features
            state: dict[str, Any] = {"numeric": {name: [0.0, 0.0, 1.0] for name in shared.column_names}, "terms": {}}
        elif isinstance(public.preprocessor, Preprocessor):
            state = public.preprocessor.state()
        else:
            way_out = "Give this party a model that reads numbers, such as random-forest."
            raise DataError(explain("own-columns", "be given to a model that reads numbers", "raw texts", way_out))
        own = self.preprocessor.state()
        merged = {key: {**state[key], **own[key]} for key in state}
        schema = replace(shared, columns=(*shared.columns, *self.columns))
        return Encoder(
            schema=schema,
            preprocessor=Preprocessor.restored(schema, merged),
            fingerprint=public.fingerprint,
            own=self.names,
        )


def _fitted(table: pd.DataFrame, columns: tuple[Column, ...], schema: Schema) -> Preprocessor:
    alone = Schema(columns=columns, classes=schema.classes, label=schema.label)
    return Preprocessor().fit(without_bad_cells(table, columns), alone)
