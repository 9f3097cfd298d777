"""Named data sets for simulations, split into a private pool, the public set and common test rows."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice, check_parameters, check_whole, read_word
from fedkd_flwr.data.columns import sorted_texts
from fedkd_flwr.data.look import NO_RULES, ColumnNote
from fedkd_flwr.data.public import PublicSet, Table, make_public_set
from fedkd_flwr.data.published import PAIRED, PUBLISHED, read_paired, read_published
from fedkd_flwr.data.sources import EMBEDDED, Source, read_embedded, read_user_table, synthetic, with_public, with_test
from fedkd_flwr.data.text import TextRows
from fedkd_flwr.errors import Code, ConfigError, DataError, explain
from fedkd_flwr.seeds import derive_rng

__all__ = ["NAMES", "Pool", "load_pool", "row_hashes"]

_SomeTable = TypeVar("_SomeTable", pd.DataFrame, NDArray[Any], Table)

NAMES: tuple[str, ...] = (*EMBEDDED, "synthetic", *PUBLISHED, *PAIRED, "table")
_SIZES = ("rows", "features", "classes")  # of the synthetic set
"""Every name that `load_pool` knows."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """One data set, split into the private rows of all parties, the public rows and the common test rows."""

    X: NDArray[Any]  # private training rows of all parties together, float32; `partition` deals them
    y: NDArray[np.int16]
    X_test: NDArray[Any]  # the common test rows
    y_test: NDArray[np.int16]
    public: PublicSet  # with the true labels in `public.y`
    rows: NDArray[np.int64]  # number of each private row in the training file (`wine-type`: without duplicates)
    texts: NDArray[np.object_] | None = None  # of `X`, shape (n, 1), if the schema has text columns
    test_texts: NDArray[np.object_] | None = None
    columns: tuple[ColumnNote, ...] = ()  # what was done to each column of a user's table
    party_names: tuple[str, ...] = ()  # of the real parties whose rows these are; empty: rows are dealt at random
    party_of: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # of each private row
    lacks: Mapping[str, Collection[str]] = field(default_factory=dict)  # columns that parties' tables do not have
    numbers: NDArray[np.float64] | None = None  # what the label column held in `X`, where classes are bins of it
    test_numbers: NDArray[np.float64] | None = None
    next_command: str = ""  # the complete command that follows what they suggest

    def numbers_of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
        """Return the numbers that stood in the label column in these rows of `X`; nothing where it holds classes."""
        return () if self.numbers is None else (self.numbers[rows],)

    @property
    def common(self) -> tuple[NDArray[Any], ...]:
        """The common test rows: features, classes and, where classes are bins of a number, the numbers."""
        return (self.X_test, self.y_test, *(() if self.test_numbers is None else (self.test_numbers,)))

    def as_read_by(self, model: Any) -> Pool:
        """Return the pool with raw texts or features, as `PublicSet.as_read_by` does."""
        public = self.public.as_read_by(model)
        if public is self.public or self.texts is None or self.test_texts is None:
            return self
        return replace(self, public=public, X=self.texts, X_test=self.test_texts)

    def num_copied_test_rows(self) -> int:
        """Return how many common test rows equal a private row in all that a model could read, and in the label."""
        private = row_hashes(self.X, self.texts, self.y)
        test = row_hashes(self.X_test, self.test_texts, self.y_test)
        return int(np.isin(test, private).sum())


def row_hashes(*parts: NDArray[Any] | pd.DataFrame | None) -> NDArray[Any]:
    """Return a hash of each row of some columns: equal rows have equal ones."""
    columns = pd.concat([pd.DataFrame(part) for part in parts if part is not None], axis=1)
    return pd.util.hash_pandas_object(columns, index=False).to_numpy()


def load_pool(
    name: str,
    *,
    seed: int,
    data_root: str | os.PathLike[str] = "",
    num_public: int = 0,
    num_test: int = 0,
    num_private: int = 0,
    public_rows: str = "",
    hold_out_public: bool = False,
    rows: Mapping[str, NDArray[np.integer]] | None = None,
    own_parties: bool = False,
    **of_table: Any,
) -> Pool:
    """Load a named data set and split it at random from the seed; the split is not stratified.

    >>> load_pool("breast-cancer", seed=1, num_test=114, num_public=370, num_private=85).X.shape
    (85, 30)

    ``name`` is one of `NAMES`, ``synthetic`` also as ``synthetic(rows=5000, features=20, classes=3)``. Of
    ``mnist(public_from='test')`` and its like public rows are of the official test file, and all training rows are
    private. ``num_*`` are how many rows of each kind; 0 for the default (docs/howto/your-data.md). ``public_rows`` is a
    file of public rows (`with_public`); then none are taken of the set's own, unless ``hold_out_public`` says that they
    were drawn for this very split: with it, parties hold what they hold without the file. ``rows`` are row numbers of
    the source file: ``"public"`` (of the file of ``public_from``), ``"test"`` (of the official test file, if there is
    one) and, unless all others are meant, ``"private"``. With ``own_parties`` the parties are those of the data, where
    these name them. ``of_table`` is for ``table`` what `read_user_table` takes.
    """
    name, params = read_word("dataset", name)
    check_choice("dataset", name, NAMES)
    check_parameters(name, params, _SIZES if name == "synthetic" else ("public_from",))
    public_from = params.pop("public_from", "train")
    source = synthetic(**params, seed=seed) if name == "synthetic" else _read_source(name, data_root, **of_table)
    dealt = source
    if public_rows:
        how = {"schema_path": of_table.get("schema_path", ""), "rules": of_table.get("rules", NO_RULES)}
        source = with_public(source, public_rows, **how)
    if not (hold_out_public or rows is not None):
        dealt = source
    public_from = _public_file(dealt, name, public_from)
    sizes = {"public": num_public, "test": num_test, "private": num_private}
    for key, size in sizes.items():
        check_whole(f"num-{key}", size)
    if rows is None:
        split = _random_split(dealt, name, sizes, public_from, derive_rng(seed, "split"))
    else:
        split = _explicit_split(dealt, name, rows, public_from)
    if dealt is not source and source.public_table is not None:
        split["public"] = np.arange(len(source.public_table))
    pool = _make_pool(source, split, public_from)
    if not own_parties or source.parties is None:
        return pool
    names = sorted_texts(source.parties)
    number = {name: i for i, name in enumerate(names)}
    party_of = np.array([number[name] for name in source.parties[split["private"]]], dtype=np.int64)
    known = set(pool.public.schema.column_names)
    lacks = {party: known.intersection(columns) for party, columns in source.lacks.items()}
    return replace(pool, party_names=names, party_of=party_of, lacks=lacks)


def _read_source(name: str, data_root: str | os.PathLike[str], **of_table: Any) -> Source:
    test = of_table.pop("test_table", "")
    if name == "table":
        source = read_user_table(**of_table)
        return with_test(source, test, of_table.get("rules", NO_RULES)) if test else source
    if name in EMBEDDED:
        return read_embedded(name)
    if name in PUBLISHED:
        return read_published(name, data_root)
    return read_paired(name, data_root)


def _public_file(source: Source, name: str, public_from: str) -> str:
    """Return which file public rows are of: "train", "test", or "other", that of another data set."""
    other = source.public_table is not None
    if public_from not in (("train", "test") if source.test_y is not None and not other else ("train",)):
        seen = f"{public_from!r} for {name!r}"
        rule = "be 'train', or 'test' for a set with an official test file"
        raise ConfigError(explain("public_from", rule, seen))
    return "other" if other else public_from


def _make_pool(source: Source, split: dict[str, NDArray[np.int64]], public_from: str) -> Pool:
    test_table, test_y, test_numbers = source.test_table, source.test_y, source.test_numbers
    if test_table is None or test_y is None:
        test_table, test_y, test_numbers = source.table, source.y, source.numbers
    public_table: Table
    truth: NDArray[np.int16] | None
    public_table, truth = (test_table, test_y) if public_from == "test" else (source.table, source.y)
    known, rows = source.public_labels, split["public"]
    if source.public_table is not None:
        public_table, truth = source.public_table, source.public_y if known is None else known.y
    public_rows = _take(public_table, rows)
    # labels of digits are not true labels among letters
    y = truth[rows] if truth is not None and (known is None or known.of_schema) else None
    public = make_public_set(public_rows, source.schema_of(public_rows), y=y)
    if known is not None:
        public = replace(public, labels=replace(known, y=known.y[rows]))
    private, test = _take(source.table, split["private"]), _take(test_table, split["test"])
    reader = TextRows(public.schema) if public.schema.text_columns else None
    return Pool(
        X=public.features(private),
        y=source.y[split["private"]],
        X_test=public.features(test),
        y_test=test_y[split["test"]],
        public=public,
        rows=split["private"],
        texts=reader.transform(private) if reader else None,
        test_texts=reader.transform(test) if reader else None,
        numbers=None if source.numbers is None else source.numbers[split["private"]],
        test_numbers=None if test_numbers is None else test_numbers[split["test"]],
        columns=source.looked.notes if source.looked is not None else (),
        next_command=source.looked.command if source.looked is not None else "",
    )


def _lengths(source: Source) -> dict[str, int]:
    """Return how many rows each file has: "train", the official "test" file, and the public rows of another set."""
    tables = {"train": source.y, "test": source.test_y, "other": source.public_table}
    return {name: len(rows) for name, rows in tables.items() if rows is not None}


def _random_split(
    source: Source, name: str, sizes: dict[str, int], public_from: str, rng: np.random.Generator
) -> dict[str, NDArray[np.int64]]:
    """Return random row numbers of each part: one permutation per file, cut into the parts."""
    official = source.test_y is not None
    parts = {"train": ["private"], "test": ["test"]} if official else {"train": ["test", "private"]}
    parts.setdefault(public_from, []).insert(-1, "public")
    words = {"train": "training rows" if official else "rows", "test": "official test rows", "other": "public rows"}
    split: dict[str, NDArray[np.int64]] = {}
    for file, length in _lengths(source).items():
        order, counts = rng.permutation(length), {}
        *first, last = parts[file]
        for part in first:
            default = length // 2 if file == "test" else round(length * (1.0 - source.private_share) / 2)
            counts[part] = sizes[part] or default
        counts[last] = sizes[last] or length - sum(counts.values())
        _check_enough(name, words[file], length, **{part: counts[part] for part in sizes if part in counts})
        at = 0
        for part in first:
            split[part] = order[at : at + counts[part]]
            at += counts[part]
        split[last] = order[length - counts[last] :] if first else order[: counts[last]]
    return split


def _explicit_split(
    source: Source, name: str, rows: Mapping[str, NDArray[np.integer]], public_from: str
) -> dict[str, NDArray[np.int64]]:
    """Return the given row numbers after checking them; private rows are all the others if they are not given."""
    if source.rows_left_out:
        seen = f"{source.rows_left_out} without one"
        way_out = "Give them a label or take them out: without them the others have other numbers."
        raise DataError(explain("rows of a table with given row numbers", "all have a label", seen, way_out))
    if not {"public", "test"} <= rows.keys() <= {"public", "test", "private"}:
        raise DataError(explain("rows", "have 'public', 'test' and perhaps 'private'", ", ".join(rows)))
    split = {key: np.asarray(numbers, dtype=np.int64) for key, numbers in rows.items()}
    own_file = {"private": "train", "public": public_from, "test": "train" if source.test_y is None else "test"}
    lengths = _lengths(source)
    if "private" not in split:
        used = [split[key] for key in split if own_file[key] == "train"]
        split["private"] = np.setdiff1d(np.arange(lengths["train"]), np.concatenate([*used, []]))
    for key, numbers in split.items():
        if not (len(numbers) and numbers.min() >= 0 and numbers.max() < lengths[own_file[key]]):
            seen = f"{numbers.min()} to {numbers.max()}" if len(numbers) else "none"
            rule = f"be row numbers below {lengths[own_file[key]]} of {name!r}"
            raise DataError(explain(f"rows[{key!r}]", rule, seen))
    for file in lengths:
        together = np.concatenate([*(split[key] for key in split if own_file[key] == file), []])
        if len(np.unique(together)) != len(together):
            raise DataError(explain("rows", f"name each row of the {file} file once", "repeated row numbers"))
    return split


def _check_enough(name: str, what: str, available: int, **wanted: int) -> None:
    asked = ", ".join(f"{count} {part}" for part, count in wanted.items())
    if min(wanted.values()) < 1:
        rule, way_out = "leave at least one of each part", "Give more rows, or set num-public and num-test lower."
        raise DataError(explain(f"{what} of {name!r} ({available})", rule, asked, way_out), code=Code.NO_ROWS)
    if sum(wanted.values()) > available:
        rule, seen = f"be at most the {available} {what} of {name!r}", f"{sum(wanted.values())} ({asked})"
        raise DataError(explain(f"num-{', num-'.join(wanted)} together", rule, seen, "Ask for fewer rows."))


def _take(table: _SomeTable, rows: NDArray[np.int64]) -> _SomeTable:
    return table[rows] if isinstance(table, np.ndarray) else table.iloc[rows].reset_index(drop=True)
