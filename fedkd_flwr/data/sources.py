"""A data set before it is split: raw rows, labels and class names; and the sets that need no data root.

`published` reads the named sets below a data root, `datasets` splits all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import column_texts, short_list, sorted_texts
from fedkd_flwr.data.public import PublicLabels, Table
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.data.write_schema import infer_schema
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.seeds import derive_seed

__all__ = ["EMBEDDED", "Source", "read_embedded", "read_user_table", "synthetic"]

EMBEDDED = {"digits": "load_digits", "breast-cancer": "load_breast_cancer", "wine": "load_wine"}


@dataclass(frozen=True, kw_only=True)
class Source:
    """One data set: raw rows, labels as positions in ``classes``, and the official test part if there is one."""

    table: Table
    y: NDArray[np.int16]
    classes: tuple[str, ...]
    label: str = "label"
    shape: tuple[int, ...] | None = None
    scale: bool = True
    schema: Schema | None = None  # given by the user; otherwise inferred from the public rows
    test_table: Table | None = None
    test_y: NDArray[np.int16] | None = None
    private_share: float = 0.5  # share of the rows; the others become public and test rows, half each
    public_table: Table | None = None  # public rows of another data set
    public_labels: PublicLabels | None = None  # their labels

    def schema_of(self, public_rows: Table) -> Schema:
        """Return the schema; its categories come from the public rows only."""
        if self.schema is not None:
            return self.schema
        if self.shape is not None:
            return Schema(columns=(), classes=self.classes, label=self.label, shape=self.shape)
        if isinstance(public_rows, np.ndarray):
            names = [f"f{i + 1}" for i in range(public_rows.shape[1])]
            public_rows = pd.DataFrame(public_rows, columns=names)
        return infer_schema(public_rows, classes=self.classes, label=self.label)


def synthetic(*, rows: int, features: int, classes: int, seed: int) -> Source:
    """Draw a classification problem from the seed, so hard that a forest learns most of it but not all.

    Raises
    ------
    DataError
        If there are too few features for the number of classes (2 ** features < classes), or too few rows.
    """
    from sklearn.datasets import make_classification

    if not (classes >= 2 and features >= 2 and 2**features >= classes):
        raise DataError(explain("synthetic-features", f"be >= 2 and place {classes} (>= 2) classes apart", features))
    if not rows >= 4 * classes:
        raise DataError(explain("synthetic-rows", f"be >= {4 * classes} for {classes} classes", rows))
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


def read_user_table(table: str, label: str, *, schema_path: str = "", test_file: str = "") -> Source:
    """Read a user's labelled file for a simulation.

    Without a schema the classes come from the file, because the operator of a simulation holds all rows anyway.

    Raises
    ------
    DataError
        If a file or the label column is missing, or there are fewer than two classes.
    """
    schema = Schema.read(schema_path) if schema_path else None
    label = schema.label if schema is not None else (label or "label")
    frame = read_table(table, label=label, num_features=len(schema.columns) if schema is not None else 0)
    if label not in frame.columns:
        way_out = f"Its columns are {short_list(list(frame.columns))}."
        raise DataError(explain("label", f"be a column of {table}", label, way_out))
    texts = column_texts(frame[label])
    classes = schema.classes if schema is not None else sorted_texts(texts)
    if len(classes) < 2:
        raise DataError(explain(f"label column {label!r}", "hold at least two classes", f"C = {len(classes)}"))
    encoder = schema or Schema(columns=(), classes=classes, label=label, shape=(1,))
    test_table, test_y = None, None
    if test_file:
        test_table = read_table(test_file, label=label, num_features=frame.shape[1] - 1)
        if label not in test_table.columns:
            raise DataError(explain("label", f"be a column of {test_file}", label))
        test_y = encoder.encode_labels(test_table.pop(label))
    y = encoder.encode_labels(frame.pop(label))
    return Source(table=frame, y=y, classes=classes, label=label, schema=schema, test_table=test_table, test_y=test_y)


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
