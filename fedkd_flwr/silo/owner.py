"""The page and the log line that a silo's owner gets at the end of a run."""

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

__all__ = ["owners_page"]

logger = logging.getLogger("flwr.party")


def owners_page(
    config: RunConfig, *, run_id: str, party: str, model_name: str, public: PublicSet, y: np.ndarray, path: Path
) -> Callable[[Finished, Mapping[str, Path]], None]:
    """Return the function that shows the owner what a run left; `fedkd_flwr.clients.party.Party` calls it at its end.

    ``y`` of shape (num_rows,), integers, are the classes of all private rows, own test rows among them; ``path`` is the
    page to write.
    """

    def show(finished: Finished, models: Mapping[str, Path]) -> None:
        from fedkd_flwr.report.owner_page import owner_advice, write_owner_page

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
        if (advice := owner_advice(record)) is not None:
            logger.info("%s: recommended: %s. %s", party, advice.verdict, advice.why)
        logger.info("%s: your own page: %s", party, write_owner_page(record, path, models=models))
        for kind, file in models.items():
            write_card(file, record, party=party, kind=kind, at_silo=True)

    return show
