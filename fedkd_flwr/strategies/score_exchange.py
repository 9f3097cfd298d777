"""The exchange of class scores on some public rows a round: what FedMD, distributed distillation and others share.

    down   the averages of the last round's rows, and the next round's rows
    up     logits, probabilities or labels of the next round's rows

How scores are averaged is `fedkd_flwr.algorithms.score_exchange`; what a party does with the averages is each
algorithm's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedkd_flwr.algorithms.score_exchange import Mechanism, ScoreExchangeConfig, ScoreFacts, aggregate
from fedkd_flwr.errors import ConfigError, PayloadError, explain
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.labels.voting import share_right
from fedkd_flwr.privacy.claims.claim import SERVER, PrivacyClaim, label_privacy, subsampling
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies.exchange import Exchange, PartyAnswer, Stage
from fedkd_flwr.wire.label_codec import decode_labels
from fedkd_flwr.wire.records import Reply
from fedkd_flwr.wire.score_codec import decode_scores, encode_rows, encode_scores

__all__ = ["PartyScores", "ScoreExchange"]

_LARGEST = 1e12
"""Of a logit or noisy score, which our noise never reaches: a net's loss against the averages must stay finite."""


@dataclass(frozen=True, kw_only=True)
class PartyScores(PartyAnswer):
    """One party's answers of one round."""

    # its logits or probabilities of shape (num_rows, num_classes), float32; its labels of shape (num_rows,), int16,
    # where it sent labels
    scores: NDArray[Any]


class ScoreExchange(Exchange[PartyScores]):
    """Base of the exchanges of scores. Parameters as in `Exchange`, and these.

    ``party_rows``: how many rows each party holds, where the operator knows (simulation): what NFDP's numbers need.

    ``average`` (num_rows, num_classes), float64: the last round's averages: logits, or probabilities. ``average_rows``
    (num_rows,), int64: the public rows they speak of.
    """

    config: ScoreExchangeConfig
    told_config: ScoreExchangeConfig
    takes: ClassVar[tuple[str, ...]] = ("party_rows",)
    keeps: ClassVar[tuple[str, ...]] = ("average", "average_rows")  # as they are; what travels is rounded

    def __init__(self, *, party_rows: Sequence[int] = (), **keywords: Any) -> None:
        super().__init__(**keywords)
        self.party_rows = tuple(party_rows)
        self.average: NDArray[np.float64] | None = None
        self.average_rows: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._drawn = 0, self.average_rows  # round, its rows
        self.batch = self.config.batch(self.spec.num_public)
        if self.config.pretrain_epochs and self.public.labels is None:
            rule, seen = "be 0 without labelled public rows", self.config.pretrain_epochs
            way_out = "Name the column of labels in paper.public-label-column, or set paper.pretrain-epochs to 0."
            raise ConfigError(explain("paper.pretrain-epochs", rule, seen, way_out))

    # ---------------------------------------------------------------- what travels

    def rows(self, server_round: int) -> NDArray[np.int64]:
        """Return the public rows of a round, ascending: the same for all parties."""
        if self._drawn[0] != server_round:  # asked for by every reply
            order = self.rng("public-rows-per-round", server_round).permutation(self.spec.num_public)
            self._drawn = server_round, np.sort(order[: self.batch]).astype(np.int64)
        return self._drawn[1]

    def asked_rows(self, server_round: int) -> NDArray[np.int64]:
        """Return the rows of a round that parties answer, ascending: all of them, unless an algorithm knows some."""
        return self.rows(server_round)

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the averages with their rows, once there are any, and the rows to answer next."""
        arrays = {} if self.average is None else self.lesson(self.average, server_round)
        if stage == "fit":
            arrays["indices"] = encode_rows(self.asked_rows(server_round), num_public=self.spec.num_public)
        return arrays

    def lesson(self, average: NDArray[np.float64], server_round: int) -> dict[str, NDArray[Any]]:
        """Return the last averages and their rows as wire arrays."""
        return {
            "previous": encode_rows(self.average_rows, num_public=self.spec.num_public),
            self.config.kind: self.encode_averages(average, server_round),
        }

    def encode_averages(self, average: NDArray[np.floating[Any]], server_round: int) -> NDArray[np.uint8]:
        """Return averages (num_rows, num_classes) as bytes."""
        spec, kind = self.spec.rows(len(average)), self.config.kind
        return encode_scores(average, public=spec, server_round=server_round, kind=kind, bits=self.config.bits_down)

    def read(self, reply: Reply, server_round: int) -> PartyScores:
        """Return the scores or labels of a reply."""
        rows, name = self.asked_rows(server_round), self.config.payload
        spec = self.spec.rows(len(rows))
        if name not in reply.arrays:
            raise PayloadError(f"no {name} in the reply")
        if name == "labels":
            scores: NDArray[Any] = decode_labels(
                reply.arrays[name], public=spec, server_round=server_round, num_arrays=1
            )[0]
            if (scores == ABSTAIN).any():
                raise PayloadError(explain("labels", "name a class in every row", ABSTAIN), reason="class-out-of-range")
        else:
            scores = decode_scores(reply.arrays[name], public=spec, server_round=server_round, kind=name)
            if (largest := float(np.abs(scores).max())) > _LARGEST:
                raise PayloadError(explain(name, f"be within +-{_LARGEST:g}", largest), reason="not-a-number")
        return PartyScores(party=reply.party, scores=scores)

    def combine_answers(self, server_round: int, answers: Sequence[PartyScores], this: RoundRecord) -> ArrayRecord:
        """Average the scores, describe them in the record, and keep them for the next round."""
        self.average, facts = self.combine([answer.scores for answer in answers], server_round)
        self.average_rows = self.rows(server_round)
        this.labelled_share = self.batch / self.spec.num_public
        this.agreement, this.kept_share = facts.agreement, facts.kept_share
        this.consensus_accuracy = share_right(self.average.argmax(axis=1), self.public.truth[self.average_rows])
        averages = Array(self.average.astype(np.float32))
        return ArrayRecord({self.config.kind: averages, "rows": Array(self.average_rows)})

    def combine(self, scores: Sequence[NDArray[Any]], server_round: int) -> tuple[NDArray[np.float64], ScoreFacts]:
        """Return the averages of the round's rows, and what they show."""
        return aggregate(scores, config=self.told_config, num_classes=self.spec.num_classes)

    # ---------------------------------------------------------------- what is claimed

    @cached_property
    def mechanism(self) -> Mechanism:
        """What parties do to one row's answer; None without noise."""
        return self.told_config.mechanism(num_classes=self.spec.num_classes)

    def claim(self) -> list[PrivacyClaim]:
        """Return what noise, or one subset for ever, is worth; nothing without."""
        rounds = self.roster.asked.most
        if not rounds or self.config.privacy == "none":
            return []
        if self.config.subset_rows:
            return [self._subset_claim()]
        claim = label_privacy(
            self.mechanism,
            num_labels=self.batch,
            rounds=rounds,
            delta=self.config.delta,
            num_parties=self.roster.num_asked,
        )
        words = getattr(self.mechanism, "words", "")
        return [replace(claim, mechanism=f"{words}; {self.batch:,} public rows a round, {rounds:,} rounds")]

    def _subset_claim(self) -> PrivacyClaim:
        """Return NFDP's claim: with numbers only where the parties' numbers of rows are known here."""
        k, replacement = self.config.subset_rows, self.config.subset_replacement
        apart = "Whatever a party measures on its other rows is not covered, and stays with it."
        if self.party_rows:
            least = min(self.party_rows)
            smallest = Subsampling.claimed(rows_at_least=least, subset_rows=k, replacement=replacement)
            claim = subsampling(smallest)
            whose = f"The numbers of the most exposed party, of {least:,} rows; other parties hold other people."
            return replace(claim, notes=(*claim.notes, whose, apart))
        how = "with" if replacement else "without"
        return PrivacyClaim(
            unit="record",
            adversary=SERVER,
            epsilon=float("inf"),
            delta=0.0,
            neighbouring_relation="add or remove one record",
            publishable=True,
            basis="none: epsilon and delta depend on how many rows a party is known to hold; each party's own ledger "
            "states its own",
            mechanism=f"random subset of {k} rows of each party, {how} replacement, drawn once for ever (NFDP)",
            protects_from="the server and everyone after it; the party draws the subset itself",
            notes=(apart,),
        )
