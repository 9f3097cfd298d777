"""A reply as a table that a person can read: a public row, its columns, and the label or scores that leave for it.

The table is read back from the bytes that leave, and not made from what they were made of: what it shows is what they
say. Weights of a net are no table: nobody can read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.wire.envelope import PublicSpec
from fedkd_flwr.wire.label_codec import decode_labels
from fedkd_flwr.wire.ratio_codec import decode_ratios
from fedkd_flwr.wire.score_codec import KINDS, decode_scores

__all__ = ["answer_columns", "answer_table"]

MAX_PUBLIC_COLUMNS = 20
"""A table shows so many of a public row's columns; the row's number names the rest."""

Base = Mapping[str, NDArray[Any]]


def answer_columns(
    arrays: Mapping[str, NDArray[Any]],
    *,
    public: PublicSpec,
    classes: Sequence[str],
    server_round: int,
    base: Base,
    students: int = 1,
) -> dict[str, list[Any]]:
    """Return what a reply says of each public row asked, by column; {} for a reply that has no such rows.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        The reply's wire arrays.
    public : PublicSpec
        The public rows asked.
    classes : sequence of str
        Names of the classes.
    server_round : int
        The round.
    base : mapping of str to ndarray
        What replies of changes refer to: ``labels``, ``ratios``, or ``answered`` for the rows asked.
    students : int
        How many label arrays come, where ratios bring the first.

    Raises
    ------
    PayloadError
        If the bytes cannot be read.
    """
    columns: dict[str, list[Any]] = {}
    known: NDArray[Any] | None = base.get("labels")
    given: list[NDArray[Any]] = []
    if "ratios" in arrays:
        pair = (base["ratios"], base["labels"][0]) if "ratios" in base else None
        opened = decode_ratios(arrays["ratios"], public=public, server_round=server_round, base=pair)
        given = [opened.labels]
        known = np.broadcast_to(opened.labels, (max(students - 1, 1), len(opened.labels)))
        columns |= {f"density ratio step of {name}": opened.codes[:, i].tolist() for i, name in enumerate(classes)}
        if opened.class_counts is not None:
            told = zip(classes, opened.class_counts.tolist(), strict=True)
            columns["rows of each class, told once"] = [
                "; ".join(f"{name}: {count}" for name, count in told),
                *[""] * (len(opened.labels) - 1),
            ]
    if "labels" in arrays:
        given += list(decode_labels(arrays["labels"], public=public, server_round=server_round, base=known))
    for i, labels in enumerate(given):
        named = ["" if label == ABSTAIN else classes[label] for label in labels]
        columns["label" if len(given) == 1 else f"label {i + 1}"] = named
    if "bits" in arrays:
        bits = decode_labels(arrays["bits"], public=public.bits, server_round=server_round, base=base.get("bits"))
        each = bits.reshape(-1, public.num_public, len(classes))[0]
        columns |= {f"bit of {name}": each[:, i].tolist() for i, name in enumerate(classes)}
    for kind in KINDS:
        if kind in arrays:
            answered = base.get("answered")
            scores = decode_scores(arrays[kind], public=public, server_round=server_round, kind=kind, base=answered)
            columns |= {f"{kind} of {name}": scores[:, i].tolist() for i, name in enumerate(classes)}
    return columns


def answer_table(
    rows: NDArray[np.int64],
    public_columns: tuple[Sequence[str], Sequence[Sequence[object]]],
    columns: Mapping[str, Sequence[object]],
) -> Iterator[list[object]]:
    """Yield a header, and then a line for each public row.

    Parameters
    ----------
    rows : ndarray of shape (num_rows,), int64
        Numbers of the public rows, from 0, as they stand in the public file.
    public_columns : (names, values)
        Names of the public columns, and all public rows' values, row by row; ([], []) where there are none to show.
    columns : mapping
        As `answer_columns` returns them.
    """
    names, values = public_columns
    shown = len(names[:MAX_PUBLIC_COLUMNS])
    more = [f"({len(names) - shown} more columns)"] if len(names) > shown else []
    yield ["public row", *names[:shown], *more, *columns]
    for i, row in enumerate(rows.tolist()):
        own = list(values[row][:shown]) if len(values) else []
        yield [row, *own, *([""] if more else []), *(column[i] for column in columns.values())]
