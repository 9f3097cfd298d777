"""Writes a card in Markdown beside the server's model and a silo's: what it is and learnt from, how good, the claims.

A card says no more than the run's record. The figures under *Evaluation* are for the operator.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from flwr.common import log

from fedkd_flwr.clients.answer import Finished
from fedkd_flwr.data.public import Encoder, PublicSet
from fedkd_flwr.files import write_atomic
from fedkd_flwr.models.serialize import describe, encoder_of
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.settings.config import RunConfig

__all__ = ["model_card", "owners_word", "write_card", "write_server_card"]

logger = logging.getLogger("flwr.party")

_SENT = {
    "weights": "the parties' weights, averaged",
    "scores": "public rows with scores that parties sent",
    "trees": "trees that parties grew on their rows",
    "sums": "counts of the parties' rows, with noise",
}


def write_card(
    path: Path, record: RunRecord, *, party: str = "", kind: str = "federated", at_silo: bool = False
) -> Path:
    """Write the card of one model beside its file, and return its path: ``model.fedkd`` gets ``model.card.md``."""
    card = model_card(path, record, party=party, kind=kind, at_silo=at_silo)
    return write_atomic(path.with_suffix(".card.md"), card.encode())


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
    config: RunConfig, *, run_id: str, party: str, model_name: str, public: PublicSet, y: np.ndarray
) -> Callable[[Finished, Mapping[str, Path]], None]:
    """Return the function that shows the owner what a run left; `fedkd_flwr.clients.party.Party` calls it at its end.

    ``y`` of shape (num_rows,), integers, are the classes of all private rows, own test rows among them.
    """

    def show(finished: Finished, models: Mapping[str, Path]) -> None:
        from fedkd_flwr.report import results
        from fedkd_flwr.report.recommendation import advice

        record = RunRecord(
            run_id=run_id,
            algorithm=config.card.name,
            sends=config.card.sends,
            returns=config.card.returns,
            one_shot=config.card.one_shot,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            status="completed",
            seed=config.seed,
            config=config.as_scalars(),
            num_public=public.num_rows,
            num_classes=public.num_classes,
            classes=list(public.schema.classes),
            fingerprint=public.fingerprint,
        )
        record.parties.append(
            PartyRecord(
                name=party,
                model=model_name,
                solo=dict(finished.solo),
                federated=dict(finished.federated or {}),
                class_counts=np.bincount(y, minlength=public.num_classes).tolist(),
            )
        )
        better, evidence = advice(record.parties[0], results.figure_used(record, "own"))
        if evidence:
            logger.info("%s: your better model: %s. %s", party, better or "own test rows do not tell", evidence)
        for kind, file in models.items():
            card = write_card(file, record, party=party, kind=kind, at_silo=True)
            logger.info("%s: your model, %s, and its card: %s", party, kind, card)

    return show


def model_card(path: Path, record: RunRecord, *, party: str, kind: str, at_silo: bool) -> str:
    """Return the card of the model in a file; ``party``: whose it is, "" for the server's.

    ``kind`` (one of "federated", "alone"): whether a party's model learnt from the federation's labels too. ``record``:
    the run's; at a silo, what the silo knows of it.
    """
    from fedkd_flwr.report.claims import claim_meaning, ordered
    from fedkd_flwr.report.formatting import share
    from fedkd_flwr.report.html import environment
    from fedkd_flwr.report.model_warnings import warnings_of
    from fedkd_flwr.report.results import FIGURES, ROWS
    from fedkd_flwr.report.run_privacy import no_claim

    data = path.read_bytes()
    encoder, known = Encoder.from_bytes(encoder_of(data) or b""), record.party(party) if party else None
    found = record.server if known is None else known.solo if kind == "alone" else known.federated
    figures = [("n", [str(m.n) for m in found.values()])]
    figures += [(name.replace("_", " "), [share(getattr(m, name), 4) for m in found.values()]) for name in FIGURES]
    lead = next((one for one in ("common", "own") if one in found), "")
    who = "This model" if party else "The server's model"
    text = (
        environment(_cell)
        .get_template("card.md")
        .render(
            record=record,
            columns=[column for column in encoder.schema.columns if column.name in encoder.reads],
            shape=encoder.schema.shape,
            party=party,
            at_silo=at_silo,
            whose=f"{party}'s model{', trained alone' if kind == 'alone' else ''}" if party else "the server's model",
            facts=[
                ("file", f"{path.name}, {len(data):,} bytes, SHA-256 {sha256(data).hexdigest()}"),
                ("model", ", ".join(name.rpartition(".")[2] for name in describe(data)["types"])),
                ("answers", f"{encoder.schema.label}: {_listed(encoder.schema.classes)}"),
                ("public rows", f"{record.num_public}, fingerprint {record.fingerprint}"),
                ("learnt from", _learnt_from(record, party, kind)),
                ("release", version("fedkd-flwr")),
            ],
            measured=[ROWS[one] for one in found],
            figures=[(name, cells) for name, cells in figures if set(cells) != {"–"}],
            warnings=[text for _, text in warnings_of(record, [found[lead]], who, lead)] if lead else [],
            listed=_listed,
            no_claim=no_claim(record),
            claims=[claim_meaning(claim) for claim in ordered(record.publishable().claims)],
        )
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _cell(value: Any) -> str:
    """Return foreign text so that it stays in its cell: no line break, no bar, no markup of its own."""
    from fedkd_flwr.report.formatting import plain

    return plain(str(value).replace("\n", " ")).replace("<", "&lt;").replace("|", "\\|")


def _listed(names: Sequence[Any]) -> str:
    """Return names, of many the first 40 and how many there are."""
    return ", ".join(map(str, names[:40])) + (f", ... ({len(names)} in all)" if len(names) > 40 else "")


def _learnt_from(record: RunRecord, party: str, kind: str) -> str:
    sent = _SENT.get(record.sends, "public rows with labels that parties sent")
    alone = f"private rows of {party}"
    return sent if not party else f"{alone} alone" if kind == "alone" else f"{alone}, and {sent}"
