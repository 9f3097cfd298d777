"""Noisy sums: one release of counts at each party, of which the server makes a model and, if wanted, public rows.

The whole round:

    server   which noise                                                            -> every party
    party    how many of its rows are in each bin of each column, with each class;
             noise on every count                                                   -> the server
    server   adds them up -> a linear model -> labels of the public rows             -> every party

Each record is protected, against the server too, and nobody is trusted. Noise at the server, on exact counts, is not
offered: a claim for one record cannot rest on whether its party answers at all, and a record can decide that.

What is counted is fixed by the schema and by public rows (`fedkd_flwr.data.bins`); it is the same size at every party,
whatever it holds. The arithmetic is `fedkd_flwr.algorithms.noisy_sums`, the proof `fedkd_flwr.privacy.noise.sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from logging import INFO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.common import log
from numpy.typing import NDArray

from fedkd_flwr.algorithms.noisy_sums import CARD, NoisySumsConfig, aggregate
from fedkd_flwr.data.bins import Bins
from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.labels.voting import share_right
from fedkd_flwr.models.binned import BinnedLinear
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.privacy.claims.claim import PrivacyClaim, noisy_sums
from fedkd_flwr.privacy.noise.sums import NoisyCounts
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies.exchange import Exchange, PartyAnswer, Stage, checked_test
from fedkd_flwr.strategies.loop import ExchangeStrategy
from fedkd_flwr.wire.label_codec import encode_labels
from fedkd_flwr.wire.records import Reply, Room

__all__ = ["NoisySums", "NoisySumsExchange", "PartySums"]

_MOST = 2**40
"""Of a count, noise included: the sum of many stays a whole number of 64 bits."""


@dataclass(frozen=True, kw_only=True)
class PartySums(PartyAnswer):
    """One party's counts, (cells, num_classes), int64."""

    sums: NDArray[np.int64]


class NoisySumsExchange(Exchange[PartySums]):
    """The exchange of noisy sums. Takes ``test`` besides, rows to measure the server's model on.

    ``model``: the server's model, after the round; it holds the sums, `BinnedLinear.sums`.
    """

    card = CARD
    config: NoisySumsConfig
    told_config: NoisySumsConfig
    takes = ("test",)

    def __init__(
        self,
        *,
        test: tuple[NDArray[Any], NDArray[Any]] | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(**keywords)
        self.test = checked_test(test, self.public)
        self.bins = Bins.of(self.public, most=self.config.bins)
        self.model: Classifier | None = None

    @property
    def mechanism(self) -> NoisyCounts:
        """The noise on one release."""
        return self.told_config.mechanism(len(self.bins.sizes))

    @property
    def _shape(self) -> tuple[int, int]:
        return sum(self.bins.sizes), self.spec.num_classes

    @property
    def room(self) -> Room:
        """The most that an honest answer may hold: 8 bytes a cell besides."""
        return replace(super().room, num_bytes=super().room.num_bytes + 8 * self._shape[0] * self._shape[1])

    # ---------------------------------------------------------------- the round

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the model's labels of the public rows, at the end."""
        if stage == "fit" or self.model is None:
            return {}
        labels = self.model.predict(self.public.X)
        return {"labels": encode_labels(labels, public=self.spec, server_round=server_round)}

    def read(self, reply: Reply, server_round: int) -> PartySums:
        """Return the counts of a reply."""
        sums = reply.arrays.get("sums")
        if sums is None or sums.dtype != np.int64 or sums.shape != self._shape:
            seen = "none" if sums is None else f"{sums.dtype} of shape {sums.shape}"
            raise PayloadError(explain("sums", f"be int64 of shape {self._shape}", seen), reason="wrong-length")
        if not -_MOST <= sums.min() <= sums.max() <= _MOST:
            seen = f"{sums.min()} to {sums.max()}"
            raise PayloadError(explain("sums", f"be counts up to {_MOST}", seen), reason="not-a-number")
        return PartySums(party=reply.party, sums=sums)

    def combine_answers(self, server_round: int, answers: Sequence[PartySums], this: RoundRecord) -> ArrayRecord:
        """Add the counts up, make the model of them, and label the public rows."""
        released = [answer.sums for answer in answers]
        model = self._learnt(released)
        labels = model.predict(self.public.X)
        this.labelled_share, this.consensus_accuracy = 1.0, share_right(labels, self.public.truth)
        if self.test is not None and len(self.test[1]):
            self.record.server["common"] = model.metrics(*self.test)
        return ArrayRecord({"labels": Array(labels)})

    def _learnt(self, released: Sequence[NDArray[np.int64]]) -> Classifier:
        bins, (_, classes) = self.bins, self._shape
        sums, scores, prior, facts = aggregate(
            released,
            config=self.told_config,
            sizes=bins.sizes,
            public_cells=bins.cells(bins.codes(self.public.X)),
            noises=len(released),
        )
        words = "\tpublic rows differ from the sums by %.3f a column; the model is made %s"
        log(INFO, words, facts.difference, "with them" if facts.by_public_rows else "of the sums alone (naive Bayes)")
        weights, rest = bins.by_threshold(scores)
        given: dict[str, Any] = {"weights": weights, "intercept": rest + prior, "sums": sums, "noises": len(released)}
        self.model = Classifier(BinnedLinear(**bins.arrays(), **given), num_classes=classes)
        return self.model.fit(np.zeros((classes, self.public.num_features), np.float32), np.arange(classes))

    # ---------------------------------------------------------------- what is claimed

    def claim(self) -> list[PrivacyClaim]:
        """Return the claim for a record of the party asked most often."""
        times = self.roster.asked.most
        return [noisy_sums(self.mechanism, times=times, delta=self.config.delta)] if times else []


class NoisySums(ExchangeStrategy):
    """A model of noisy sums. Takes what `NoisySumsExchange` takes besides.

    After `start`: ``record`` and ``exchange.model``.
    """

    exchange_type = NoisySumsExchange
    exchange: NoisySumsExchange
