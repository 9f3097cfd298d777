"""A trained model as one file that answers for raw rows, in any process: model, schema, encoder and class names."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import r2_score
from sklearn.utils import RegressorTags

from fedkd_flwr.data.columns import canonical, column_name, column_texts, short_list
from fedkd_flwr.data.preprocessor import Table, check_columns, column_of
from fedkd_flwr.data.public import Encoder, PublicSet
from fedkd_flwr.errors import DataError, ModelBytesError, explain, printable
from fedkd_flwr.files import write_atomic
from fedkd_flwr.labels.priors import class_shares
from fedkd_flwr.models import serialize
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.populations import Answering

logger = logging.getLogger(__name__)

__all__ = ["SavedModel", "load", "pack", "save", "unpack"]


@dataclass(kw_only=True, repr=False, eq=False)  # not frozen: pipelines of scikit-learn set attributes of their own
class SavedModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A trained model and what turns raw rows into its features; a fitted classifier for scikit-learn's tools.

    ``shares``: class shares of the rows that are asked about; by default the owner's where the file has them, as a
    party's has, else those that the model was taught with. Raises `ModelBytesError` if the parts do not fit together.
    """

    classifier: Classifier  # reads features and answers with numbers of classes
    encoder: Encoder  # turns raw rows into features
    values: tuple[Any, ...] = ()  # what the user's label column held for each of `classes`: then these are the answers
    shares: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        model, schema = self.classifier, self.encoder.schema
        if not model.is_fitted:
            raise ModelBytesError(explain("A model's file", "hold a trained model", "one that was never trained"))
        wanted, seen = (schema.num_classes, self.encoder.num_features), (model.num_classes, model.num_features)
        if wanted != seen:
            rule = "have the classes and features of its encoder, {} and {}".format(*wanted)
            raise ModelBytesError(explain("A model", rule, "{} and {}".format(*seen)))
        if self.shares is None:
            self.shares = model.shares.get("own", model.shares.get("common") if schema.class_shares else None)

    @property
    def answering(self) -> Answering:
        """The model, answering for `shares`; it reads features and answers with numbers of classes."""
        return Answering(self.classifier, self.shares)

    def for_shares(self, shares: str | Mapping[str, float]) -> SavedModel:
        """Return this model for rows of a population with other class shares, such as those of next year.

        ``shares``: each class's by its name, as any numbers above 0 in that proportion; or ``own`` (the party's),
        ``common`` (all parties'), or ``taught`` (what the model learnt from). Raises `DataError` for others, and of a
        model that does not know the latter, or gives no probabilities.
        """
        known, classes = self.classifier.shares, self.classes
        named = isinstance(shares, str) or len(known.get("taught", ())) == len(classes)  # numbers: own or common alone
        if not (Answering(self.classifier, known.get("taught")).moves and named):
            seen = "a model without them, without probabilities, of numbers, or of one class"
            way_out = "The models of fedct, fedkt and pate carry them, unless their estimator weighs its classes."
            raise DataError(explain("class shares", "be those of a model that says how it was taught", seen, way_out))
        if isinstance(shares, str):
            if shares not in known:
                raise DataError(explain("class shares", f"be one of {', '.join(known)}, or a share a class", shares))
            return replace(self, shares=known[shares])
        shares = {dict(zip(self.classes_.tolist(), classes, strict=True)).get(k, k): v for k, v in shares.items()}
        if set(shares) != set(classes):
            rule = f"name each class once: {short_list(classes)}"
            raise DataError(explain("class shares", rule, short_list(list(shares))))
        if not ((wanted := np.array([shares[name] for name in classes], dtype=np.float64)) > 0).all():
            raise DataError(explain("class shares", "be numbers above 0", dict(shares)))
        return replace(self, shares=class_shares(wanted, pseudo_count=0))

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the columns of `predict_proba`."""
        return self.encoder.schema.classes

    @property
    def classes_(self) -> NDArray[Any]:
        """What `predict` answers for each of `classes`: the user's own values, or names; whole numbers if all are."""
        values = self.values or self.classes
        if not self.values and all(name.lstrip("-").isdecimal() and name == str(int(name)) for name in values):
            values = tuple(map(int, values))
        return np.array(values, dtype=None if len(set(map(type, values))) == 1 else object)  # 1 beside "a" stays 1

    def answers(self, probs: NDArray[np.floating]) -> NDArray[Any]:
        """Return what `predict` answers for probabilities, (n, classes): classes, grades in the middle, or numbers."""
        target = self.encoder.schema.target
        if target is None:
            return np.asarray(self.classes_[probs.argmax(axis=1)])
        return target.numbers(probs) if target.is_number else np.asarray(self.classes_[target.grades(probs)])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that rows must have; their order does not matter, further ones are ignored."""
        return self.encoder.reads

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The same, under the name that scikit-learn knows."""
        return np.array(self.columns, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """How many `columns` there are."""
        return len(self.columns)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> SavedModel:
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if (target := self.encoder.schema.target) is not None and target.is_number:
            tags.estimator_type, tags.classifier_tags, tags.regressor_tags = "regressor", None, RegressorTags()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def fit(self, X: Any, y: Any, **_: Any) -> SavedModel:
        """Return this model as it is, for pipelines of scikit-learn: it has learnt already (as `FrozenEstimator`)."""
        return self

    def score(self, X: Table, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on labelled raw rows; ``y`` may hold names of classes or what they stand for.

        Of a model that answers with numbers it is R2.
        """
        if (target := self.encoder.schema.target) is not None:
            if target.is_number:
                return float(r2_score(np.asarray(y, dtype=np.float64), self.predict(X), sample_weight=sample_weight))
            return float(np.average(np.asarray(y) == self.predict(X), weights=sample_weight))
        names = np.array([canonical(value) for value in np.asarray(y, dtype=object)], dtype=object)
        right = names == np.array(self.classes, dtype=object)[self.answering.predict(self.features(X))]
        return float(np.average(right, weights=sample_weight))

    def __repr__(self) -> str:
        names, kind = self.classifier.type_names, type(self.classifier.template).__qualname__
        return (
            f"SavedModel: {kind if len(names) > 1 else names[0].rpartition('.')[2]}\n"
            f"  columns: {short_list(self.columns, 8)}\n  classes: {short_list(self.classes_.tolist(), 8)}"
        )

    _repr_html_ = None  # scikit-learn's would show the encoder's parts

    def features(self, table: Table) -> NDArray[Any]:
        """Return raw rows as the features that the model reads.

        ``table``: a DataFrame that has `columns`, or an array with exactly these, in their order. Returns an array
        (n, num_features) float32; of texts (n, 1), object. Raises `DataError` if columns are missing or a number is not
        finite. A category that the schema does not name counts as missing, as in the run, with a warning in the log.
        """
        if not isinstance(table, pd.DataFrame | np.ndarray):
            way_out = "Use pandas.DataFrame(...)."
            raise DataError(explain("rows", "be a DataFrame or a NumPy array", type(table).__name__, way_out))
        if isinstance(table, pd.DataFrame) and (names := _names(table)) != list(table.columns):
            table = table.set_axis(names, axis=1)
        if isinstance(table, np.ndarray) or self.columns == self.encoder.schema.column_names:
            check_columns(table, self.encoder.schema)
        X = self.encoder.features(table)
        for said in self.unknown_categories(table):
            logger.warning("%s", said)
        return X

    def unknown_categories(self, table: Table) -> list[str]:
        """Return, for each column of raw rows with texts that are no category of the schema, how many and which."""
        said = []
        for j, column in enumerate(self.encoder.schema.columns):
            if column.kind == "categorical" and column.name in self.columns:
                texts = column_texts(column_of(table, column.name, j), column.reading.missing)
                known = {None, *map(canonical, column.categories)}
                if unknown := [text for text in texts if text not in known]:
                    shown = printable(short_list(list(dict.fromkeys(unknown)), 5))
                    said.append(
                        f"column {column.name!r}: {len(unknown)} of {len(texts)} rows hold a category that the model "
                        f"does not know and count as missing there: {shown}"
                    )
        return said

    def predict(self, table: Table) -> NDArray[Any]:
        """Return the class of each raw row, an array of shape (n,); parameters and errors as `features`.

        Where the schema says that classes have an order, that is the grade in the middle of the probabilities, or where
        they are bins of a number the number that is expected.
        """
        if self.encoder.schema.target is not None:
            return self.answers(self.predict_proba(table))
        return self.classes_[self.answering.predict(self.features(table))]

    def predict_proba(self, table: Table) -> NDArray[np.float64]:
        """Return the probability of each class for each raw row, an array of shape (n, classes) float64.

        Columns are in the order of `classes`. A model without probabilities gives its label 1. Parameters and errors
        as `features`.
        """
        return self.answering.predict_proba(self.features(table))


def _names(table: pd.DataFrame) -> list[Any]:
    return [column_name(name) if isinstance(name, str) else name for name in table.columns]


def pack(data: bytes, encoder: Encoder) -> bytes:
    """Return a model's bytes (`fedkd_flwr.models.serialize.dumps`) with what encodes raw rows for it in them."""
    return serialize.with_encoder(data, encoder.to_bytes())


def save(classifier: Classifier, public: PublicSet, path: str | os.PathLike[str]) -> Path:
    """Write a trained model to a file that `load` reads; only its owner can read it.

    Raises `ModelBytesError` if no safe format holds the model.
    """
    return write_atomic(path, pack(serialize.dumps(classifier), Encoder.of(public.as_read_by(classifier))))


def load(path: str | os.PathLike[str], *, trust: bool = False) -> SavedModel:
    """Read a model that a run left: the server's, or a party's.

    ``trust``: whether you trust whoever wrote the file, where it is not this user's own:
    `fedkd_flwr.models.serialize` says which models need it. Raises `ModelBytesError` if the file is no model, needs
    trust (the message says why) or holds no schema; `MissingExtraError` if the model's library is not installed.

    >>> import tempfile
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from fedkd_flwr.data import Column, Schema, make_public_set
    >>> schema = Schema(columns=(Column(name="age", kind="numeric"),), classes=("young", "old"))
    >>> public = make_public_set(pd.DataFrame({"age": [20, 30, 60, 70]}), schema)
    >>> tree = Classifier(DecisionTreeClassifier(), num_classes=2).fit(public.X, np.array([0, 0, 1, 1]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = load(save(tree, public, f"{folder}/model.fedkd"))
    >>> model.predict(pd.DataFrame({"name": ["Ann", "Bob"], "age": ["25", "65"]})).tolist()
    ['young', 'old']
    """
    with Path(path).open("rb") as file:
        return unpack(file.read(serialize.MAX_BYTES + 1), trust=trust, name=str(path))


def unpack(data: bytes, *, trust: bool = False, values: tuple[Any, ...] = (), name: str = "") -> SavedModel:
    """Return the model in the bytes of a file that `save` wrote; ``values`` as of `SavedModel`, the rest as `load`."""
    try:
        encoder = serialize.encoder_of(data)
    except ModelBytesError as error:
        raise ModelBytesError(f"{error} The file is {name}.") from error
    if encoder is None:
        way_out = "For rows that are encoded already: fedkd_flwr.models.serialize.load."
        raise ModelBytesError(explain(f"model {name}", "hold a schema", "a model without one", way_out))
    classifier = serialize.loads(data, trust=trust)
    model = SavedModel(classifier=classifier, encoder=Encoder.from_bytes(encoder), values=values)
    _try(model)
    return model


def _try(model: SavedModel) -> None:
    """Let a model that was read answer for one row: parts of it that do not fit together show here."""
    classifier = model.classifier
    row = np.array([[""]], object) if classifier.takes_text else np.zeros((1, model.encoder.num_features), np.float32)
    try:
        with np.errstate(all="ignore"):
            classifier.predict(row)
            classifier.predict_proba(row)
    except Exception as error:  # the parts of a file that was changed may raise anything
        rule, seen = "hold a model that answers", f"one that raises {type(error).__name__}: {error}"
        raise ModelBytesError(explain("A model's file", rule, seen)) from error
