"""Writes a card in Markdown beside the server's model and a silo's: what it is and learnt from, how good, the claims.

A card says no more than the run's record. The figures under *Evaluation* are for the operator.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from flwr.common import log

from fedkd_flwr.clients.answer import Finished
from fedkd_flwr.data.columns import short_list
from fedkd_flwr.data.public import Encoder
from fedkd_flwr.files import write_atomic
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.models.serialize import encoder_of, types_of
from fedkd_flwr.record.run_record import PartyRecord, RunRecord

__all__ = ["owners_word", "write_card", "write_server_card"]

logger = logging.getLogger("flwr.party")

_SENT = {
    "weights": "the parties' weights, averaged",
    "scores": "public rows with scores that parties sent",
    "trees": "trees that parties grew on their rows",
    "sums": "counts of the parties' rows, with noise",
}


def write_server_card(record: RunRecord, folder: Path) -> None:
    """Write the card of the server's model in a run's folder, if there is one; a card that cannot be is logged.

    A simulated party's model has none: a run of thousands would write as many, and its page says the same of all.
    """
    path = folder / "model.fedkd"
    try:
        if path.is_file():
            write_card(path, record)
    except Exception as error:  # the run's own outcome matters more
        log(logging.WARN, "no model card for %s: %s", path, error)


def owners_word(
    record: RunRecord, *, party: str, model_name: str, y: np.ndarray
) -> Callable[[Finished, Mapping[str, Path]], None]:
    """Return the function that shows the owner what a run left; `fedkd_flwr.clients.party.Party` calls it at its end.

    ``record``: what a silo knows of the run. ``y`` of shape (num_rows,), integers, are the classes of all private rows,
    own test rows among them.
    """

    def show(finished: Finished, models: Mapping[str, Path]) -> None:
        from fedkd_flwr.report import results
        from fedkd_flwr.report.recommendation import advice

        known = PartyRecord(name=party, model=model_name, solo=dict(finished.solo))
        known.federated = dict(finished.federated or {})
        known.class_counts = np.bincount(y, minlength=record.num_classes).tolist()
        record.parties = [known]
        better, evidence = advice(known, results.figure_used(record, "own"))
        if evidence:
            logger.info("%s: your better model: %s. %s", party, better or "own test rows do not tell", evidence)
        for kind, file in models.items():
            card = write_card(file, record, party=party, alone=kind == "alone")
            logger.info("%s: your model, %s, and its card: %s", party, kind, card)

    return show


def write_card(path: Path, record: RunRecord, *, party: str = "", alone: bool = False) -> Path:
    """Write the card of one model beside its file, and return its path: ``model.fedkd`` gets ``model.card.md``.

    ``party``: whose it is at a silo, "" for the server's; ``alone``: whether it learnt nothing from the federation.
    """
    from fedkd_flwr.report.claims import claim_meaning, no_claim, ordered
    from fedkd_flwr.report.html import environment
    from fedkd_flwr.report.model_warnings import warnings_of
    from fedkd_flwr.report.results import ROWS

    data = path.read_bytes()
    encoder, known = Encoder.from_bytes(encoder_of(data) or b""), record.party(party) if party else None
    found = record.server if known is None else known.solo if alone else known.federated
    lead = next((one for one in ("common", "own") if one in found), "")
    who = "This model" if party else "The server's model"
    sent = _SENT.get(record.sends, "public rows with labels that parties sent")
    text = (
        environment(_cell)
        .get_template("card.md")
        .render(
            record=record,
            party=party,
            whose=f"{party}'s model{', trained alone' if alone else ''}" if party else "the server's model",
            facts=[
                ("file", f"{path.name}, {len(data):,} bytes, SHA-256 {sha256(data).hexdigest()}"),
                ("model", ", ".join(name.rpartition(".")[2] for name in types_of(data))),
                ("answers", f"{encoder.schema.label}: {short_list(encoder.schema.classes, 40)}"),
                ("columns", short_list([one.name for one in encoder.schema.columns if one.name in encoder.reads], 40)),
                ("public rows", f"{record.num_public}, fingerprint {record.fingerprint}"),
                ("learnt from", sent if not party else f"private rows of {party}{'' if alone else f', and {sent}'}"),
                ("release", version("fedkd-flwr")),
            ],
            measured=[(ROWS[rows], _figures(one)) for rows, one in found.items()],
            warnings=[text for _, text in warnings_of(record, [found[lead]], who, lead)] if lead else [],
            no_claim=no_claim(record),
            claims=[] if party else [claim_meaning(claim) for claim in ordered(record.publishable().claims)],
        )
    )
    return write_atomic(path.with_suffix(".card.md"), (re.sub(r"\n{3,}", "\n\n", text).strip() + "\n").encode())


def _figures(found: Metrics) -> str:
    from fedkd_flwr.report.formatting import share
    from fedkd_flwr.report.results import FIGURES

    known = [(name.replace("_", " "), share(getattr(found, name), 4)) for name in FIGURES]
    return ", ".join([f"n {found.n}", *(f"{name} {value}" for name, value in known if value != "–")])


def _cell(value: Any) -> str:
    """Return foreign text so that it stays in its cell: no line break, no bar, no markup of its own."""
    from fedkd_flwr.report.formatting import plain

    return plain(str(value).replace("\n", " ")).replace("<", "&lt;").replace("|", "\\|")
