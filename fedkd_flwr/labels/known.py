"""Public rows whose labels the server knows: what each party's labels are worth by them, and which rule is best.

Crowdsourcing calls such rows gold questions. With them liars need not be guessed from agreement: who swaps two classes
tells them apart all the same, and is read the other way round; who says one class everywhere tells nothing. The same
holds for honest parties of one class, so it also mends label skew. The server itself answers as one more party that
holds these rows (`fedkd_flwr.models.taught`). A known row is labelled as if it were not known: what it tells of the
parties is left out there, so the vote's share of right known rows is near what it is elsewhere, and rules can be
compared; which labels count is chosen on all known rows, which flatters it a little. Where a class is rare, rules are
compared by the mean over classes of the share that is right: who never finds the rare class is right on most rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels.voting import ABSTAIN, Labels, Ties, majority
from fedkd_flwr.metrics import imbalanced

__all__ = [
    "KNOWN_ROWS",
    "LEAST_KNOWN",
    "OWN_FOREST",
    "JudgedConsensus",
    "KnownRows",
    "KnownVote",
    "best_by_known_rows",
    "draw_known",
    "judged_consensus",
    "known_vote",
    "shares_right",
]

KNOWN_ROWS, OWN_FOREST = "known-rows", "server-forest"
"""Rules that known rows add: the vote by known rows, and a forest taught by them alone."""

LEAST_KNOWN = 3
"""Known rows that a class needs: of a class with fewer nothing can be said."""

_PSEUDO_ROWS = 2.0  # of each class, on which a party says what it says everywhere
_LEAST_GAIN = 1.0  # nats, over all known rows: what a label must tell before it counts, against chance
_CLEARLY = 3.0  # standard errors
_TINY = 1e-300  # of labels that a party never gives


class KnownRows(NamedTuple):
    """Public rows whose labels the server knows: their places, ascending, and classes, both of shape (num_known,)."""

    rows: NDArray[np.int64]
    labels: Labels


class KnownVote(NamedTuple):
    """A consensus by known rows; all but the labels are of each party."""

    labels: Labels  # (num_public,): the most probable class; ``ABSTAIN`` where nobody who counts has a label
    gains: NDArray[np.float64]  # what the labels that count tell of a known row's class, in nats a row
    right: NDArray[np.float64]  # share of the known rows that it labels right
    by_chance: NDArray[np.float64]  # what that were if its labels, as many of each class, were put there at random

    def swapped(self, num_known: int) -> NDArray[np.bool_]:
        """Tell which parties label clearly fewer known rows right than chance does, by three standard errors."""
        error = np.sqrt(self.by_chance * (1 - self.by_chance) / num_known)
        return np.asarray(self.right < self.by_chance - _CLEARLY * error)


class JudgedConsensus(NamedTuple):
    """The consensus that known rows find best."""

    labels: Labels  # (num_public,)
    rule: str  # what made it: the rule that was chosen without known rows, `KNOWN_ROWS` or `OWN_FOREST`
    shares: dict[str, float]  # share of the known rows that each of the rules labels right
    class_shares: dict[str, float] | None  # its mean over the classes, where rules were compared by it (`imbalanced`)
    commonest: float  # share of the known rows that are of the commonest class
    vote: KnownVote  # the vote by known rows, with the figures of the parties


def draw_known(truth: Labels, count: int, *, num_classes: int, rng: np.random.Generator) -> KnownRows:
    """Return ``count`` of the rows whose label is known: `LEAST_KNOWN` of each class, the others at random.

    ``truth``, (num_public,) int16, holds the labels that the server knows, and ``ABSTAIN``. Rows of a class that has
    fewer are not drawn. Parties must not be able to repeat the draw: who knows the rows answers right there and lies
    elsewhere.

    Raises `ConfigError` if there are too few such rows, or they are of one class.
    """
    found = np.bincount(truth[truth != ABSTAIN], minlength=num_classes)
    classes = np.flatnonzero(found >= LEAST_KNOWN)
    drawn = rng.permutation(np.flatnonzero(np.isin(truth, classes)))
    least = LEAST_KNOWN * len(classes)
    if not least <= count <= len(drawn) or len(classes) < 2:
        which = f"rows with a label, of 2 classes or more, {LEAST_KNOWN} or more of each"
        rule = f"be within {least}..{len(drawn)} ({which})"
        way_out = (
            "Put labels of more rows, each a class of the schema, into its label column of the server's public file."
        )
        raise ConfigError(explain("known-rows", rule, count, way_out))
    first = np.concatenate([drawn[truth[drawn] == c][:LEAST_KNOWN] for c in classes])
    rows = np.sort(np.concatenate([first, drawn[~np.isin(drawn, first)][: count - least]])).astype(np.int64)
    return KnownRows(rows, truth[rows])


def shares_right(consensuses: Mapping[str, Labels], known: KnownRows, *, by_class: bool = False) -> dict[str, float]:
    """Return the share of known rows that each consensus labels right; a row without a label counts as wrong.

    ``by_class`` takes the share in each class, and the mean over the classes that occur.
    """
    weights = _row_weights(known, by_class=by_class)
    return {
        name: float(np.average(labels[known.rows] == known.labels, weights=weights))
        for name, labels in consensuses.items()
    }


def best_by_known_rows(consensuses: Mapping[str, Labels], known: KnownRows) -> str:
    """Return the name of the consensus that known rows find best; a later one only if it is better by more than chance.

    By more than one standard error of the difference, row by row: of 200 rows the better one of two that are alike is
    right on .02 more by luck alone. Where the known rows are `imbalanced`, each class weighs alike, and not each row.
    """
    weights = _row_weights(known, by_class=imbalanced(np.bincount(known.labels).tolist()))
    right = {name: (labels[known.rows] == known.labels).astype(np.float64) for name, labels in consensuses.items()}
    best, *others = right
    for name in others:
        gains = right[name] - right[best]
        gain = np.average(gains, weights=weights)
        if gain > np.sqrt(weights**2 @ (gains - gain) ** 2) / weights.sum():
            best = name
    return best


def _row_weights(known: KnownRows, *, by_class: bool) -> NDArray[np.float64]:
    """Return what each known row weighs: all alike, or ``by_class`` as much together in each class that occurs."""
    return np.asarray(1 / np.bincount(known.labels)[known.labels]) if by_class else np.ones(len(known.rows))


def known_vote(
    answers: Sequence[Labels],
    known: KnownRows,
    *,
    num_classes: int,
    ties: Ties = "random",
    rng: np.random.Generator | None = None,
) -> KnownVote:
    """Return the most probable class of each row, given what each party says of rows whose class is known.

    A party's confusion matrix is counted on the known rows, with two rows of each class added on which it says what it
    says everywhere. Its labels then count by how much more probable each class makes them (naive Bayes: Dawid and
    Skene, 1979, equations 2.3 and 2.5, with the true classes of some rows given). A label counts if the matrix, counted
    without a row, makes it clearly more probable on the known rows that have it (1 nat in all) than the party's share
    of that label does. A known row is labelled by matrices that are counted without it.

    ``answers`` are each party's labels, (num_public,) or (num_arrays, num_public), int16, ``ABSTAIN`` where it has
    none, which is told apart too; several arrays count as shares of one vote. ``ties``, ``rng``: as in `majority`.

    Two parties tell the classes apart, one of them by the wrong names, and a third says the first class everywhere:

    >>> truth = np.tile(np.array([0, 1], np.int16), 10)
    >>> known = KnownRows(np.arange(12), truth[:12])
    >>> found = known_vote([truth, 1 - truth, 0 * truth], known, num_classes=2, ties="lowest")
    >>> bool((found.labels == truth).all()), found.gains.round(2).tolist(), found.right.tolist()
    (True, [0.54, 0.54, 0.0], [1.0, 0.0, 0.5])
    """
    num_public, num_known = answers[0].shape[-1], len(known.labels)
    class_shares = np.bincount(known.labels, minlength=num_classes) / num_known
    scores = np.tile(np.log((class_shares * num_known + 1) / (num_known + num_classes)), (num_public, 1))
    voted = np.zeros(num_public, dtype=np.bool_)
    gains, right, by_chance = (np.zeros(len(answers)) for _ in range(3))
    for k, answer in enumerate(answers):
        arrays = np.atleast_2d(answer).astype(np.int64)
        for said in np.where(arrays == ABSTAIN, num_classes, arrays):
            usual = np.bincount(said, minlength=num_classes + 1) / num_public
            heard = said[known.rows]
            counts = np.zeros((num_classes, num_classes + 1))
            np.add.at(counts, (known.labels, heard), 1.0)
            of_class, added = counts.sum(axis=1), _PSEUDO_ROWS * usual
            # what the other known rows make of a known row
            others = (counts[known.labels, heard] - 1 + added[heard]) / (of_class[known.labels] - 1 + _PSEUDO_ROWS)
            told = np.bincount(heard, weights=np.log(others / usual[heard]), minlength=num_classes + 1)
            counted = told > _LEAST_GAIN
            gains[k] += told[counted].sum() / (len(arrays) * len(heard))
            right[k] += (heard == known.labels).mean() / len(arrays)
            by_chance[k] += np.bincount(heard, minlength=num_classes + 1)[:-1] @ class_shares / len(heard) / len(arrays)
            if not counted.any():
                continue
            confusion = np.log(np.maximum((counts + added) / (of_class[:, None] + _PSEUDO_ROWS), _TINY)) / len(arrays)
            confusion[:, ~counted] = 0.0
            scores += confusion.T[said]
            kept = counted[heard]
            itself = confusion[known.labels, heard]
            scores[known.rows[kept], known.labels[kept]] += np.log(others[kept]) / len(arrays) - itself[kept]
            voted |= counted[said] & (said != num_classes)
    probs = np.exp(scores - scores.max(axis=1, keepdims=True))
    # probabilities that are equal up to rounding are a tie like any other
    labels = majority(np.round(probs, 9), ties=ties, rng=rng)
    labels[~voted] = ABSTAIN
    return KnownVote(labels, gains, right, by_chance)


def judged_consensus(
    found: Labels,
    answers: Sequence[Labels],
    known: KnownRows,
    *,
    rule: str,
    own: Labels | None,
    num_classes: int,
    ties: Ties = "random",
    rng: np.random.Generator | None = None,
) -> JudgedConsensus:
    """Return the best by known rows of three: what was found without them, the vote by them, and the server's forest.

    No known row is labelled with the help of its own label, so each share is near what it is elsewhere. ``found`` is
    the consensus of ``rule``, chosen without known rows; where it has no label it gets that of the vote. ``own`` is
    what the server's forest says (`fedkd_flwr.models.taught`), which votes as one more party. The rest as in
    `known_vote`.
    """
    said = [*answers, *([] if own is None else [own])]
    vote = known_vote(said, known, num_classes=num_classes, ties=ties, rng=rng)
    filled = found if (found != ABSTAIN).all() else np.where(found == ABSTAIN, vote.labels, found)
    rules = {rule: filled, KNOWN_ROWS: vote.labels} | ({} if own is None else {OWN_FOREST: own})
    best, count = best_by_known_rows(rules, known), len(answers)
    parties = vote._replace(gains=vote.gains[:count], right=vote.right[:count], by_chance=vote.by_chance[:count])
    by_class = shares_right(rules, known, by_class=True) if imbalanced(np.bincount(known.labels).tolist()) else None
    commonest = float(np.bincount(known.labels).max() / len(known.labels))
    return JudgedConsensus(rules[best], best, shares_right(rules, known), by_class, commonest, parties)
