"""PrivateKT: the server teaches its model a few public rows a round, labelled by parties under local privacy.

Qi et al., Nature Communications 14, 2023, Algorithm 1; where the text leaves a choice, the published code. Round t:

    server   Theta_t and the numbers of K public rows                   -> a group of parties
    party    train Theta_t on its rows; label the K rows; randomised response on each of the K labels -> labels
    server   unbiased mean of the labels -> buffer of the last B rounds; Theta_t learns the whole buffer (full-batch
             steps), then its own answers on rows it is sure of -> Theta_t+1; draw the next K rows where it is unsure

Dropout, minibatches and the optimiser start anew in each round, from the seed, so that a run can be continued exactly.

Formal guarantees: a participation is K labels of epsilon ``round_epsilon / K`` each; any change of the party's data is
covered, against the server; participations compose, since there is no shuffler that hides who sent what.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedkd_flwr.algorithms.privatekt import (
    BUFFER_ROUNDS,
    BUFFER_STEPS,
    CARD,
    SELF_TRAINING_SHARE,
    PrivateKTConfig,
    aggregate,
    draw_by_entropy,
)
from fedkd_flwr.errors import ConfigError, PayloadError, explain
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.labels.voting import share_right
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.privacy.claims.claim import PrivacyClaim, label_privacy
from fedkd_flwr.privacy.noise.labels import RandomizedResponse, kept_share
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies.exchange import Arrays, Exchange, Stage, checked_test
from fedkd_flwr.strategies.label_exchange import PartyLabels
from fedkd_flwr.strategies.loop import ExchangeStrategy
from fedkd_flwr.wire.label_codec import decode_labels
from fedkd_flwr.wire.records import Reply, numbered

__all__ = ["PrivateKT", "PrivateKTExchange"]

_NO_SHUFFLER = (
    "Each round a party is asked in costs it again: composed over the rounds of the party asked most often. The "
    "paper's claim that rounds do not accumulate needs a shuffler that hides who sent what; there is none here."
)


class PrivateKTExchange(Exchange[PartyLabels]):
    """The exchange of PrivateKT. Further parameters as in `Exchange`.

    ``global_model``: ``global_model(seed=...)`` returns a fresh torch net; parties must build the same one. ``test``,
    optional: rows to measure the server's model on after each round.

    ``model``: the server's model. ``buffer``: rows and class probabilities that it learnt from in the last rounds.
    ``rows`` (transfer_rows,), int64: the public rows of the next round.
    """

    card = CARD
    config: PrivateKTConfig
    free_settings = Exchange.free_settings | {"delta", "solo_epochs"}
    leaves_weights = True
    takes = ("global_model", "test")
    keeps = ("rows", "buffer")

    def __init__(
        self,
        *,
        global_model: Callable[..., Classifier],
        test: tuple[NDArray[Any], NDArray[Any]] | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(**keywords)
        if not self.config.transfer_rows <= self.spec.num_public:
            rule, way_out = f"be at most {self.spec.num_public} (public rows)", "Ask for fewer rows a round."
            key = self.config.keys()["transfer_rows"]
            raise ConfigError(explain(key, rule, self.config.transfer_rows, way_out))
        self.global_model, self.test = global_model, checked_test(test, self.public)
        self.buffer = deque[tuple[NDArray[np.int64], NDArray[np.float64]]](maxlen=BUFFER_ROUNDS)
        self.model = self._fresh("model")
        self.model.initialize()
        self.rows = self._draw(1)

    def begin_with(self, arrays: ArrayRecord | None) -> ArrayRecord:
        """Take weights to start from; raise `DataError` if they do not fit the net.

        A run that continues another one has that run's.
        """
        if arrays and not self.rounds_done:
            self.model.set_arrays([array.numpy() for array in arrays.values()])
            self.rows = self._draw(1)
        return arrays or ArrayRecord()

    # ---------------------------------------------------------------- what an algorithm says

    @cached_property
    def mechanism(self) -> RandomizedResponse:
        """What parties do to each label."""
        return self.config.mechanism(self.spec.num_classes)

    @property
    def told_config(self) -> PrivateKTConfig:
        """The settings as parties are told them: SOLO gets the passes of the party asked most often so far."""
        asked = self.roster.asked.most
        return self.config.resolved(
            num_public=self.spec.num_public, num_classes=self.spec.num_classes, num_rounds=asked
        )

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the model and, in a round, the rows to label."""
        arrays = numbered("model", self.model.arrays())
        return {**arrays, "indices": self.rows.astype(np.int32)} if stage == "fit" else arrays

    def read(self, reply: Reply, server_round: int) -> PartyLabels:
        """Return a party's labels of this round's rows."""
        if "labels" not in reply.arrays:
            raise PayloadError("no labels in the reply")
        spec = self.spec.rows(len(self.rows))
        labels = decode_labels(reply.arrays["labels"], public=spec, server_round=server_round, num_arrays=1)
        if (labels == ABSTAIN).any():
            raise PayloadError(explain("labels", "be given to every row", ABSTAIN), reason="class-out-of-range")
        return PartyLabels(party=reply.party, labels=labels)

    def combine_answers(self, server_round: int, answers: Sequence[PartyLabels], this: RoundRecord) -> ArrayRecord:
        """Learn from the round's labels; keep the state; return the model."""
        this.kept_share = kept_share(self.mechanism)
        targets, labels = aggregate(
            [answer.labels[0] for answer in answers],
            config=self.config,
            num_classes=self.spec.num_classes,
            rng=self.rng("ties", server_round),
        )
        self.buffer.append((self.rows, targets))
        this.consensus_accuracy = share_right(labels, self.public.truth[self.rows])
        self.model = self._taught(server_round)
        self.rows = self._draw(server_round + 1)
        if self.test is not None and len(self.test[1]):
            self.record.server["common"] = found = self.model.metrics(*self.test)
            this.server_accuracy = found.accuracy
        return ArrayRecord({name: Array(array) for name, array in numbered("model", self.model.arrays()).items()})

    def restore(self, result: Arrays, kept: Mapping[str, Any]) -> None:
        """Take up the model, the rows of the next round and the knowledge of the last ones."""
        super().restore(result, {**kept, "buffer": deque(kept["buffer"], maxlen=BUFFER_ROUNDS)})
        self.model.set_arrays(list(result.values()))

    @property
    def takes_latecomers(self) -> bool:
        """Whether nodes that come late are asked: not where a party may be asked once, for they have no names yet."""
        return self.config.participation == "any"

    def _taught(self, server_round: int) -> Classifier:
        model = self._fresh("teach", server_round).set_arrays(self.model.arrays())
        (rows, targets), X = map(np.concatenate, zip(*self.buffer, strict=True)), self.public.X
        model.full_batch_steps(X[rows], targets, steps=BUFFER_STEPS)
        if count := round(SELF_TRAINING_SHARE * len(X)):
            probs = model.predict_proba(X)
            sure = draw_by_entropy(probs, count, prefer="certain", rng=self.rng("self-training", server_round))
            model.digest(X[sure], probs[sure], epochs=1, loss="cross-entropy")
        return model

    def _draw(self, server_round: int) -> NDArray[np.int64]:
        probs, rng = self.model.predict_proba(self.public.X), self.rng("rows", server_round)
        return draw_by_entropy(probs, self.config.transfer_rows, prefer="uncertain", rng=rng)

    def _fresh(self, *stream: str | int) -> Classifier:
        return self.global_model(seed=int(self.rng(*stream).integers(2**31)))

    # ---------------------------------------------------------------- who is asked, and what that costs

    def rounds_left(self, server_round: int) -> int:
        """Return in how many rounds a party is going to be asked from this one on."""
        return super().rounds_left(server_round) if self.config.participation == "any" else 1

    def check_budget(self, server_round: int) -> None:
        """Refuse before anybody is asked where parties that may be asked once are too few for the rounds."""
        if self.config.participation == "any" or server_round != self.rounds_done + 1:
            return
        fresh, group = len(self._never_asked(self.roster.nodes)), self._group
        most = self.rounds_done + fresh // group
        if not most >= self.num_rounds:
            rule = f"be at most {most} with participation once ({group} of {fresh} parties a round)"
            way_out = 'Lower fraction-parties or num-rounds, or set participation to "any".'
            raise ConfigError(explain("num-rounds", rule, self.num_rounds, way_out))

    @property
    def _group(self) -> int:
        return max(self.roster.fewest, math.ceil(self.roster.fraction * len(self.roster.nodes)))

    def _never_asked(self, nodes: Iterable[int]) -> list[int]:
        roster = self.roster
        return roster.in_order(
            n for n in nodes if not roster.times_asked[n] and not roster.earlier.before(roster.name_of(n))
        )

    def choose(self, nodes: list[int], server_round: int) -> list[int]:
        """Return the round's group: of all connected parties, or of those never asked."""
        if self.config.participation == "any":
            return super().choose(nodes, server_round)
        fresh = self._never_asked(nodes)
        chosen = self.rng("sample", server_round).permutation(len(fresh))[: self._group]
        return [fresh[i] for i in sorted(chosen)]

    def claim(self) -> list[PrivacyClaim]:
        """Return the claim of the party asked most often."""
        asked = self.roster.asked
        if not asked.most:
            return []
        rows = self.config.transfer_rows
        claim = label_privacy(
            self.mechanism,
            num_labels=rows,
            rounds=asked.most,
            delta=self.config.delta,
            num_parties=self.roster.num_asked,
        )
        rounds = f"{asked.most:,} round{'s' * (asked.most > 1)}"
        words = f"{self.mechanism.words}; {rows:,} labels a round, {rounds} of the party asked most often"
        return [replace(claim, mechanism=words, notes=(*claim.notes, _NO_SHUFFLER))]


class PrivateKT(ExchangeStrategy[PrivateKTExchange]):
    """Knowledge transfer under local differential privacy.

    Takes ``global_model`` and ``test`` besides, as `PrivateKTExchange`; ``config`` is a `PrivateKTConfig`.
    After `start`: ``record`` and ``exchange.model``.
    """
