"""Which rule a consensus takes, from what can be seen without true labels, and why in words for the record."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_number, check_whole

__all__ = ["MIN_COVERAGE", "RuleChoice", "RuleName", "choose_rule"]

RuleName = Literal["density-ratio", "dawid-skene", "majority"]

MIN_COVERAGE = 0.5
"""The least share of familiar public rows with which density ratios vote.

Chosen on scikit-learn's synthetic classes, wine, breast cancer, mushrooms and digits (seeds 101 and 102). Rows of the
parties' domain gave 0.79 or more there with every learner and skew. Below a half the ratios lost to the labels; between
0.5 and 0.8 they won or lost by at most 0.04. Parties of few rows cannot tell what looks like them: 27 own rows beside
4,100 public ones of the same domain (wine type) gave 0.01 to 0.09, 17 beside 370 (breast cancer) 0.12 to 0.44.
"""
_RAREST = 0.6  # of an equal share: below it Dawid-Skene takes a rare class for the errors of a frequent one


class RuleChoice(NamedTuple):
    """A rule, and the sentence that says why."""

    rule: RuleName
    reason: str


def choose_rule(
    *,
    num_classes: int,
    class_counts: NDArray[np.integer] | None,
    coverage: float | None,
    may_estimate: bool = True,
) -> RuleChoice:
    """Return the rule that the answers support.

    Density ratios wherever the public rows look like private ones. Otherwise Dawid-Skene for three or more classes of
    about equal size, and majority for the others, which Dawid-Skene ruins (share of rows labelled right on Adult, 24 %
    positive: .71 against .75; cod-rna, 33 %: .76 against .79).

    Parameters
    ----------
    num_classes : int
        Number of classes.
    class_counts : ndarray of shape (num_classes,), int, or None
        Private rows of each class, all parties together; where the parties did not tell, how often they voted for it.
    coverage : float or None
        `DensityVote.coverage`, within [0, 1]; None where the parties sent no ratios.
    may_estimate : bool
        Whether the answers allow estimated confusion matrices (Dawid-Skene).

    Examples
    --------
    >>> choose_rule(num_classes=10, class_counts=np.full(10, 40), coverage=0.93).rule
    'density-ratio'
    >>> print(choose_rule(num_classes=10, class_counts=np.full(10, 40), coverage=0.1).reason)
    Only 10 % of the public rows look like private rows of a party (50 % are needed for density ratios; parties of few rows cannot tell), so each party's confusion matrix is estimated from the labels.
    >>> choose_rule(num_classes=2, class_counts=None, coverage=None).rule
    'majority'
    """  # noqa: E501 - a doctest's output is one line
    check_whole("num_classes", num_classes, 2)
    if coverage is not None:
        coverage = check_number("coverage", coverage, least=0.0, most=1.0)
        if coverage >= MIN_COVERAGE:
            return RuleChoice("density-ratio", f"{coverage:.0%} of the public rows look like private rows of a party.")
        why = (
            f"Only {100 * coverage:.0f} % of the public rows look like private rows of a party"
            f" ({100 * MIN_COVERAGE:.0f} % are needed for density ratios; parties of few rows cannot tell)"
        )
    else:
        why = "The parties sent labels alone"
    if not may_estimate:
        return RuleChoice("majority", f"{why}, so the majority of the labels counts.")
    if num_classes == 2:
        return RuleChoice("majority", f"{why}, and for two classes the majority of the labels is safer.")
    if class_counts is None or num_classes * int(np.min(class_counts)) < _RAREST * int(np.sum(class_counts)):
        return RuleChoice("majority", f"{why}, and for classes of unequal size the majority of the labels is safer.")
    return RuleChoice("dawid-skene", f"{why}, so each party's confusion matrix is estimated from the labels.")
