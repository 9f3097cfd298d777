"""What a silo's owner gets at the end of a run: a sentence in the log, and a card beside each of its models."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from fedkd_flwr.app.model_cards import write_card
from fedkd_flwr.clients.answer import Finished
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.settings.config import RunConfig

__all__ = ["owners_word"]

logger = logging.getLogger("flwr.party")


def owners_word(
    config: RunConfig, *, run_id: str, party: str, model_name: str, public: PublicSet, y: np.ndarray
) -> Callable[[Finished, Mapping[str, Path]], None]:
    """Return the function that shows the owner what a run left; `fedkd_flwr.clients.party.Party` calls it at its end.

    ``y`` of shape (num_rows,), integers, are the classes of all private rows, own test rows among them.
    """

    def show(finished: Finished, models: Mapping[str, Path]) -> None:
        from fedkd_flwr.report import results
        from fedkd_flwr.report.recommendation import recommendation

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
        advice = recommendation(record.parties[0], classes=record.classes, figure=results.figure_used(record, "own"))
        if advice is not None:
            logger.info("%s: recommended: %s. %s", party, advice.verdict, advice.why)
        for kind, file in models.items():
            card = write_card(file, record, party=party, kind=kind, at_silo=True)
            logger.info("%s: your model, %s, and its card: %s", party, kind, card)

    return show
