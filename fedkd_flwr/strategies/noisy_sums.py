"""Noisy sums: one release of counts at each party, of which the server makes a model and, if wanted, public rows.

    party    how many of its rows are in each bin of each column, with each class; noise on every count -> the server
    server   adds them up -> a linear model; its scores, as vectors                                     -> every party
    party    the products of its rows' vectors, with noise                                              -> the server
    server   adds them up -> a weight for each column -> labels of the public rows                      -> every party

The second round is left out with one round. Noise at the server, on exact counts, is not offered: a claim for one
record cannot rest on whether its party answers at all. The arithmetic is in `fedkd_flwr.algorithms.noisy_sums` and
`column_weights` beside it, the proofs in `fedkd_flwr.privacy.noise.sums`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from logging import INFO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.common import log
from numpy.typing import NDArray

from fedkd_flwr.algorithms.column_weights import asked, num_products, weighed
from fedkd_flwr.algorithms.noisy_sums import CARD, NoisySumsConfig, aggregate
from fedkd_flwr.data.bins import Bins
from fedkd_flwr.errors import ConfigError, PayloadError, explain
from fedkd_flwr.labels.voting import share_right
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.estimators import BinnedLinear
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
_MOST_ROUNDS = 2


@dataclass(frozen=True, kw_only=True)
class PartySums(PartyAnswer):
    """One party's counts, (cells, num_classes), or its products, flat: int64."""

    sums: NDArray[np.int64]


class NoisySumsExchange(Exchange[PartySums]):
    """The exchange of noisy sums. Takes ``test`` besides, rows to measure the server's model on.

    ``model``: the server's model, after the round; it holds the sums, `BinnedLinear.sums`.
    """

    card = CARD
    config: NoisySumsConfig
    told_config: NoisySumsConfig
    takes = ("test",)
    keeps = ("released", "noises")

    def __init__(self, *, test: tuple[NDArray[Any], NDArray[Any]] | None = None, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.test = checked_test(test, self.public)
        self.bins = Bins.of(self.public, most=self.config.bins)
        self.model: Classifier | None = None
        self.released: dict[str, NDArray[np.int64]] = {}  # what parties released, added up: "sums", then "products"
        self.noises: dict[str, int] = {}  # how often noise was added to it

    @property
    def mechanism(self) -> NoisyCounts:
        """The noise on the counts of one party."""
        return self.told_config.mechanism(len(self.bins.sizes))

    @property
    def _shape(self) -> tuple[int, int]:
        return sum(self.bins.sizes), self.spec.num_classes

    @property
    def room(self) -> Room:
        """The most that an honest answer may hold: 8 bytes a cell, or a product, besides."""
        numbers = max(self._shape[0] * self._shape[1], num_products(len(self.bins.sizes)))
        return replace(super().room, num_bytes=super().room.num_bytes + 8 * numbers)

    def plan(self, num_rounds: int) -> None:
        """Take the number of rounds; refuse more than two. A run that goes on makes its model again."""
        if num_rounds > _MOST_ROUNDS:
            raise ConfigError(explain("num-rounds", f"be at most {_MOST_ROUNDS} for {CARD.name}", num_rounds))
        super().plan(num_rounds)
        if self.released:
            self.model = self._learnt()

    # ---------------------------------------------------------------- the round

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the vectors of the second round, and the model's labels of the public rows at the end."""
        if stage == "fit":
            return {"vectors": asked(self._scores[0], self.released["sums"], self.bins.sizes)} if self.released else {}
        if self.model is None:
            return {}
        labels = self.model.predict(self.public.X)
        return {"labels": encode_labels(labels, public=self.spec, server_round=server_round)}

    def read(self, reply: Reply, server_round: int) -> PartySums:
        """Return the counts, or the products, of a reply."""
        first = "sums" not in self.released
        shape = self._shape if first else (num_products(len(self.bins.sizes)),)
        name, most = ("sums", _MOST) if first else ("products", 2**62)
        sums = reply.arrays.get(name)
        if sums is None or sums.dtype != np.int64 or sums.shape != shape:
            seen = "none" if sums is None else f"{sums.dtype} of shape {sums.shape}"
            raise PayloadError(explain(name, f"be int64 of shape {shape}", seen), reason="wrong-length")
        if not -most <= sums.min() <= sums.max() <= most:
            seen = f"{sums.min()} to {sums.max()}"
            raise PayloadError(explain(name, f"be up to {most}", seen), reason="not-a-number")
        return PartySums(party=reply.party, sums=sums)

    def combine_answers(self, server_round: int, answers: Sequence[PartySums], this: RoundRecord) -> ArrayRecord:
        """Add up what was released, make the model of it, and label the public rows."""
        name = "products" if "sums" in self.released else "sums"
        self.released[name] = np.sum([answer.sums for answer in answers], axis=0)
        self.noises[name] = len(answers)
        self.model = self._learnt()
        labels = self.model.predict(self.public.X)
        this.labelled_share, this.consensus_accuracy = 1.0, share_right(labels, self.public.truth)
        if self.test is not None and len(self.test[1]):
            self.record.server["common"] = self.model.metrics(*self.test)
        return ArrayRecord({"labels": Array(labels)})

    @cached_property
    def _scores(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The scores of cells and classes that the counts give."""
        bins = self.bins
        scores, prior, facts = aggregate(
            self.released["sums"],
            config=self.told_config,
            sizes=bins.sizes,
            public_cells=bins.cells(bins.codes(self.public.X)),
            noises=self.noises["sums"],
        )
        words = "\tpublic rows differ from the sums by %.3f a column; the model is made %s"
        log(INFO, words, facts.difference, "with them" if facts.by_public_rows else "of the sums alone (naive Bayes)")
        return scores, prior

    def _learnt(self) -> Classifier:
        bins, (_, classes), sums = self.bins, self._shape, self.released["sums"]
        scores, prior = self._scores
        if "products" in self.released:
            noise = self.told_config.products(len(bins.sizes)).sigma * math.sqrt(self.noises["products"])
            scores, prior = weighed(scores, sums, bins.sizes, self.released["products"], noise)
        weights, rest = bins.by_threshold(scores)
        given: dict[str, Any] = {"weights": weights, "intercept": rest + prior, "sums": sums}
        model = Classifier(BinnedLinear(**bins.arrays(), **given, noises=self.noises["sums"]), num_classes=classes)
        return model.fit(np.zeros((classes, self.public.num_features), np.float32), np.arange(classes))

    # ---------------------------------------------------------------- what is claimed

    def claim(self) -> list[PrivacyClaim]:
        """Return the claim for a record of the party asked most often."""
        times, columns = self.roster.asked.most, len(self.bins.sizes)
        mechanisms = [self.mechanism, *([self.told_config.products(columns)] if self.num_rounds > 1 else [])]
        return [noisy_sums(*mechanisms, times=times, delta=self.config.delta)] if times else []


class NoisySums(ExchangeStrategy[NoisySumsExchange]):
    """A model of noisy sums. Takes what `NoisySumsExchange` takes besides.

    After `start`: ``record`` and ``exchange.model``.
    """
