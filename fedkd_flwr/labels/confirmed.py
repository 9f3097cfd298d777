"""How far other parties confirm what a party says, and what it then counts.

A party that swaps classes, says one class almost everywhere, or says anything at random does not move together with the
others, whatever the class shares are. Only those who know a class judge what is said of it; what the one party says
that knows a disease, true or not, can then not be checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEAST_VARIANCE", "LEAST_VOTERS", "Said", "alone", "at_odds", "can_tell", "confirmed"]
__all__ += ["confirmed_by_ratios", "contradicted", "trusts"]

LEAST_VARIANCE = 0.1
"""Over the square of a mean (1 for labels): one odd row makes no constant answer informative."""

LEAST_VOTERS = 3
"""Two parties that contradict each other accuse each other alike."""

_MOST_SAID = 3.0  # times the public density: what a row may count in trust (not in the vote); a party is sure of it
_LEAST_JUDGED = 0.02  # of what a party says: who is judged on less is trusted, for nobody can know better
_AGAINST = 0.5  # what a word for other classes counts against one; twice that much is left of it where it alone judges
_AT_ODDS = 0.5  # who counts less than this of a vote shows that those who know a class contradict each other
_CLEARLY = 0.1  # correlation of two parties: with less neither confirms the other, nor contradicts it
_LEAST_LEFT = 0.3  # of what the median party leaves of its judges' sure rows: who leaves less is contradicted
_LEAST_SURE = 0.01  # of the rows: who is sure of fewer judges nobody by them
_KNOWS = 0.1  # as a judge: who knows a class so far is not alone with it beside another
_ROWS_PER_PAIR = 2000  # public rows on which two parties are compared: chance gives a correlation of .02 there
_MOST_HEADS = 1000  # parties; beyond, comparing all pairs takes minutes
# Correlation above what chance gives; with .05 honest parties passed for liars where columns tell next to nothing
_LEAST_CONFIRMED = 0.1


class Said(NamedTuple):
    """What one party says of the public rows: how strongly it gives classes to rows."""

    places: NDArray[np.signedinteger[Any]]  # (num_said,): places in the flat (row, class) array, each once
    values: NDArray[np.floating]  # (num_said,): above 0
    judges: NDArray[np.float64]  # (num_classes,): how far the party can judge each class, 0 to 1

    def capped(self) -> Said:
        """Return the same with values of at most `_MOST_SAID`."""
        return self._replace(values=np.minimum(self.values, _MOST_SAID))


def confirmed(
    said: Sequence[Said],
    *,
    num_public: int,
    weights: NDArray[np.float64],
    least_variance: float = 0.0,
    contradictions: bool = False,
    steps: int = 10,
) -> NDArray[np.float64]:
    """Return how far the others confirm each party: (num_parties,), within [0, 1]; NaN where nobody can judge it.

    For each class that is the correlation, over the public rows, of what the party says with the weighed sum of what
    the others say; negative ones count as 0. The mean over classes goes by how much the party says of each. Judges
    count by how far they are confirmed themselves: a power iteration of so many ``steps``, in which a minority that
    agrees with itself alone fades; after one step every judge counts as ``weights``, (num_parties,), says.

    ``least_variance`` is the least variance that is taken for what a party says of a class, but a tenth of its mean's
    square in any case. With ``contradictions`` what others say for the other classes counts against a party too, half
    as much. Then those who know other classes judge a class that next to nobody else knows; they can only contradict,
    so what they leave of the correlation counts twice. It needs parties that are silent about rows unlike their own, as
    density ratios are.

    Three parties agree on four rows, and the fourth swaps the classes:

    >>> def says(labels):
    ...     return Said(np.arange(4) * 2 + labels, np.ones(4), np.ones(2))
    >>> four = [says(np.array(labels)) for labels in ([0, 1, 1, 0],) * 3 + ([1, 0, 0, 1],)]
    >>> confirmed(four, num_public=4, weights=np.ones(4)).round(2).tolist()
    [1.0, 1.0, 1.0, 0.0]
    """
    num_classes = len(said[0].judges)
    judges = np.array([one.judges for one in said])
    against = _AGAINST if contradictions else 0.0
    moments = [_moments(one, num_public, contradictions=contradictions) for one in said]
    found = np.full(len(said), np.nan)
    counted = weights
    for _ in range(steps):
        shares = counted[:, None] * judges
        flat_total = np.zeros(num_public * num_classes)
        for one, own, share in zip(said, moments, shares, strict=True):
            flat_total[one.places] += one.values * share[own.classes]
        total = flat_total.reshape(num_public, num_classes)
        total -= total.mean(axis=0)
        # what is said for a class, less a part of what is said for all the others
        evidence = (1.0 + against) * total - against * total.sum(axis=1, keepdims=True)
        variance, flat, able = (evidence**2).sum(axis=0), evidence.reshape(-1), shares.sum(axis=0)
        for k, (one, own, share) in enumerate(zip(said, moments, shares, strict=True)):
            with_total = own.by_class(one.values * flat[one.places])
            # its own part in the evidence is (1 + against) x what it says of the class - against x all it says
            own_all = counted[k] * against
            with_own = (1.0 + against) * share * own.squares - own_all * own.with_all
            total_with_own = (1.0 + against) * share * with_total
            own_squares = ((1.0 + against) * share) ** 2 * own.squares
            if against:
                own_squares += own_all**2 * own.all_squares - 2 * own_all * (1.0 + against) * share * own.with_all
                total_with_own -= own_all * (_all_said(one, num_public) @ evidence)
            with_others = with_total - with_own
            others = np.maximum(variance - 2 * total_with_own + own_squares, 0.0)
            scale = np.sqrt(np.maximum(np.maximum(own.squares, own.least), least_variance * num_public) * others)
            agreed = np.clip(with_others / np.where(scale > 0, scale, np.inf), 0.0, 1.0)
            can_judge = able - share
            if against:
                elsewhere = against * (can_judge.sum() - can_judge) / (num_classes - 1)
                agreed = np.where(can_judge < elsewhere, np.minimum(agreed / against, 1.0), agreed)
                can_judge = np.maximum(can_judge, elsewhere)
            judged = np.clip(can_judge, 0.0, 1.0) * own.sums
            if judged.sum() > _LEAST_JUDGED * own.sums.sum():
                found[k] = judged @ agreed / judged.sum()
            else:
                found[k] = np.nan if own.sums.any() else 0.0  # who says nothing has nothing confirmed
        counted = weights * np.minimum(_relative(found), 1.0)
    return found


def confirmed_by_ratios(said: Sequence[Said], *, num_public: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far the others confirm what each party says by density ratios; arguments and result as `confirmed`.

    Where those who know the same classes confirm each other, that decides: a party whose class looks like others' must
    not suffer from it. Where they do not (one counts less than half of a vote, or its judges have lost theirs),
    somebody is wrong about a class, and what all others say for the other classes tells who.

    The first two parties know class 0, the third class 1; the second says that it is everywhere. Neither of the two
    confirms the other, but the third contradicts the second on half of the rows and the first nowhere:

    >>> def knows(c, rows):
    ...     return Said(np.array(rows) * 2 + c, np.ones(len(rows)), np.eye(2)[c])
    >>> three = [knows(0, range(4)), knows(0, range(8)), knows(1, range(4, 8))]
    >>> confirmed(three, num_public=8, weights=np.ones(3)).tolist()
    [nan, nan, nan]
    >>> confirmed_by_ratios(three, num_public=8, weights=np.ones(3)).round(2).tolist()
    [1.0, 0.0, 1.0]
    """
    found = confirmed(said, num_public=num_public, weights=weights)
    judged_at_first = ~np.isnan(confirmed(said, num_public=num_public, weights=weights, steps=1))
    if (trusts(found) < _AT_ODDS).any() or (np.isnan(found) & judged_at_first).any():
        found = confirmed(said, num_public=num_public, weights=weights, contradictions=True)
    return found


def contradicted(said: Sequence[Said], *, num_public: int, weights: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which parties most others contradict about rows that these are sure of: (num_parties,).

    Liars that say the same confirm each other better than honest parties do, each of which errs in its own way. But
    whoever else is sure of a row sees it given to other classes. A judge is left 1 less what a party says of other
    classes there, not cut down to `_MOST_SAID`: who is silent on many rows is louder on the rest. The judge need not
    know the class that is said. Who leaves its median judge less than `_LEAST_LEFT` of what the median party leaves is
    contradicted, unless the others confirm it half as much as each other. Nobody is of two classes, where half of the
    parties are not sure of one row in a hundred, or where half of them would be contradicted.
    """
    num_parties, num_classes = len(said), len(said[0].judges)
    nobody = np.zeros(num_parties, dtype=np.bool_)
    if num_classes == 2 or num_parties > _MOST_HEADS:
        return nobody
    spoken = _spoken(said, num_public)
    total = spoken.sum(axis=2, keepdims=True)
    sure = (total >= _MOST_SAID)[:, :, 0].mean(axis=1) >= _LEAST_SURE
    if 2 * sure.sum() < num_parties:
        return nobody
    words = np.where(total >= _MOST_SAID, np.minimum(spoken, _MOST_SAID), 0.0)
    by_row = words.sum(axis=2)
    of_judge = spoken.sum(axis=2) @ by_row.T - spoken.reshape(num_parties, -1) @ words.reshape(num_parties, -1).T
    of_judge /= np.maximum(by_row.sum(axis=1), 1e-6)
    of_judge[np.eye(num_parties, dtype=np.bool_) | ~sure] = np.nan
    left = 1.0 - np.nanmedian(of_judge, axis=1)
    found: NDArray[np.bool_] = left < _LEAST_LEFT * np.median(left)
    if not 0 < 2 * found.sum() < num_parties:
        return nobody
    capped, others = [one.capped() for one in said], np.where(found, 0.0, weights)
    part = np.nan_to_num(confirmed(capped, num_public=num_public, weights=others))
    return found & (part < max(np.median(part[~found]) / 2, _LEAST_CONFIRMED))


def alone(said: Sequence[Said]) -> NDArray[np.bool_]:
    """Tell who knows a class that nobody else knows, and has an equal share of its rows in it: (num_parties,)."""
    judges = np.array([one.judges for one in said])
    return np.asarray(((judges == 1.0) & ((judges >= _KNOWS).sum(axis=0) == 1)).any(axis=1))


def at_odds(said: Sequence[Said], *, num_public: int, weights: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell with whom more of those who can judge it are at odds than agree, by correlation: (num_parties,).

    Each pair is compared by itself, and a loud judge counts no more than a quiet one, but each as ``weights`` says.
    Nobody is outvoted where half of the parties would be.
    """
    num_parties, num_classes = len(said), len(said[0].judges)
    if num_parties > _MOST_HEADS:
        return np.zeros(num_parties, dtype=np.bool_)
    spoken = _spoken(said, num_public)
    everything = spoken.sum(axis=2)
    sums = spoken.sum(axis=1, dtype=np.float64)
    agreed, able = np.zeros((num_parties, num_parties)), np.zeros((num_parties, num_parties))
    for c in range(num_classes):
        own = spoken[:, :, c] - spoken[:, :, c].mean(axis=1, keepdims=True)
        evidence = (1.0 + _AGAINST) * spoken[:, :, c] - _AGAINST * everything
        evidence -= evidence.mean(axis=1, keepdims=True)
        least = LEAST_VARIANCE * sums[:, c] ** 2 / spoken.shape[1]
        scale = np.sqrt(np.outer(np.maximum((own**2).sum(axis=1), least), (evidence**2).sum(axis=1)))
        can_judge = np.outer(sums[:, c], [max(one.judges[c], _AGAINST * one.judges.any()) for one in said])
        agreed += can_judge * (own @ evidence.T) / np.where(scale > 0, scale, np.inf)
        able += can_judge
    heads = able / np.maximum(sums.sum(axis=1, keepdims=True), 1e-12) * weights
    np.fill_diagonal(heads, 0.0)
    clearly = _CLEARLY * able
    found: NDArray[np.bool_] = (heads * (agreed < -clearly)).sum(axis=1) > (heads * (agreed > clearly)).sum(axis=1)
    return found if 2 * found.sum() < num_parties else np.zeros(num_parties, dtype=np.bool_)


def _spoken(said: Sequence[Said], num_public: int) -> NDArray[np.float32]:
    """Return what all say of some public rows, spread evenly: (num_parties, rows, num_classes)."""
    num_classes = len(said[0].judges)
    rows = np.unique(np.linspace(0, num_public - 1, _ROWS_PER_PAIR).astype(np.int64))
    spoken = np.zeros((len(said), len(rows), num_classes), dtype=np.float32)
    place = np.full(num_public, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    for one, dense in zip(said, spoken, strict=True):
        at = place[one.places // num_classes]
        dense[at[at >= 0], one.places[at >= 0] % num_classes] = one.values[at >= 0]
    return spoken


class _Moments(NamedTuple):
    """Sums over the public rows of what one party says, by class but for ``all_squares``; squares around the means."""

    classes: NDArray[np.signedinteger[Any]]  # of its places
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]
    least: NDArray[np.float64]  # what is taken for ``squares`` at least: a tenth of what the mean is worth
    with_all: NDArray[np.float64]  # what it says of the class, times all that it says as a judge
    all_squares: float

    def by_class(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the sum of ``values`` at the party's places, by class."""
        return np.bincount(self.classes, weights=values, minlength=len(self.sums)).astype(np.float64)


def _moments(one: Said, num_public: int, *, contradictions: bool) -> _Moments:
    num_classes = len(one.judges)
    zeros = np.zeros(num_classes)
    own = _Moments(one.places % num_classes, zeros, zeros, zeros, zeros, 0.0)
    sums = own.by_class(one.values)
    of_mean = sums**2 / num_public
    squares = np.maximum(own.by_class(one.values.astype(np.float64) ** 2) - of_mean, 0.0)
    own = own._replace(sums=sums, squares=squares, least=LEAST_VARIANCE * of_mean)
    if not contradictions:
        return own
    everything = _all_said(one, num_public)
    with_all = own.by_class(one.values * everything[one.places // num_classes])
    return own._replace(with_all=with_all, all_squares=float(everything @ everything))


def _all_said(one: Said, num_public: int) -> NDArray[np.float64]:
    """Return all that a party says of each row as a judge, whatever the class, around its mean: (num_public,)."""
    num_classes = len(one.judges)
    weights = one.values * one.judges[one.places % num_classes]
    found = np.bincount(one.places // num_classes, weights=weights, minlength=num_public).astype(np.float64)
    return np.asarray(found - found.mean())


def trusts(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what each party counts, within [0, 1]: ``min(1, 2 t / median t)^2``, and 1 where nobody can judge it.

    Honest parties differ in how much others know of their rows, so only those far below the median count less.
    """
    return np.asarray(np.clip(2 * _relative(found), 0.0, 1.0) ** 2)


def can_tell(found: NDArray[np.float64]) -> bool:
    """Tell whether enough is confirmed to know who is wrong: something of at least half of the parties, and of three.

    Where most parties are judged by nobody, those who claim to know everything would judge alone.
    """
    return bool((np.nan_to_num(found) >= _LEAST_CONFIRMED).sum() >= max(LEAST_VOTERS, len(found) / 2))


def _relative(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what was confirmed, over its median; 1 where nobody can judge."""
    known = found[~np.isnan(found)]
    middle = float(np.median(known)) if known.size else 0.0
    return np.where(np.isnan(found), 1.0, found / max(middle, 1e-9))
