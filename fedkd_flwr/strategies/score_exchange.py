"""The exchange of class scores on some public rows a round: what FedMD and distributed distillation have in common.

    down   the averages of the last round's rows, and the next round's rows
    up     logits, probabilities or labels of the next round's rows

How scores are averaged, and what noise or subsampling at the parties costs, is here; what a party does with the
averages is each algorithm's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, PayloadError, check_choice, check_whole, explain
from fedkd_flwr.labels import ABSTAIN, Labels
from fedkd_flwr.labels.party_weights import Weighting, WeightingName, make_weighting
from fedkd_flwr.labels.scores import onto_simplex
from fedkd_flwr.privacy.claims.claim import SERVER, PrivacyClaim, label_privacy, subsampling
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse, kept_share, label_mechanism
from fedkd_flwr.privacy.noise.scores import ScoreMechanism, score_mechanism
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.run_record import RoundRecord
from fedkd_flwr.strategies.base import ExchangeConfig, ExchangeStrategy, Stage
from fedkd_flwr.strategies.reception import PartyAnswer, notes_of
from fedkd_flwr.wire.label_codec import decode_labels
from fedkd_flwr.wire.records import Reply, Scalar
from fedkd_flwr.wire.row_codec import encode_rows
from fedkd_flwr.wire.score_codec import SoftKind, decode_scores, encode_scores

__all__ = ["PartyScores", "SoftConfig", "SoftStrategy"]

Share = Literal["logits", "softmax", "argmax"]
DigestLoss = Literal["auto", "cross-entropy", "l1-logits", "mse-probs"]
USUAL_BATCH = 5000


@dataclass(frozen=True, kw_only=True)
class SoftConfig(ExchangeConfig):
    """What every exchange of scores has in common. Further parameters as in `ExchangeConfig`.

    Parameters
    ----------
    share : {"logits", "softmax", "argmax"}
        What parties send: a net's outputs, class probabilities, or labels alone.
    public_batch : int
        Public rows a round, drawn from the run's seed. 0: 5,000, or all where there are fewer.
    digest_loss : {"auto", "cross-entropy", "l1-logits", "mse-probs"}
        How nets compare their answers with the averages; ``auto``: by logits where logits are shared, else each
        algorithm's own.
    aggregation_weights : {"equal", "agreement", "dawid-skene"}
        How much each party counts in the averages: equally, as published, or see `fedkd_flwr.labels.party_weights`.
    soft_bits : {32, 16}
        Precision of logits and probabilities on the wire. Averages of labels always travel at 16.
    pretrain_epochs : int
        Passes over the labelled public rows with which every net starts. 0: it starts from random weights.
    subset_rows : int
        NFDP: each party learns from so many of its rows only, drawn once for ever (the paper's k). 0: from all.
    subset_replacement : bool
        Whether a row may be drawn several times.
    score_noise : {"none", "laplace", "gaussian"}
        LDP: what a party adds to the logits or probabilities it sends.
    score_scale : float
        Scale (Laplace) or standard deviation (Gaussian) of that noise. 0: found from ``epsilon``.
    logit_bound : float
        With noise, logits are clipped to plus or minus this.
    label_mechanism : {"none", "randomized-response"}
        LDP with ``share="argmax"``: what a party does to each label.
    label_epsilon : float
        Epsilon of one label. 0: found from ``epsilon``.
    epsilon : float
        What the noise of all rounds may cost together, at ``delta``. 0: the noise is given.
    """

    share: Share = "softmax"
    public_batch: int = 0
    digest_loss: DigestLoss = "auto"
    aggregation_weights: WeightingName = "equal"
    soft_bits: int = 32
    pretrain_epochs: int = 0
    subset_rows: int = 0
    subset_replacement: bool = True
    score_noise: Literal["none", "laplace", "gaussian"] = "none"
    score_scale: float = 0.0
    logit_bound: float = 10.0
    label_mechanism: Literal["none", "randomized-response"] = "none"
    label_epsilon: float = 0.0
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        words: dict[str, tuple[object, ...]] = {
            "share": ("logits", "softmax", "argmax"),
            "digest_loss": ("auto", "cross-entropy", "l1-logits", "mse-probs"),
            "soft_bits": (32, 16),
            "score_noise": ("none", "laplace", "gaussian"),
            "label_mechanism": ("none", "randomized-response"),
            "subset_replacement": (True, False),
        }
        for name, choices in words.items():
            check_choice(name, getattr(self, name), choices)
        make_weighting(self.aggregation_weights)
        for name in ("public_batch", "pretrain_epochs", "subset_rows"):
            check_whole(name, getattr(self, name), 0)
        for name in ("score_scale", "label_epsilon", "epsilon"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise ConfigError(explain(name, "be finite and >= 0", getattr(self, name)))
        if not 0.0 < self.logit_bound < float("inf"):
            raise ConfigError(explain("logit_bound", "be finite and > 0", self.logit_bound))
        if self.digest_loss == "l1-logits" and self.share != "logits":
            way_out = 'Use share "logits" with it, or another loss.'
            raise ConfigError(explain("digest_loss", f"fit share {self.share!r}", self.digest_loss, way_out))
        self._check_noise()

    def _check_noise(self) -> None:
        scores, labels = self.score_noise != "none", self.label_mechanism != "none"
        if scores and self.share == "argmax":
            way_out = 'Use label-mechanism "randomized-response" for labels.'
            raise ConfigError(explain("score_noise", "be none for share 'argmax'", self.score_noise, way_out))
        if labels and self.share != "argmax":
            way_out = 'Use score-noise for logits and probabilities, or share "argmax".'
            raise ConfigError(
                explain("label_mechanism", f"be none for share {self.share!r}", self.label_mechanism, way_out)
            )
        given = (self.score_scale > 0, self.label_epsilon > 0, self.epsilon > 0)
        if sum(given) != (scores or labels) or (given[0] and not scores) or (given[1] and not labels):
            named = f"score-scale {self.score_scale:g}, label-epsilon {self.label_epsilon:g}, epsilon {self.epsilon:g}"
            rule = "be given alone, with the noise it belongs to" if scores or labels else "be 0 without noise"
            way_out = "epsilon is for the whole run, score-scale or label-epsilon for one row."
            raise ConfigError(explain("score_scale, label_epsilon or epsilon", rule, named, way_out))
        if (scores or labels) and self.subset_rows:
            way_out = "Use noise, or a subset without noise."
            raise ConfigError(explain("subset_rows", "be 0 with noise", self.subset_rows, way_out))
        if (scores or labels) and self.aggregation_weights != "equal":
            way_out = "Noisy answers say little about who is right."
            raise ConfigError(explain("aggregation_weights", "be equal with noise", self.aggregation_weights, way_out))


@dataclass(frozen=True, kw_only=True)
class PartyScores(PartyAnswer):
    """One party's answers of one round.

    Parameters
    ----------
    scores : ndarray of shape (num_rows, num_classes), float32, or None
        Its logits or probabilities, None where it sent labels.
    labels : ndarray of shape (num_rows,), int16
        Its labels: the class of the largest score.
    """

    scores: NDArray[np.float32] | None
    labels: Labels


class SoftStrategy(ExchangeStrategy[PartyScores]):
    """Base of the strategies that exchange scores. Parameters as in `ExchangeStrategy`, and these.

    Parameters
    ----------
    config : SoftConfig
        The algorithm's settings.
    party_rows : sequence of int
        How many rows each party holds, where the operator knows (simulation): what NFDP's numbers need.

    Attributes
    ----------
    average : ndarray of shape (num_rows, num_classes), float64, or None
        The last round's averages: logits, or probabilities.
    average_rows : ndarray of shape (num_rows,), int64
        The public rows they speak of.
    """

    def __init__(self, *args: Any, config: SoftConfig, party_rows: Sequence[int] = (), **keywords: Any) -> None:
        super().__init__(*args, config=config, **keywords)
        self.soft = config
        self.party_rows = tuple(party_rows)
        self.weighting: Weighting = make_weighting(config.aggregation_weights)
        self.average: NDArray[np.float64] | None = None
        self.average_rows: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        total = self.spec.num_public
        self.batch = config.public_batch or min(USUAL_BATCH, total)
        if not self.batch <= total:
            way_out = "Lower public-batch, or 0 for the usual number."
            raise ConfigError(explain("public_batch", f"be at most {total} (public rows)", self.batch, way_out))
        if config.pretrain_epochs and self.public.labels is None:
            way_out = "Name the public file's column of labels in public-label, or set pretrain-epochs to 0."
            raise ConfigError(
                explain("pretrain_epochs", "be 0 without labelled public rows", config.pretrain_epochs, way_out)
            )

    # ---------------------------------------------------------------- what travels

    def rows(self, server_round: int) -> NDArray[np.int64]:
        """Return the public rows of a round, ascending: the same for all parties."""
        order = self.rng("public-batch", server_round).permutation(self.spec.num_public)
        return np.sort(order[: self.batch]).astype(np.int64)

    @property
    def average_kind(self) -> SoftKind:
        """What the averages are."""
        return "logits" if self.soft.share == "logits" else "probs"

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the averages with their rows, once there are any, and the rows to answer next."""
        total, arrays = self.spec.num_public, {}
        if self.average is not None:
            arrays["previous"] = encode_rows(self.average_rows, num_public=total)
            arrays[self.average_kind] = encode_scores(
                self.average,
                public=self.spec.rows(len(self.average_rows)),
                server_round=server_round,
                kind=self.average_kind,
                bits=16 if self.soft.share == "argmax" else self.soft.soft_bits,
            )
        if stage == "fit":
            arrays["indices"] = encode_rows(self.rows(server_round), num_public=total)
        return arrays

    def instruction(self, server_round: int) -> Mapping[str, Scalar]:
        """Return what to share, how to learn from averages, and what makes the reply private."""
        config, mechanism = self.soft, self.mechanism
        settings: dict[str, Scalar] = {
            "share": config.share,
            "digest-loss": self.digest_loss,
            "soft-bits": config.soft_bits,
            "pretrain-epochs": config.pretrain_epochs,
        }
        if config.subset_rows:
            settings |= {"subset-rows": config.subset_rows, "subset-replacement": config.subset_replacement}
        elif isinstance(mechanism, RandomizedResponse):
            settings |= {"label-mechanism": "randomized-response", "label-epsilon": mechanism.epsilon}
        elif mechanism is not None:
            settings |= {"score-noise": config.score_noise, "score-scale": mechanism.scale}
            settings |= {"logit-bound": mechanism.bound} if config.share == "logits" else {}
        return settings

    @property
    def usual_loss(self) -> str:
        """The loss of ``digest_loss="auto"`` where probabilities or labels are shared."""
        return "cross-entropy"

    @property
    def digest_loss(self) -> str:
        """The loss nets digest with."""
        if self.soft.digest_loss != "auto":
            return self.soft.digest_loss
        return "l1-logits" if self.soft.share == "logits" else self.usual_loss

    def read(self, reply: Reply, server_round: int) -> PartyScores:
        """Return the scores or labels of a reply."""
        spec, name = self.spec.rows(self.batch), self.payload
        if name not in reply.arrays:
            raise PayloadError(f"no {name} in the reply")
        if name == "labels":
            labels = decode_labels(reply.arrays[name], public=spec, server_round=server_round, num_arrays=1)[0]
            if (labels == ABSTAIN).any():
                raise PayloadError(explain("labels", "name a class in every row", ABSTAIN), reason="class-out-of-range")
            return PartyScores(party=reply.party, scores=None, labels=labels, notes=notes_of(reply))
        scores = decode_scores(reply.arrays[name], public=spec, server_round=server_round, kind=name)
        labels = scores.argmax(axis=1).astype(np.int16)
        return PartyScores(party=reply.party, scores=scores, labels=labels, notes=notes_of(reply))

    @property
    def payload(self) -> Literal["labels", "probs", "logits", "scores"]:
        """What a reply carries: ``scores`` are probabilities with noise on them."""
        if self.soft.share == "softmax":
            return "probs" if self.mechanism is None else "scores"
        return "logits" if self.soft.share == "logits" else "labels"

    # ---------------------------------------------------------------- the averages

    def combine_answers(self, server_round: int, answers: Sequence[PartyScores], this: RoundRecord) -> ArrayRecord:
        """Average the scores, describe them in the record, and keep them for the next round."""
        matrix = np.stack([answer.labels for answer in answers])
        self.average, self.average_rows = self._mean(answers, matrix), self.rows(server_round)
        labels = self.average.argmax(axis=1)
        this.labelled_share = self.batch / self.spec.num_public
        this.agreement = float((matrix == labels).mean())
        if isinstance(self.mechanism, RandomizedResponse):
            this.kept_share = kept_share(self.mechanism)
        if self.public.y is not None:
            this.consensus_accuracy = float((labels == self.public.y[self.average_rows]).mean())
        averages = Array(self.average.astype(np.float32))
        return ArrayRecord({self.average_kind: averages, "rows": Array(self.average_rows)})

    def _mean(self, answers: Sequence[PartyScores], matrix: Labels) -> NDArray[np.float64]:
        classes = self.spec.num_classes
        weights = self.weighting(matrix, num_classes=classes)
        total = np.zeros((matrix.shape[1], classes))
        rows = np.arange(matrix.shape[1])
        for answer, weight in zip(answers, weights, strict=True):
            if answer.scores is None:
                total[rows, answer.labels] += weight
            else:
                total += weight * answer.scores.astype(np.float64)
        mechanism = self.mechanism
        if isinstance(mechanism, RandomizedResponse):
            counts = np.rint(total * len(answers)).astype(np.int64)
            total = mechanism.debias(counts, len(answers)) / len(answers)
        if self.average_kind == "logits":
            return total
        # noise leaves no probabilities: the closest ones are what can be learnt from
        probs = total if mechanism is None else onto_simplex(total)
        normal: NDArray[np.float64] = probs / probs.sum(axis=1, keepdims=True)
        return normal

    # ---------------------------------------------------------------- what is claimed

    @property
    def privacy(self) -> Literal["none", "server", "party"]:
        """Parties add noise or learn from a subset, or nobody does anything."""
        return "none" if self.mechanism is None and not self.soft.subset_rows else "party"

    @cached_property
    def mechanism(self) -> RandomizedResponse | ScoreMechanism | None:
        """What parties do to one row's answer, found before the first round."""
        config, classes = self.soft, self.spec.num_classes
        uses = self.batch * self.num_rounds
        if config.label_mechanism != "none":
            if not config.label_epsilon:
                from fedkd_flwr.privacy.cost.calibration import calibrate_labels

                found: RandomizedResponse | BitFlip = calibrate_labels(
                    "randomized-response",
                    num_labels=uses,
                    epsilon=config.epsilon,
                    delta=config.delta,
                    num_classes=classes,
                )
            else:
                found = label_mechanism("randomized-response", epsilon=config.label_epsilon, num_classes=classes)
            return found if isinstance(found, RandomizedResponse) else None
        if config.score_noise == "none":
            return None
        bound = config.logit_bound if config.share == "logits" else 0.0
        kind: Literal["logits", "probs"] = "logits" if config.share == "logits" else "probs"

        def make(scale: float) -> ScoreMechanism:
            return score_mechanism(config.score_noise, kind=kind, num_classes=classes, scale=scale, bound=bound)

        if config.score_scale:
            return make(config.score_scale)
        from fedkd_flwr.privacy.cost.calibration import calibrate

        return calibrate(make, count=uses, epsilon=config.epsilon, delta=config.delta)

    def claim(self) -> list[PrivacyClaim]:
        """Return what noise, or one subset for ever, is worth; nothing without."""
        rounds = max(self.times_asked.values(), default=0)
        if not rounds or self.privacy == "none":
            return []
        if self.soft.subset_rows:
            return [self._subset_claim()]
        mechanism = self.mechanism
        claim = label_privacy(
            mechanism,
            num_labels=self.batch,
            rounds=rounds,
            delta=self.soft.delta,
            num_parties=len(self.times_asked),
        )
        words = getattr(mechanism, "words", "")
        return [replace(claim, mechanism=f"{words}; {self.batch:,} public rows a round, {rounds:,} rounds")]

    def _subset_claim(self) -> PrivacyClaim:
        """Return NFDP's claim: with numbers only where the parties' numbers of rows are known here."""
        k, replacement = self.soft.subset_rows, self.soft.subset_replacement
        able = [n for n in self.party_rows if replacement or n >= k]
        apart = "Whatever a party measures on its other rows is not covered, and stays with it."
        if able:
            smallest = Subsampling(num_rows=min(able), subset_rows=k, replacement=replacement)
            claim = subsampling(smallest)
            whose = f"The numbers of the most exposed party, of {min(able):,} rows; other parties hold other people."
            return replace(claim, notes=(*claim.notes, whose, apart))
        how = "with" if replacement else "without"
        return PrivacyClaim(
            unit="record",
            adversary=SERVER,
            epsilon=float("inf"),
            delta=0.0,
            neighbouring_relation="add or remove one record",
            publishable=True,
            basis="none: epsilon and delta depend on a party's number of rows; each party's own ledger states its own",
            mechanism=f"random subset of {k} rows of each party, {how} replacement, drawn once for ever (NFDP)",
            protects_from="the server and everyone after it; the party draws the subset itself",
            notes=(apart,),
        )
