"""A data set before it is split: raw rows, labels and class names; and the sets that need no data root."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.checks import check_whole, meant
from fedkd_flwr.data.columns import column_name, column_texts, counted, short_list, sorted_texts
from fedkd_flwr.data.label_look import label_numbers
from fedkd_flwr.data.look import NO_RULES, ColumnNote, Look, Rules, infer_schema, look_at_table, schema_of
from fedkd_flwr.data.public import PublicLabels, Table
from fedkd_flwr.data.schema import Column, Schema, labels_of
from fedkd_flwr.data.tables import named_alike, party_files, read_table, read_tables, truth
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.labels.target import Target
from fedkd_flwr.seeds import derive_seed

__all__ = ["EMBEDDED", "Source", "read_embedded", "read_user_table", "synthetic", "with_public", "with_test"]

_ABSENT = "Give all columns, or no public rows: a quarter of the rows is held out then."
EMBEDDED = {"digits": "load_digits", "breast-cancer": "load_breast_cancer", "wine": "load_wine"}


@dataclass(frozen=True, kw_only=True)
class Source:
    """One data set: raw rows, labels as positions in ``classes``, and the official test part if there is one."""

    table: Table
    y: NDArray[np.int16]
    classes: tuple[str, ...]
    label: str = "label"
    shape: tuple[int, ...] | None = None
    schema: Schema | None = None  # given by the user; otherwise inferred from the public rows
    test_table: Table | None = None
    test_y: NDArray[np.int16] | None = None
    private_share: float = 0.5  # share of the rows; the others become public and test rows, half each
    public_table: Table | None = None  # public rows that are not among these
    public_y: NDArray[np.int16] | None = None  # their true labels, which nobody learns from
    public_labels: PublicLabels | None = None  # those of another data set, which all may learn from
    looked: Look | None = None  # what was found in a user's table
    rows_left_out: int = 0  # rows of a user's table without a label
    parties: NDArray[np.object_] | None = None  # the party that each row of ``table`` is of, where the data say so
    lacks: Mapping[str, Sequence[str]] = field(default_factory=dict)  # columns that parties' own tables do not have
    numbers: NDArray[np.float64] | None = None  # what the label column held, where classes are bins of it
    test_numbers: NDArray[np.float64] | None = None

    @property
    def target(self) -> Target | None:
        """What the classes stand for, where they have an order."""
        of = self.schema or self.looked
        return None if of is None else of.target

    def schema_of(self, public_rows: Table) -> Schema:
        """Return the schema; its categories come from the public rows only."""
        if self.schema is not None:
            return self.schema
        if self.shape is not None:
            return Schema(columns=(), classes=self.classes, label=self.label, shape=self.shape)
        if self.looked is not None and not isinstance(public_rows, np.ndarray):
            if absent := [one.name for one in self.looked.columns if one.name not in public_rows.columns]:
                seen = f"none of the name {short_list(absent)}"
                raise DataError(explain("public rows", "have each column that parties learn from", seen, _ABSENT))
            columns = tuple(_categories_of(column, public_rows) for column in self.looked.columns)
            return replace(schema_of(self.looked, public_rows, label=self.label, classes=self.classes), columns=columns)
        if isinstance(public_rows, np.ndarray):
            names = [f"f{i + 1}" for i in range(public_rows.shape[1])]
            public_rows = pd.DataFrame(public_rows, columns=names)
        return infer_schema(public_rows, classes=self.classes, label=self.label)


def _categories_of(column: Column, public_rows: pd.DataFrame) -> Column:
    if column.kind != "categorical":
        return column
    texts = column_texts(public_rows[column.name], column.reading.missing)
    return replace(column, categories=sorted_texts(texts))


def synthetic(*, rows: int = 5000, features: int = 20, classes: int = 3, seed: int) -> Source:
    """Draw a classification problem from the seed, so hard that a forest learns most of it but not all."""
    from sklearn.datasets import make_classification

    for name, value in (("rows", rows), ("features", features), ("classes", classes)):
        check_whole(f"{name} of synthetic", value, 2)
    if not 2**features >= classes:
        raise DataError(explain("features of synthetic", f"place {classes} classes apart", features))
    if not rows >= 4 * classes:
        raise DataError(explain("rows of synthetic", f"be >= {4 * classes} for {classes} classes", rows))
    # measured: 50 trees on half the rows reach 0.84 to 0.96 for 2 to 20 classes and 2 to 100 features
    informative = min(features, max(math.ceil(math.log2(classes)) + 1, min(8, features // 2)))
    X, y = make_classification(
        n_samples=rows,
        n_features=features,
        n_informative=informative,
        n_redundant=min(features - informative, informative // 2),
        n_classes=classes,
        n_clusters_per_class=1,
        class_sep=0.4 + 0.45 * math.log2(classes),
        flip_y=0.05,
        random_state=derive_seed(seed, "synthetic-data"),
    )
    names = tuple(f"class-{i}" for i in range(classes))
    return Source(table=X.astype(np.float32), y=y.astype(np.int16), classes=names)


def read_user_table(
    table: str = "",
    label: str = "",
    *,
    tables: str = "",
    partition_column: str = "",
    schema_path: str = "",
    rules: Rules = NO_RULES,
    command: Sequence[str] | None = (),
    rare: int = 0,
) -> Source:
    """Read a user's labelled file for a simulation, or with ``tables`` one file for each party (`party_files`).

    Without a schema the classes come from the file, and so does how each column is read (`look`), because the operator
    of a simulation holds all rows anyway. Rows without a label are then left out.

    ``partition_column`` names the column that says whose row it is. ``command`` are the further words of the command
    that the user gave, for the complete next one; None: a program called, and is told what to add. A class
    with fewer than ``rare`` rows is named, or one with fewer than ten.
    """
    schema = Schema.read(schema_path) if schema_path else None
    label = schema.label if schema is not None else column_name(label or "label")
    how: dict[str, Any] = {} if schema else {"label": label, "header": rules.header, "encoding": rules.encoding}
    said: list[str] = []
    parties: NDArray[np.object_] | None = None
    if tables:
        frame, parties = read_tables(party_files(tables), schema, notes=said, **how)
    else:
        frame = read_table(table, schema, notes=said, **how)
    name = tables or table
    given = {"dataset": "table", "tables" if tables else "table": name, "label": label}

    notes: tuple[ColumnNote, ...] = ()
    if partition_column:
        partition_column = column_name(partition_column)
        parties = _parties_of(frame, partition_column, label, name)
        notes = (ColumnNote(name=partition_column, read_as="left out: it says whose row it is"),)
    if label not in frame.columns:
        way_out = meant(label, frame.columns, f"Its columns are {short_list(list(frame.columns))}.")
        raise DataError(explain("label", f"be a column of {name}", label, way_out))
    lacks = frame.attrs.get("lacks", {})
    said += named_alike(lacks, 0 if parties is None else len(set(parties)))
    looked, labelled, own_rules = None, np.ones(len(frame), dtype=bool), rules.of_column(label, frame.columns)
    if schema is None:
        looked = look_at_table(
            frame, label, rules, said=said, command=partial(_command, given, command), rare=max(rare, 10)
        )
        looked = replace(looked, notes=(*looked.notes, *notes))
        labelled = np.array([text is not None for text in column_texts(frame[label], own_rules.missing)])
    found: Schema | Look = schema or looked  # type: ignore[assignment]  # one of the two is there
    if len(found.classes) < 2:
        raise DataError(explain(f"label column {label!r}", "hold at least two classes", f"C = {len(found.classes)}"))
    frame = frame if labelled.all() else frame[labelled].reset_index(drop=True)
    values, target = frame.pop(label), found.target
    numbers = label_numbers(values, label, own_rules) if target is not None and target.is_number else None
    return Source(
        table=frame,
        y=labels_of(values if numbers is None else numbers, found.classes, label, target),
        classes=found.classes,
        label=label,
        shape=found.shape,
        schema=schema,
        looked=looked,
        rows_left_out=int((~labelled).sum()),
        parties=parties[labelled] if parties is not None else None,
        lacks=lacks,
        numbers=numbers,
    )


def _command(given: dict[str, str], further: Sequence[str] | None, words: Mapping[str, str]) -> str:
    """Return the complete command that adds some words to what was given, or what to add to a call."""
    if further is None:
        keywords = [f"{key.replace('-', '_')}={value!r}" for key, value in words.items()]
        return f"the same call with {', '.join(keywords)}"
    return shlex.join(["fedkd", "simulate", *(f"{key}={value}" for key, value in {**given, **words}.items()), *further])


def _parties_of(frame: pd.DataFrame, column: str, label: str, name: str) -> NDArray[np.object_]:
    """Take the column that says whose row it is out of a table, and return it."""
    if column not in frame.columns or column == label:
        known = [one for one in frame.columns if one != label]
        way_out = meant(column, known, f"Its columns are {short_list(known)}.")
        raise DataError(explain("partition-column", f"be a column of {name}, and not the label", column, way_out))
    parties = column_texts(frame.pop(column))
    if without := sum(party is None for party in parties):
        way_out = "Fill them in, or take these rows out."
        rule, seen = "say of each row whose it is", f"{counted(without, 'empty cell')}"
        raise DataError(explain(f"partition-column {column!r}", rule, seen, way_out))
    if not 2 <= len(names := sorted_texts(parties)) <= len(parties) / 2:
        way_out = "Name a column that holds one name for each party, such as its hospital."
        seen = f"{counted(len(names), 'different value')} in {counted(len(parties), 'row')}: {short_list(names, 5)}"
        rule = "name two parties or more, of many rows"
        raise DataError(explain(f"partition-column {column!r}", rule, seen, way_out))
    return parties


def with_test(source: Source, path: str, rules: Rules = NO_RULES) -> Source:
    """Return a user's table with test rows from a file of their own; those without a label are left out."""
    label = source.label
    rows = read_table(path, source.schema, label=label, header=rules.header, encoding=rules.encoding)
    labelled = np.zeros(len(rows), dtype=bool)
    if label in rows.columns:
        words = rules.of_column(label, rows.columns).missing
        labelled = np.array([text is not None for text in column_texts(rows[label], words)])
    if not labelled.any():
        raise DataError(explain("test-table", f"hold rows with a label {label!r}", f"none in {path}"))
    rows = rows[labelled].reset_index(drop=True)
    values: Any = rows.pop(label)
    numbers = None
    if source.numbers is not None:
        values = numbers = label_numbers(values, label, rules.of_column(label, [*rows.columns, label]))
    y = labels_of(values, source.classes, label, source.target)
    return replace(source, test_y=y, test_table=rows, test_numbers=numbers)


def with_public(source: Source, path: str, *, schema_path: str = "", rules: Rules = NO_RULES) -> Source:
    """Return a data set with public rows from a file of their own, which need no label.

    They are read by ``schema_path``, else ``schema.toml`` beside them; a user's table may do without either.
    """
    schema, beside = source.schema, Path(schema_path or Path(path).parent / "schema.toml")
    if schema is None and Path(path).is_file() and beside.is_file():
        schema = Schema.read(beside)
        if unknown := [name for name in source.classes if name not in schema.classes]:
            rule = f"name each class of the data, {short_list(source.classes)}"
            raise DataError(explain(f"schema {beside}", rule, f"no {short_list(unknown)}"))
    if schema is None and source.looked is None:
        rule = "be a file with schema.toml beside it, unless dataset is table"
        raise DataError(explain("public-rows", rule, path, "Make the schema: fedkd server schema."))
    rows = read_table(path, schema, label=source.label, header=rules.header, encoding=rules.encoding)
    read_by = source.schema_of(rows) if schema is None else schema
    found: dict[str, Any] = {"classes": read_by.classes, "schema": schema, "public_table": rows, "public_labels": None}
    found["public_y"] = truth(rows, read_by)
    # classes by name: the file's schema may have them in another order
    places = np.array([read_by.classes.index(name) for name in source.classes], dtype=np.int16)
    found |= {"y": places[source.y], "test_y": None if source.test_y is None else places[source.test_y]}
    return replace(source, **found)


def read_embedded(name: str) -> Source:
    """Return one of the sets of `EMBEDDED`, which come with scikit-learn."""
    import sklearn.datasets

    data: Any = getattr(sklearn.datasets, EMBEDDED[name])()
    names = [str(name) for name in data.feature_names]
    return Source(
        table=pd.DataFrame(data.data, columns=names),
        y=data.target.astype(np.int16),
        classes=tuple(str(name) for name in data.target_names),
    )
