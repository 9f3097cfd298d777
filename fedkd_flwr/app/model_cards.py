"""Writes a card beside each model of a run, from the facts of the model's file and the run's record."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import version
from logging import WARN
from pathlib import Path
from typing import Any

from flwr.common import log

from fedkd_flwr.data.encoder import Encoder
from fedkd_flwr.files import write_atomic
from fedkd_flwr.models.serialize import describe, encoder_of
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.files import file_name

__all__ = ["model_facts", "write_card", "write_cards"]


def model_facts(path: Path) -> dict[str, Any]:
    """Return the facts that a model's file holds, as plain values.

    Raises
    ------
    ModelBytesError
        If it is no model, or one without a schema.
    """
    data = path.read_bytes()
    encoder = Encoder.from_bytes(encoder_of(data) or b"")
    columns = [
        {
            "name": column.name,
            "kind": column.kind,
            "categories": list(column.categories),
            "written": column.reading.words,
        }
        for column in encoder.schema.columns
    ]
    return {
        "file": path.name,
        "bytes": len(data),
        "sha256": sha256(data).hexdigest(),
        **describe(data),
        "classes": list(encoder.schema.classes),
        "label": encoder.schema.label,
        "id column": encoder.schema.id_column,
        "image shape": None if encoder.schema.shape is None else list(encoder.schema.shape),
        "columns": columns,
        "reads": list(encoder.reads) if encoder.schema.shape is None else ["pixels"],
        "public set fingerprint": encoder.fingerprint,
    }


def write_card(
    path: Path,
    record: RunRecord,
    *,
    party: str = "",
    kind: str = "federated",
    at_silo: bool = False,
    run: Mapping[str, Any] | None = None,
) -> Path:
    """Write the card of one model beside its file, and return its path: ``model.fedkd`` gets ``model.card.md``.

    The card says no more than the record does. ``party`` is "" for the server's model; ``kind`` says whether a party's
    model learnt ``alone``, or from the federation's labels too; a silo's record holds what that silo knows. ``run`` as
    of `fedkd_flwr.report.model_card.model_card`.
    """
    from fedkd_flwr.report.model_card import model_card

    facts = model_facts(path)
    told: dict[str, Any] = {"party": party, "kind": kind, "at_silo": at_silo, "run": run}
    card = model_card(record, facts, **told, release=version("fedkd-flwr"))
    return write_atomic(path.with_suffix(".card.md"), card.encode())


def write_cards(record: RunRecord, folder: Path) -> None:
    """Write the cards of the models in a run's folder; a card that cannot be written is logged."""
    from fedkd_flwr.report.model_card import of_run

    models = [(folder / "model.fedkd", "", "federated")]
    for party in record.parties:
        file = folder / "parties" / file_name(party.name)
        models += [(Path(f"{file}.model"), party.name, "federated"), (Path(f"{file}.alone.model"), party.name, "alone")]
    run: Mapping[str, Any] | None = None
    for path, party_name, kind in models:
        try:
            if path.is_file():
                run = run or of_run(record)
                write_card(path, record, party=party_name, kind=kind, run=run)
        except Exception as error:  # the run's own outcome matters more
            log(WARN, "no model card for %s: %s", path, error)
