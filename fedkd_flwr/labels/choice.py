"""Which rule a consensus takes, from what can be seen without true labels, and why in words for the record."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.metrics import RARE

__all__ = ["MIN_COVERAGE", "MIN_SKEW", "RuleChoice", "choose_rule", "label_skew"]

MIN_COVERAGE = 0.5
"""The least share of familiar public rows with which density ratios vote.

Chosen on scikit-learn's synthetic classes, wine, breast cancer, mushrooms and digits (seeds 101 and 102). Rows of the
parties' domain gave 0.79 or more there with every learner and skew. Below a half the ratios lost to the labels; between
0.5 and 0.8 they won or lost by at most 0.04. Parties of few rows cannot tell (27 beside 4,100: 0.01 to 0.09).
"""
MIN_SKEW = 0.05
"""The least `label_skew` with which density ratios vote alone for two classes of which none is rare.

Below it every party knows both classes, so its labels are evidence too, and count half. Tried by hand on Adult and
cod-rna, seed 131: labels alone ranked worse, ratios alone of forests labelled fewer rows right, both together neither.
"""
MIN_SKEW_OF_BINS = 0.25
"""The same where classes are bins of a number, of which parties of few rows hold unequal shares by chance.

At Dirichlet 0.5 by bins ratios took RMSE from .768 to .742 (wine), 60.4 to 59.7 (diabetes), and cost 10.79 to 10.90
(age); on iid rows the mean of the labels was as good or better (forests, seeds 21 to 23), but for grades.
"""
_RAREST = 0.6  # of an equal share: below it Dawid-Skene takes a rare class for the errors of a frequent one


class RuleChoice(NamedTuple):
    """A rule, and the sentence that says why."""

    rule: Literal["density-ratio", "dawid-skene", "majority"]
    reason: str
    with_votes: bool = False  # whether labels count as much as density ratios


def label_skew(class_counts: NDArray[np.integer], *, bins: bool = False) -> float:
    """Return how far a party's class shares typically lie from the typical ones, 0 (alike) to 1.

    It is the median, over parties, of half the sum of the absolute differences to the median shares. Fewer than half of
    the parties cannot move it far, whatever they say of their counts. It is 1 where the typical shares hold less than a
    third of an equal share of a class: its rows are then with few parties, or with nobody; but not of ``bins`` of a
    number, some of which are small. ``class_counts`` are private rows, (num_parties, num_classes), at least one of each
    party.
    """
    shares = class_counts / class_counts.sum(axis=1, keepdims=True)
    typical = np.median(shares, axis=0)
    if not bins and (len(typical) * typical).min() < RARE:
        return 1.0
    return float(np.median(np.abs(shares - typical).sum(axis=1) / 2))


def choose_rule(
    *,
    num_classes: int,
    class_counts: NDArray[np.integer] | None,
    coverage: float | None,
    skew: float | None = None,
    may_estimate: bool = True,
    some_ratios: bool = False,
    bins: bool = False,
) -> RuleChoice:
    """Return the rule that the answers support.

    Density ratios wherever the public rows look like private ones; for two classes, neither of them rare, that all
    parties hold in about the same shares, together with the labels (`MIN_SKEW`). Otherwise Dawid-Skene for three or
    more classes of about equal size, and majority for the others, which Dawid-Skene ruins (share of rows labelled right
    on Adult, 24 % positive: .71 against .75; cod-rna, 33 %: .76 against .79).

    ``class_counts``, (num_classes,), are private rows, all parties together; where the parties did not tell, how often
    they voted for each class. ``coverage`` is `DensityVote.coverage`, None where no parties sent ratios, or too few;
    ``some_ratios`` whether some did all the same, for the reason. ``skew`` is the `label_skew` of those that did.
    ``may_estimate`` says whether the answers allow confusion matrices (Dawid-Skene), ``bins`` whether classes are
    grades or bins of a number; "majority" then stands for the rule on labels that fits it.
    """
    if coverage is not None:
        if coverage >= MIN_COVERAGE:
            if bins and skew is not None and skew < MIN_SKEW_OF_BINS:
                alike = f"Most parties hold about the same numbers ({100 * skew:.1f} points apart)"
                return RuleChoice("majority", f"{alike}: there labels are as good.")
            if num_classes == 2 and not bins and skew is not None and skew < MIN_SKEW and not _is_rare(class_counts):
                alike = f"Most parties hold the two classes in about the same shares ({100 * skew:.1f} points apart)"
                return RuleChoice(
                    "density-ratio",
                    f"{alike}, so a party's label of a row counts as much as its density ratio.",
                    with_votes=True,
                )
            return RuleChoice("density-ratio", f"{coverage:.0%} of the public rows look like private rows of a party.")
        why = (
            f"Only {100 * coverage:.0f} % of the public rows look like private rows of a party"
            f" ({100 * MIN_COVERAGE:.0f} % are needed for density ratios; parties of few rows cannot tell)"
        )
    else:
        why = "Too few parties sent density ratios" if some_ratios else "The parties sent labels alone"
    if not may_estimate:
        whose = "labels alone count" if bins else "the majority of the labels counts"
        return RuleChoice("majority", f"{why}, so {whose}.")
    if num_classes == 2:
        return RuleChoice("majority", f"{why}, and for two classes the majority of the labels is safer.")
    if class_counts is None or num_classes * int(np.min(class_counts)) < _RAREST * int(np.sum(class_counts)):
        return RuleChoice("majority", f"{why}, and for classes of unequal size the majority of the labels is safer.")
    return RuleChoice("dawid-skene", f"{why}, so each party's confusion matrix is estimated from the labels.")


def _is_rare(class_counts: NDArray[np.integer] | None) -> bool:
    """Tell whether a class is rare: density ratios find rows of it where no majority does."""
    return class_counts is not None and bool(len(class_counts) * class_counts.min() < RARE * class_counts.sum())
