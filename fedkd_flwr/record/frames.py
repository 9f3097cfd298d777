"""A run record as pandas tables (`RunRecord.to_frame`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fedkd_flwr.errors import ConfigError, explain

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FRAMES", "frame"]

FRAMES = ("rounds", "parties", "party_rounds", "models")
"""The tables there are; `fedkd_flwr.record.run_record.RunRecord.to_frame` says what each holds."""

_KINDS = ("solo", "federated")
_SHARED = ("server", "centralised")


def frame(record: Mapping[str, Any], of: str) -> pd.DataFrame:
    """Return one table of a record, given as plain types.

    Raises `ConfigError` if ``of`` is none of `FRAMES`.
    """
    import pandas as pd

    rows = {"rounds": _rounds, "parties": _parties, "party_rounds": _party_rounds, "models": _models}
    if of not in rows:
        raise ConfigError(explain("the table", f"be one of {', '.join(FRAMES)}", of))
    first = {"run_id": record["run_id"], "seed": record["seed"]}
    return pd.DataFrame([{**first, **row} for row in rows[of](record)]).convert_dtypes()


def _rounds(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for one in record["rounds"]:
        counted = {"answered": len(one["answered"]), "rejected": len(one["rejected"])}
        yield {**_single(one), **counted}


def _parties(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for party in record["parties"]:
        row = {**_single(party), "notes": "; ".join(note["code"] for note in party["notes"])}
        row |= {f"rows_of_class_{i}": count for i, count in enumerate(party["class_counts"])}
        for kind in _KINDS:
            for rows, metrics in party[kind].items():
                row |= {f"{kind}_{rows}_{name}": value for name, value in _single(metrics).items()}
        yield row


def _party_rounds(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for one in record["rounds"]:
        left_out = {x["party"] or f"node {x['node_id']}": x["code"] for x in one["rejected"]}
        for party in sorted({*one["answered"], *left_out}):
            row = {"server_round": one["server_round"], "party": party, "answered": party in one["answered"]}
            row |= {"left_out_because": left_out.get(party), "accuracy": one["accuracy"].get(party)}
            yield row | {"test_rows": one["tested"].get(party)}


def _models(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for party in record["parties"]:
        for kind in _KINDS:
            for rows, metrics in party[kind].items():
                yield {"whose": kind, "party": party["name"], "rows": rows, **_single(metrics)}
    for kind in _SHARED:
        for rows, metrics in record[kind].items():
            yield {"whose": kind, "party": None, "rows": rows, **_single(metrics)}


def _single(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that are one value: no lists, no further tables."""
    return {key: value for key, value in values.items() if not isinstance(value, dict | list)}
