"""Votes judged by public rows whose labels the server knows: each party counts for what its labels say of those.

Crowdsourcing calls such rows gold questions. With them liars need not be guessed from agreement: who swaps two classes
tells them apart all the same, and is read the other way round; who says one class everywhere, or anything, tells
nothing. The same holds for honest parties of one class, so it also mends label skew. The server itself answers as one
more party that holds these rows (`fedkd_flwr.models.known_rows`), so that parties never make them worth less. The vote
labels the known rows like all others: neither the consensus nor a party's later answers tell which they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels.consensus import Ties, majority
from fedkd_flwr.labels.voting import ABSTAIN, Labels

__all__ = ["LEAST_KNOWN", "KnownRows", "KnownVote", "draw_known", "known_vote"]

LEAST_KNOWN = 3
"""Known rows that each class needs: of a class with fewer, no vote can say what a party calls it."""

_PSEUDO_ROWS = 2.0  # of each class, on which a party says what it says everywhere; 0.3 to 4 differ by .02 at most
_CLEARLY = 3.0  # standard errors
_TINY = 1e-300  # of labels that a party never gives


class KnownRows(NamedTuple):
    """Public rows whose labels the server knows.

    Parameters
    ----------
    rows : ndarray of shape (num_known,), int64
        Their places among the public rows, ascending.
    labels : ndarray of shape (num_known,), int16
        Their classes.
    """

    rows: NDArray[np.int64]
    labels: Labels


class KnownVote(NamedTuple):
    """A consensus by known rows.

    Parameters
    ----------
    labels : ndarray of shape (num_public,), int16
        The most probable class; ``ABSTAIN`` where nobody who counts has a vote.
    gains : ndarray of shape (num_parties,), float64
        What each party's labels tell of the class of a known row, in nats a row. A party with no more than 0 does not
        count, unless nobody has more.
    right, by_chance : ndarray of shape (num_parties,), float64
        Share of the known rows that each party labels right, and what that share were if its labels, as many of each
        class, were dealt to these rows at random.
    """

    labels: Labels
    gains: NDArray[np.float64]
    right: NDArray[np.float64]
    by_chance: NDArray[np.float64]

    def of_first(self, count: int) -> KnownVote:
        """Return the vote with the figures of the first parties alone."""
        return self._replace(gains=self.gains[:count], right=self.right[:count], by_chance=self.by_chance[:count])

    def swapped(self, num_known: int) -> NDArray[np.bool_]:
        """Tell which parties label clearly fewer known rows right than chance does, by three standard errors."""
        error = np.sqrt(self.by_chance * (1 - self.by_chance) / num_known)
        found: NDArray[np.bool_] = self.right < self.by_chance - _CLEARLY * error
        return found


def draw_known(truth: Labels, count: int, *, num_classes: int, rng: np.random.Generator) -> KnownRows:
    """Return ``count`` of the rows whose label is known, drawn at random.

    Parameters
    ----------
    truth : ndarray of shape (num_public,), int16
        The labels that the server knows, ``ABSTAIN`` for rows whose label it does not know.
    count : int
        How many rows.
    num_classes : int
        Number of classes.
    rng : Generator
        Draws them. Parties must not be able to repeat the draw: who knows the rows answers right there and lies
        elsewhere.

    Raises
    ------
    ConfigError
        If fewer labels are known, or of a class fewer than `LEAST_KNOWN` were drawn.
    """
    labelled = np.flatnonzero(truth != ABSTAIN)
    if count > len(labelled):
        way_out = "Label more rows of the server's public file, in the schema's label column, or lower it."
        raise ConfigError(explain("known-rows", f"be at most {len(labelled)} (rows with a label)", count, way_out))
    rows = np.sort(rng.permutation(labelled)[:count]).astype(np.int64)
    found = np.bincount(truth[rows], minlength=num_classes)
    if found.min() < LEAST_KNOWN:
        way_out = "Raise known-rows, or have rows of that class labelled."
        rule, seen = f"hold {LEAST_KNOWN} rows of each class", f"{found.min()} of class number {found.argmin()}"
        raise ConfigError(explain("known-rows", rule, seen, way_out))
    return KnownRows(rows, truth[rows])


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
    Skene, 1979, equations 2.3 and 2.5, with the true classes of some rows given). A party counts if its matrix,
    counted without a row, makes what it says of that row more probable than its shares of labels do; all count where
    nobody does so.

    Parameters
    ----------
    answers : sequence of ndarray of shape (num_public,) or (num_arrays, num_public), int16
        Each party's labels, ``ABSTAIN`` where it has none; several arrays count as shares of one vote.
    known : KnownRows
        Known to the server alone.
    num_classes : int
        Number of classes.
    ties, rng
        As in `fedkd_flwr.labels.consensus.majority`.

    Examples
    --------
    Two parties tell the classes apart, one of them by the wrong names, and a third says the first class everywhere:

    >>> truth = np.tile(np.array([0, 1], np.int16), 10)
    >>> known = KnownRows(np.arange(8), truth[:8])
    >>> found = known_vote([truth, 1 - truth, 0 * truth], known, num_classes=2, ties="lowest")
    >>> bool((found.labels == truth).all()), found.gains.round(2).tolist(), found.right.tolist()
    (True, [0.47, 0.47, 0.0], [1.0, 0.0, 0.5])
    """
    num_public = answers[0].shape[-1]
    prior = np.bincount(known.labels, minlength=num_classes) + 1.0
    class_shares = np.bincount(known.labels, minlength=num_classes) / len(known.labels)
    gains, right, by_chance = (np.zeros(len(answers)) for _ in range(3))
    # of the parties that count, and of all: (evidence for each class, whether anybody gave the row a label)
    told, all_told = ((np.zeros((num_public, num_classes)), np.zeros(num_public, dtype=np.bool_)) for _ in range(2))
    for k, answer in enumerate(answers):
        arrays = np.atleast_2d(answer).astype(np.int64)
        said = np.where(arrays == ABSTAIN, num_classes, arrays)  # no answer is an answer, too
        evidence = np.zeros((num_public, num_classes))
        for one in said:
            usual = np.bincount(one, minlength=num_classes + 1) / num_public
            heard = one[known.rows]
            counts = np.zeros((num_classes, num_classes + 1))
            np.add.at(counts, (known.labels, heard), 1.0)
            of_class = counts.sum(axis=1)
            added = _PSEUDO_ROWS * usual
            # a known row as its class's others have it
            others = (counts[known.labels, heard] - 1 + added[heard]) / (of_class[known.labels] - 1 + _PSEUDO_ROWS)
            gains[k] += float(np.log(others / usual[heard]).mean()) / len(said)
            right[k] += float((heard == known.labels).mean()) / len(said)
            by_chance[k] += (
                float(np.bincount(heard, minlength=num_classes + 1)[:-1] @ class_shares) / len(heard) / len(said)
            )
            confusion = (counts + added) / (of_class[:, None] + _PSEUDO_ROWS)
            evidence += np.log(np.maximum(confusion, _TINY)).T[one] / len(said)
        for scores, voted in (told, all_told) if gains[k] > 0 else (all_told,):
            scores += evidence
            voted |= (arrays != ABSTAIN).any(axis=0)
    scores, voted = told if (gains > 0).any() else all_told
    scores += np.log(prior / prior.sum())
    probs = np.exp(scores - scores.max(axis=1, keepdims=True))
    # probabilities that are equal up to rounding are a tie like any other
    labels = majority(np.round(probs, 9), ties=ties, rng=rng)
    labels[~voted] = ABSTAIN
    return KnownVote(labels, gains, right, by_chance)
