"""PrivateKT: unbiased estimates of the parties' labels, and which rows to ask next.

Qi et al., "Differentially private knowledge transfer for federated learning", Nature Communications 14, 2023: equations
(3) to (5) and Algorithm 1. The whole round is told in `fedkd_flwr.strategies.privatekt`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import PAPER, Card, Privacy, setting
from fedkd_flwr.algorithms.exchange import ClaimConfig, LocalEpochsConfig, TiesConfig
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels.voting import Labels, Ties, VoteCounter, majority
from fedkd_flwr.privacy.noise.labels import RandomizedResponse

__all__ = ["BUFFER_ROUNDS", "BUFFER_STEPS", "CARD", "SELF_TRAINING_SHARE", "PrivateKTConfig"]
__all__ += ["aggregate", "draw_by_entropy", "entropy", "estimate", "hard_targets"]

BUFFER_ROUNDS = 25
"""The paper's B: rounds of answers the server goes on learning from."""
BUFFER_STEPS = 4
"""Of the server's net, in each round, on all answers it goes on learning from."""
SELF_TRAINING_SHARE = 0.1
"""The paper's M as a share of the public rows: the server's net learns its own answers on them."""


class PrivateKTConfig(TiesConfig, ClaimConfig, LocalEpochsConfig):
    """Settings of PrivateKT; the defaults are the published ones."""

    section: ClassVar[str] = "privatekt"

    round_epsilon: float = setting(5.0, gt=0, told=True)
    """What one round costs a party that takes part in it: epsilon of all its labels of the round together."""
    transfer_rows: int = setting(2, ge=1, told=True, section=PAPER)
    """PrivateKT's K: public rows that parties label in a round."""
    participation: Literal["any", "once"] = setting("any")
    """Whether a party may be asked in several rounds. once: in one only, so a run costs a party round-epsilon; refused
    where parties are too few for the rounds."""

    @property
    def privacy(self) -> Privacy:
        """Parties privatise their labels."""
        return "party"

    def mechanism(self, num_classes: int) -> RandomizedResponse:
        """Return what parties do to each label: the epsilon of a round over K (Lemma 1)."""
        return RandomizedResponse(epsilon=self.round_epsilon / self.transfer_rows, num_classes=num_classes)


def aggregate(
    answers: Sequence[Labels], *, config: PrivateKTConfig, num_classes: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], Labels]:
    """Return what the server learns of a round's rows: targets and labels, the likeliest classes as the code has them.

    Targets, (transfer_rows, num_classes) float64, are one-hot; labels are (transfer_rows,) int16. ``answers`` are the
    parties' privatised labels, (transfer_rows,) int16; ``rng`` breaks ties.
    """
    targets = hard_targets(estimate(answers, config=config, num_classes=num_classes), ties=config.ties, rng=rng)
    return targets, targets.argmax(axis=1).astype(np.int16)


def estimate(answers: Sequence[Labels], *, config: PrivateKTConfig, num_classes: int) -> NDArray[np.float64]:
    """Return the unbiased estimate of the mean one-hot label of each row, equation (3).

    Float64 of shape (transfer_rows, num_classes), each row of sum 1; numbers may be negative or above 1. Parameters as
    in `aggregate`.
    """
    counter = VoteCounter(num_public=len(answers[0]), num_classes=num_classes)
    for labels in answers:
        counter.add(labels)
    return config.mechanism(num_classes).debias(counter.votes, len(answers)) / len(answers)


def entropy(probs: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the entropy of each row's class probabilities, in nats: how uncertain a model is of the row."""
    exact = np.asarray(probs, dtype=np.float64)
    found: NDArray[np.float64] = -(exact * np.log(np.where(exact > 0, exact, 1.0))).sum(axis=1)
    return found + 0.0  # -0.0 is no uncertainty


def draw_by_entropy(
    probs: NDArray[np.floating], count: int, *, prefer: Literal["uncertain", "certain"], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw different rows one after the other, each with weight exp(entropy) or exp(-entropy) among those left.

    Equations (4) and (5): rows to ask parties about are uncertain ones, rows to train oneself on are certain ones.
    ``probs``, (num_rows, num_classes), are the model's; ``prefer`` is "uncertain" or "certain". The row numbers come in
    the order drawn, int64. Raises `ConfigError` if there are fewer rows than ``count``.
    """
    if not 1 <= count <= len(probs):
        raise ConfigError(explain("rows to draw", f"be within 1..{len(probs)} (public rows)", count))
    logs = entropy(probs) * (1.0 if prefer == "uncertain" else -1.0)
    # the largest of log-weight + Gumbel noise is a draw by weight, the next one a draw among the rest, and so on
    order = np.argsort(-(logs + rng.gumbel(size=len(logs))), kind="stable")
    return order[:count].astype(np.int64)


def hard_targets(estimates: NDArray[np.floating], *, ties: Ties, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return each row's largest estimate as one-hot, float64: the argmax that the published code learns from.

    Estimated shares are of sum 1, so that the largest is above 0. ``ties`` and ``rng`` are as in
    `fedkd_flwr.labels.voting.majority`; estimates equal up to rounding are a tie.
    """
    labels = majority(np.round(np.asarray(estimates, dtype=np.float64), 9), ties=ties, rng=rng)
    one_hot: NDArray[np.float64] = np.eye(estimates.shape[1])[labels]
    return one_hot


CARD = Card(
    name="privatekt",
    title="PrivateKT",
    paper='Qi et al., "Differentially private knowledge transfer for federated learning", Nature Communications, 2023',
    config=PrivateKTConfig,
    strategy="fedkd_flwr.strategies.privatekt:PrivateKT",
    client="fedkd_flwr.clients.privatekt:PrivateKTClient",
    sends="labels",
    returns="weights",
    default_rounds=100,
    noise=("party",),
    allowed=True,
    samples=True,
    extends=True,
)
