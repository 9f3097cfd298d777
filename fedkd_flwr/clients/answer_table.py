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
from fedkd_flwr.wire.ratio_codec import decode as decode_with_ratios
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

    ``arrays``: the reply's wire arrays.
    ``public``: the public rows asked.
    ``classes``: names of the classes.
    ``base``: what replies of changes refer to: ``labels``, ``ratios``, ``probs``.
    ``students``: how many label arrays come, where ratios bring the first.

    Raises `PayloadError` if the bytes cannot be read.
    """
    columns: dict[str, list[Any]] = {}
    given: list[NDArray[Any]] = []
    at: dict[str, Any] = {"public": public, "server_round": server_round}
    if "ratios" in arrays:
        values = decode_with_ratios(arrays, base=base, num_arrays=students, **at)
        given = list(values["labels"])
        columns |= {f"density ratio step of {name}": values["ratios"][:, i].tolist() for i, name in enumerate(classes)}
        arrays = {**arrays, **{name: values[name] for name in ("class-counts",) if name in values}}
    elif "labels" in arrays:
        given = list(decode_labels(arrays["labels"], base=base.get("labels"), **at))
    for i, labels in enumerate(given):
        named = ["" if label == ABSTAIN else classes[label] for label in labels]
        columns["label" if len(given) == 1 else f"label {i + 1}"] = named
    if "bits" in arrays:
        bits = decode_labels(arrays["bits"], public=public.bits, server_round=server_round, base=base.get("bits"))
        each = bits.reshape(-1, public.num_public, len(classes))[0]
        columns |= {f"bit of {name}": each[:, i].tolist() for i, name in enumerate(classes)}
    for kind in KINDS:
        if kind in arrays:
            scores = decode_scores(
                arrays[kind], public=public, server_round=server_round, kind=kind, base=base.get(kind)
            )
            columns |= {f"{kind} of {name}": scores[:, i].tolist() for i, name in enumerate(classes)}
    if "class-counts" in arrays and columns:
        told = zip(classes, arrays["class-counts"].tolist(), strict=True)
        counts = "; ".join(f"{name}: {count}" for name, count in told)
        columns["rows of each class"] = [counts, *[""] * (public.num_public - 1)]
    return columns


def answer_table(
    rows: NDArray[np.int64],
    public_columns: tuple[Sequence[str], Sequence[Sequence[object]]],
    columns: Mapping[str, Sequence[object]],
) -> Iterator[list[object]]:
    """Yield a header, and then a line for each public row.

    ``rows`` of shape (num_rows,), int64, are numbers of public rows, from 0, as they stand in the public file.
    ``public_columns`` are names of the public columns, and all public rows' values; ([], []) where none are shown.
    ``columns`` are as `answer_columns` returns them.
    """
    names, values = public_columns
    shown = len(names[:MAX_PUBLIC_COLUMNS])
    more = [f"({len(names) - shown} more columns)"] if len(names) > shown else []
    yield ["public row", *names[:shown], *more, *columns]
    for i, row in enumerate(rows.tolist()):
        own = list(values[row][:shown]) if len(values) else []
        yield [row, *own, *([""] if more else []), *(column[i] for column in columns.values())]
