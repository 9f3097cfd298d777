"""What a party's algorithm hands back in one visit, and as bytes from the process that did the work.

Reading these bytes runs no code.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import ModelBytesError
from fedkd_flwr.files import group_of, grouped, packed, unpacked
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.wire.label_codec import PublicSpec, decode_labels
from fedkd_flwr.wire.ratio_codec import decode as decode_with_ratios
from fedkd_flwr.wire.score_codec import KINDS, decode_scores

logger = logging.getLogger("flwr.party")


@dataclass(frozen=True)
class DumpedModel:
    """A model as the process that trained it wrote it; nothing needs to read it here."""

    data: bytes  # as `fedkd_flwr.models.serialize.dumps` writes them; empty for a model that no safe format holds
    weight: int = 0  # bytes of an upload; 0 where nobody asked


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a party learnt in one visit. None of it has left yet."""

    # what the reply is made from, by payload name: ``labels`` (num_arrays, num_rows), ``probs``, ``logits``, ...
    values: Mapping[str, NDArray[Any]]
    # as `Party.progress` makes them. They leave only if the party shares its accuracy.
    metrics: Mapping[str, float] = field(default_factory=dict)
    # codes of what the server should know (``fewer-subsets``, ``state-lost``); beside a claim made at the party they
    # stay
    notes: Sequence[str] = ()
    model: Classifier | DumpedModel | None = None  # kept for the next round
    # arrays kept for the next round: `Saved.arrays` holds them under these names
    kept: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)  # plain values kept for the next round
    failure: str = ""  # why this is a fixed answer. It leaves in simulation only.


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What a party is left with at the end."""

    model: Classifier | DumpedModel  # its model
    # how good a model of the same kind is that learnt from its own rows alone (SOLO), by test rows
    solo: Mapping[str, Metrics]
    learnt: bool = True  # whether ``model`` learnt from the final labels; else it is the one trained alone
    federated: Mapping[str, Metrics] | None = None  # how good ``model`` is; None where nobody has measured it yet
    # the model that learnt from its own rows alone; None where ``model`` is that one
    alone: Classifier | DumpedModel | None = None


def dump(model: Classifier | DumpedModel) -> bytes:
    """Return the model as bytes; none for one that no safe format holds, which then starts afresh each round."""
    if isinstance(model, DumpedModel):
        return model.data
    from fedkd_flwr.models.serialize import dumps

    try:
        return dumps(model)
    except ModelBytesError as error:
        logger.warning("the model is not kept: %s", error)
    except Exception:  # what private rows made of a model must not decide whether the party answers
        logger.exception("the model is not kept")
    return b""


def weight(model: Classifier | DumpedModel) -> int:
    """Return what an upload of the model would weigh, in bytes; 0 for a user's own that no safe format can hold."""
    if isinstance(model, DumpedModel):
        return model.weight
    from fedkd_flwr.models.serialize import weigh

    try:
        return weigh(model)
    except ModelBytesError as error:
        logger.warning("the model is not weighed: %s", error)
        return 0


def pack_answer(answer: Answer) -> bytes:
    """Return an answer as bytes."""
    arrays = grouped(value=answer.values, kept=answer.kept)
    arrays["model"] = np.frombuffer(b"" if answer.model is None else dump(answer.model), dtype=np.uint8)
    rest = {"metrics": dict(answer.metrics), "notes": [str(note) for note in answer.notes], "meta": dict(answer.meta)}
    return packed(arrays, rest)


def unpack_answer(data: bytes) -> Answer:
    """Return the answer that `pack_answer` wrote, with its model as bytes."""
    arrays, rest = unpacked(data)
    model = DumpedModel(arrays["model"].tobytes()) if arrays["model"].size else None
    return Answer(values=group_of(arrays, "value"), kept=group_of(arrays, "kept"), model=model, **rest)


def pack_finished(finished: Finished, *, weighed: bool) -> bytes:
    """Return what a party is left with as bytes; ``weighed`` says whether an upload of its model is weighed too."""
    rest = {
        "solo": pack_metrics(finished.solo),
        "federated": pack_metrics(finished.federated or {}),
        "learnt": finished.learnt,
        "weight": weight(finished.model) if weighed else 0,
    }
    models = {"model": dump(finished.model), "alone": b"" if finished.alone is None else dump(finished.alone)}
    return packed({name: np.frombuffer(data, dtype=np.uint8) for name, data in models.items()}, rest)


def unpack_finished(data: bytes) -> Finished:
    """Return what `pack_finished` wrote, with the models as bytes."""
    arrays, rest = unpacked(data)
    alone = arrays["alone"].tobytes()
    return Finished(
        model=DumpedModel(arrays["model"].tobytes(), rest["weight"]),
        solo=unpack_metrics(rest["solo"]),
        learnt=rest["learnt"],
        federated=unpack_metrics(rest["federated"]),
        alone=DumpedModel(alone) if alone else None,
    )


def pack_metrics(measured: Mapping[str, Metrics]) -> dict[str, Any]:
    """Return metrics by test rows as plain values."""
    return {rows: found.as_dict() for rows, found in measured.items()}


def unpack_metrics(packed: Mapping[str, Any]) -> dict[str, Metrics]:
    """Return the metrics that `pack_metrics` made plain."""
    return {rows: Metrics(**values) for rows, values in packed.items()}


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
    """Return what a reply says of each public row asked, by column; {} for one without such rows.

    ``base``: what a reply of changes refers to; ``students``: how many label arrays come, where ratios bring the first.
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
    """Yield a header, and a line for each of these public rows: its number, its values where shown, its columns."""
    names, values = public_columns
    shown = len(names[:MAX_PUBLIC_COLUMNS])
    more = [f"({len(names) - shown} more columns)"] if len(names) > shown else []
    yield ["public row", *names[:shown], *more, *columns]
    for i, row in enumerate(rows.tolist()):
        own = list(values[row][:shown]) if len(values) else []
        yield [row, *own, *([""] if more else []), *(column[i] for column in columns.values())]
