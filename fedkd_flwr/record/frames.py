"""A run record as pandas tables (`RunRecord.to_frame`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fedkd_flwr.checks import check_choice

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FRAMES", "frame"]

FRAMES = ("rounds", "parties", "models")
"""The tables there are; `fedkd_flwr.record.run_record.RunRecord.to_frame` says what each holds."""


def frame(record: Mapping[str, Any], of: str) -> pd.DataFrame:
    """Return one table of a record, given as plain types.

    Raises `ConfigError` if ``of`` is none of `FRAMES`.
    """
    import pandas as pd

    rows = {"rounds": _rounds, "parties": _parties, "models": _models}
    check_choice("the table", of, FRAMES)
    first = {"run_id": record["run_id"], "seed": record["seed"]}
    return pd.DataFrame([{**first, **row} for row in rows[of](record)]).convert_dtypes()


def _rounds(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for one in record["rounds"]:
        yield {**_single(one), "answered": len(one["answered"]), "rejected": len(one["rejected"])}


def _parties(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for party in record["parties"]:
        row = {**_single(party), "notes": "; ".join(note["code"] for note in party["notes"])}
        row |= {f"rows_of_class_{i}": count for i, count in enumerate(party["class_counts"])}
        for model in _models({"parties": [party]}):
            kind = f"{model.pop('whose')}_{model.pop('rows')}"
            row |= {f"{kind}_{name}": value for name, value in model.items() if name != "party"}
        yield row


def _models(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    of_parties = [(kind, one["name"], one[kind]) for one in record["parties"] for kind in ("solo", "federated")]
    of_all = [(kind, None, record.get(kind, {})) for kind in ("server", "centralised")]
    for whose, party, measured in [*of_parties, *of_all]:
        for rows, metrics in measured.items():
            yield {"whose": whose, "party": party, "rows": rows, **_single(metrics)}


def _single(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that are one value: no lists, no further tables."""
    return {key: value for key, value in values.items() if not isinstance(value, dict | list)}
