"""The public schema: columns, categories and class names. It fixes the label space for everybody.

The schema is the file ``schema.toml`` beside the public file U. Classes are never inferred from private rows: that
would reveal a class which only one party has, and parties would disagree on what label 0 is.
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, TypeAdapter, ValidationError

from fedkd_flwr.checks import check_choice, check_whole
from fedkd_flwr.data.columns import canonical, column_name, column_texts, require_distinct, short_list
from fedkd_flwr.data.reading import PLAIN, Reading, column_numbers, readable_numbers
from fedkd_flwr.errors import Code, ConfigError, DataError, explain
from fedkd_flwr.labels.target import Target, bins_at

__all__ = ["Column", "Schema", "labels_of"]

SCHEMA_VERSION = 1
_MAX_CLASSES = 32767  # labels are int16
_MAX_PIXELS = 2**24
MAX_TERMS = 2000  # default number of TF-IDF columns of a text column, 8 kB a row


@dataclass(frozen=True, kw_only=True)
class Column:
    """One feature column."""

    name: str
    kind: Literal["numeric", "categorical", "text"]
    categories: tuple[str, ...] = ()
    max_terms: int = MAX_TERMS  # at most so many TF-IDF columns are made of a text column
    reading: Reading = PLAIN  # columns of categories and texts have further words for "no value" only
    bins: tuple[float, ...] = ()  # ascending edges between which numbers are counted (`fedkd_flwr.data.bins`)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", column_name(self.name))
        kinds = ("numeric", "categorical", "text")
        check_choice(f"kind of column {self.name!r}", self.kind, kinds, error=DataError)
        check_whole(f"max-terms of column {self.name!r}", self.max_terms, 1, error=DataError)
        if self.kind != "numeric" and self.reading.of_numbers:
            rule = "have no rule for numbers (decimal, thousands, unit, dates, limits)"
            way_out = 'Call it kind = "numeric", or take the rule out.'
            raise DataError(explain(f"column {self.name!r} of kind {self.kind}", rule, str(self.reading), way_out))
        ascending = all(math.isfinite(one) for one in self.bins) and list(self.bins) == sorted({*self.bins})
        if self.bins and not (ascending and len(self.bins) > 1 and self.kind == "numeric"):
            rule = "be two ascending numbers or more, of a numeric column"
            raise DataError(explain(f"bins of column {self.name!r}", rule, list(self.bins)))


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What every party and the server agree on before a run.

    >>> schema = Schema(columns=(Column(name="age", kind="numeric"),), classes=("no", "yes"))
    >>> schema.encode_labels([" yes", "no"]).tolist()
    [1, 0]
    """

    columns: tuple[Column, ...]  # the features in the order models see them; empty for images
    # at least two, and by default the bins of ``target``; a label is a position among them
    classes: tuple[str, ...] = ()
    label: str = "label"  # the label column in a party's file
    id_column: str | None = None  # neither feature nor label
    shape: tuple[int, ...] | None = None  # (channels, height, width) of images: pixel-0, ... hold 0 to 255
    header: str = ""  # the line of names that CSV files lack
    encoding: str = ""  # of lines of CSV files that are no UTF-8; empty: Windows-1252
    target: Target | None = None  # what classes with an order stand for: grades, or bins of a number
    class_shares: tuple[float, ...] = ()  # of each class among all parties' rows, where public rows do not show them

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    def __post_init__(self) -> None:
        for name in ("label", "id_column", "header"):
            object.__setattr__(self, name, (text := getattr(self, name)) and column_name(text))
        if not self.classes and self.target is not None and self.target.is_number:
            object.__setattr__(self, "classes", self.target.names)
        if not 2 <= len(self.classes) <= _MAX_CLASSES:
            seen = f"C = {len(self.classes)} ({', '.join(self.classes) or 'none'})"
            way_out = "With one class there is nothing to learn: name all classes that any party may hold."
            raise DataError(explain("classes", f"name 2 to {_MAX_CLASSES} classes", seen, way_out))
        # "1" and "1.0" are one class: see canonical()
        texts = [canonical(name) for name in self.classes]
        if None in texts:
            raise DataError(explain("classes", "not be texts that mean a missing value", ", ".join(self.classes)))
        require_distinct("classes", [text for text in texts if text is not None])
        require_distinct("columns", [column.name for column in self.columns])
        if self.target is not None and len(self.target.values) != len(self.classes):
            raise DataError(explain("values of the target", "be one a class", f"{len(self.target.values)} values"))
        shares = np.array(self.class_shares)
        if len(shares) and not (
            len(shares) == len(self.classes) and (shares >= 0).all() and abs(shares.sum() - 1) < 1e-3
        ):
            raise DataError(explain("class-shares", "be one a class, at least 0, and sum to 1", self.class_shares))
        if self.shape is not None and not (min(self.shape, default=0) >= 1 and math.prod(self.shape) <= _MAX_PIXELS):
            raise DataError(explain("shape", f"be that of at most {_MAX_PIXELS} pixels", self.shape))
        if not self.columns and self.shape is None:
            raise DataError(explain("columns", "name at least one feature column", "none", "Or give shape for images."))

    @property
    def num_classes(self) -> int:
        """Number of classes C."""
        return len(self.classes)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Names of the columns of kind ``text``, in the schema's order."""
        return tuple(column.name for column in self.columns if column.kind == "text")

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the raw feature columns; for images they follow from the shape."""
        if self.shape is not None:
            return tuple(f"pixel-{i}" for i in range(math.prod(self.shape)))
        return tuple(column.name for column in self.columns)

    def without(self, lacks: Collection[str]) -> Schema:
        """Return the schema without the columns ``lacks``; `ConfigError` if one is not in it, or none is left."""
        columns = tuple(column for column in self.columns if column.name not in lacks)
        if not columns or len(columns) + len(lacks) > len(self.columns):
            names = [column.name for column in self.columns]
            rule = f"name some of the schema's columns and not all: {short_list(names) or 'images have none'}"
            raise ConfigError(explain("lacks", rule, ", ".join(sorted(lacks)), "Correct the name, or drop it."))
        return replace(self, columns=columns)

    def encode_labels(self, values: Any) -> NDArray[np.int16]:
        """Return places in ``classes``; `DataError` if one is missing (``wrong-data``) or ``class-outside-schema``."""
        if self.target is not None and (numbers := self.label_numbers(values)) is not None:
            self._require_labels(np.isnan(numbers))
            return self.target.encode(numbers)
        texts, known = column_texts(values), self._class_numbers
        codes = np.array([known.get(text, -1) for text in texts], dtype=np.int16)
        self._require_labels(texts == None)  # noqa: E711 - elementwise
        if unknown := sorted(set(texts[codes < 0])):
            rule = f"hold only the schema's classes ({short_list(self.classes)})"
            seen = f"{short_list(list(map(repr, unknown)), 5)} as value"
            way_out = "Correct the rows, or name the class in schema.toml at every party and the server."
            message = explain(f"label column {self.label!r}", rule, seen, way_out)
            raise DataError(message, code=Code.CLASS_OUTSIDE_SCHEMA)
        return codes

    def _require_labels(self, missing: NDArray[np.bool_]) -> None:
        if len(rows := np.flatnonzero(missing)):
            seen = f"{len(rows)} of {len(missing)} rows without one (first: row {rows[0] + 1})"
            way_out = "Leave out rows without a label."
            raise DataError(explain(f"label column {self.label!r}", "hold a label in every row", seen, way_out))

    def known_labels(self, values: Any) -> NDArray[np.bool_]:
        """Tell of each raw label whether `encode_labels` takes it."""
        if self.target is not None and self.target.is_number:
            return readable_numbers(values) & ~np.isnan(PLAIN.parse(values)[0])
        known = self._class_numbers
        return np.array([text in known for text in column_texts(values)], dtype=bool)

    def label_numbers(self, values: Any) -> NDArray[np.float64] | None:
        """Return raw labels as numbers, NaN where there is none; None where classes are no bins of a number."""
        if self.target is None or not self.target.is_number:
            return None
        return column_numbers(values, self.label)

    @property
    def _class_numbers(self) -> dict[str | None, int]:
        return {canonical(name): i for i, name in enumerate(self.classes)}

    def to_toml(self) -> str:
        """Return the schema as TOML text; equal schemas give equal texts."""
        lines = [f"version = {SCHEMA_VERSION}", f"label = {_toml(self.label)}"]
        if self.id_column is not None:
            lines.append(f"id-column = {_toml(self.id_column)}")
        lines.append(f"classes = {_toml(list(self.classes))}")
        if self.class_shares:
            lines.append(f"class-shares = {_toml(list(self.class_shares))}")
        if self.shape is not None:
            lines.append(f"shape = {_toml(list(self.shape))}")
        lines += [f"{key} = {_toml(value)}" for key in ("header", "encoding") if (value := getattr(self, key))]
        if self.target is not None:
            values, edges, unit = list(self.target.values), list(self.target.edges), self.target.unit
            told = [f"{key} = {_toml(value)}" for key, value in (("edges", edges), ("unit", unit)) if value]
            lines += ["", "[target]", f"values = {_toml(values)}", *told]
        for column in self.columns:
            lines += ["", "[[columns]]", f"name = {_toml(column.name)}", f"kind = {_toml(column.kind)}"]
            if column.kind == "categorical":
                lines.append(f"categories = {_toml(list(column.categories))}")
            elif column.kind == "text":
                lines.append(f"max-terms = {column.max_terms}")
            elif column.bins:
                lines.append(f"bins = {_toml(list(column.bins))}")
            lines += [
                f"{name} = {_toml(list(value) if isinstance(value, tuple) else value)}"
                for name, value in column.reading.rules.items()
            ]
        return "\n".join(lines) + "\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the schema as a TOML file."""
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a schema from a TOML file; `DataError` if it is missing (code ``missing-file``) or no schema."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            command = 'fedkd server schema PUBLIC_FILE --label LABEL --classes "A,B".'
            message = explain("schema", "be a file", f"no file {path}", f"Write one from the public file: {command}")
            raise DataError(message, code=Code.MISSING_FILE) from None
        except (UnicodeDecodeError, OSError) as error:
            raise DataError(explain(f"schema {path}", "be TOML in UTF-8", f"this: {error}")) from error
        return cls.from_toml(text, path)

    @classmethod
    def from_toml(cls, text: str, path: str | os.PathLike[str] = "schema.toml") -> Schema:
        """Return the schema of TOML text; ``path`` is where it stood, for the messages."""
        path = Path(path)
        try:
            data = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise DataError(explain(f"schema {path}", "be TOML in UTF-8", f"this: {error}")) from error
        if data.get("version") != SCHEMA_VERSION:
            raise DataError(explain(f"version in {path}", f"be {SCHEMA_VERSION}", data.get("version")))
        return _from_dict(data, path)


def labels_of(values: Any, classes: tuple[str, ...], label: str, target: Target | None = None) -> NDArray[np.int16]:
    """Return positions in ``classes`` for raw labels, as `Schema.encode_labels` does."""
    return Schema(columns=(), classes=classes, label=label, shape=(1,), target=target).encode_labels(values)


def _from_dict(data: dict[str, Any], path: Path) -> Schema:
    """Return the schema of a file's tables, whose types pydantic checks; numbers need no quotes among texts."""
    rules = {rule.name for rule in fields(Reading)}
    try:
        plain = {key.replace("-", "_"): value for key, value in data.items() if key != "version"}
        plain["columns"] = [
            {key.replace("-", "_"): value for key, value in item.items() if key not in rules}
            | {"reading": {key: value for key, value in item.items() if key in rules}}
            for item in data.get("columns", [])
        ]
        target = data.get("target", {})
        if "edges" in target and "values" not in target:  # each bin is its middle
            plain["target"] = bins_at(target["edges"], unit=target.get("unit", ""))
        return TypeAdapter(Schema).validate_python(plain)
    except ValidationError as error:
        first = error.errors()[0]
        if isinstance(cause := first.get("ctx", {}).get("error"), DataError):  # of one of the classes here
            raise cause from error
        place = ".".join(str(part).replace("_", "-") for part in first["loc"])
        if first["type"] == "unexpected_keyword_argument":
            raise DataError(explain(f"keys in {path}", "be those of a schema", place)) from error
        rule = first["msg"].lower().removeprefix("input should ")
        raise DataError(explain(f"{place} in {path}", rule, first["input"])) from error
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(explain(f"schema {path}", "have classes, and name and kind per column", repr(error))) from error


def _toml(value: str | list[Any]) -> str:
    # JSON's strings and arrays are valid TOML, except for one control character
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
