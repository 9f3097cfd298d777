"""Model cards beside the models that a run left: facts of the model's file, and what the run's record says of it."""

from __future__ import annotations

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
    """Return what a model's file says of itself, as plain values.

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
        "own columns": list(encoder.own),
        "reads": list(encoder.reads) if encoder.schema.shape is None else ["pixels"],
        "public set fingerprint": encoder.fingerprint,
    }


def write_card(
    path: Path, record: RunRecord, *, party: str = "", kind: str = "federated", at_silo: bool = False
) -> list[Path]:
    """Write the card of one model beside its file, as JSON and as Markdown, and return both paths.

    Parameters
    ----------
    path : Path
        The model's file: ``model.fedkd`` gets ``model.card.json`` and ``model.card.md``.
    record : RunRecord
        What is known of the run: the card says no more.
    party : str
        Whose model it is; "" for the server's.
    kind : {"federated", "alone", "extended"}
        Whether a party's model learnt from the federation's labels too, and reads columns that only it has.
    at_silo : bool
        Whether the card is written at a silo, whose record holds what that silo knows.
    """
    from fedkd_flwr.report.model_card import card_text, model_card

    facts = model_facts(path)
    card = model_card(record, facts, party=party, kind=kind, at_silo=at_silo, release=version("fedkd-flwr"))
    texts = {".card.json": card.to_json(), ".card.md": card_text(card)}
    return [write_atomic(path.with_suffix(suffix), text.encode()) for suffix, text in texts.items()]


def write_cards(record: RunRecord, folder: Path) -> None:
    """Write the cards of the models in a run's folder; a card that cannot be written is said in the log."""
    models = [(folder / "model.fedkd", "", "federated")]
    for party in record.parties:
        file = folder / "parties" / file_name(party.name)
        models += [(Path(f"{file}.model"), party.name, "federated")]
        models += [(Path(f"{file}.{kind}.model"), party.name, kind) for kind in ("alone", "extended")]
    for path, party_name, kind in models:
        try:
            if path.is_file():
                write_card(path, record, party=party_name, kind=kind)
        except Exception as error:  # the run's own outcome matters more
            log(WARN, "no model card for %s: %s", path, error)
