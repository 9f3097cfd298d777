"""Which of its two models a party should use, and which parties lose, by the evidence of their own test rows.

The two models were tested on the same rows, but a record holds their figures and not their answers row by row. Their
errors are therefore taken as independent, which overstates the standard error where both fail on the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.formatting import count, plain

__all__ = ["LEAST_ROWS", "Difference", "advice", "changes", "difference", "losers_warning", "own_rows_finding"]

LEVEL = 0.95  # of confidence
LEAST_ROWS = 10  # of fewer test rows no difference is clear: the interval is an approximation


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A figure of two models on the same ``n`` rows, and the standard error of the difference.

    ``rarest`` is the number of rows of the rarest class, where the figure counts every class alike.
    """

    alone: float
    after: float
    error: float
    n: int
    rarest: int | None = None

    @property
    def value(self) -> float:
        """How much higher the figure is with the federation."""
        return self.after - self.alone

    def clear(self, comparisons: int = 1) -> bool:
        """Tell whether the difference is more than noise, at `LEVEL` for so many comparisons together (Bonferroni)."""
        return not self.too_few and abs(self.value) > self.margin(comparisons)

    @property
    def too_few(self) -> bool:
        """Whether the figure rests on fewer than `LEAST_ROWS` rows: one right answer more may decide."""
        return min(self.n, self.n if self.rarest is None else self.rarest) < LEAST_ROWS

    def margin(self, comparisons: int = 1) -> float:
        """Return half the length of the confidence interval."""
        return NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / comparisons) * self.error

    def text(self) -> str:
        """Return the figures, the difference with its confidence interval's half, and the rows.

        >>> Difference(alone=0.9, after=0.78, error=0.02, n=200).text()
        '0.900 alone, 0.780 with the federation: -0.120 ± 0.039 on 200 rows'
        """
        change = f"{self.value:+.3f} ± {self.margin():.3f}"
        rows = f"{self.n:,} rows" + ("" if self.rarest is None else f", {self.rarest:,} of them of the rarest class")
        return f"{self.alone:.3f} alone, {self.after:.3f} with the federation: {change} on {rows}"


def _error(shares: Sequence[tuple[float, float]], sizes: Sequence[int]) -> float:
    """Return the standard error of the mean difference of shares, by Agresti and Caffo's rule for each of them.

    One right and one wrong row are added to each sample ("Simple and Effective Confidence Intervals for Proportions
    and Differences of Proportions", The American Statistician 54(4), 2000): a share of 0 or 1 of few rows is no proof.
    """
    total = 0.0
    for pair, n in zip(shares, sizes, strict=True):
        for share in pair:
            p = (share * n + 1) / (n + 2)
            total += p * (1 - p) / (n + 2)
    return math.sqrt(total) / len(sizes)


def difference(alone: Metrics | None, after: Metrics | None, figure: str = "accuracy") -> Difference | None:
    """Return the difference of a figure between two models on the same rows; None where its error is not known.

    ``alone``, ``after``: of the model trained alone and of the one trained with the federation, on the same rows.
    ``figure``: of balanced accuracy the recalls of all classes must be known; of "r2" no error is.

    >>> difference(Metrics(n=100, accuracy=0.9), Metrics(n=100, accuracy=0.6)).clear()
    True
    """
    if alone is None or after is None or alone.n != after.n or figure == "r2":
        return None
    values = getattr(alone, figure), getattr(after, figure)
    if None in values:
        return None
    if figure == "accuracy":
        shares, sizes = [values], [alone.n]
    else:
        recalls = zip(alone.recall, after.recall, alone.support, strict=False)
        known = [(one, two, n) for one, two, n in recalls if one is not None and two is not None and n]
        if not known or None in alone.support:
            return None
        shares, sizes = [(one, two) for one, two, _ in known], [n for *_, n in known]
    error, rarest = _error(shares, sizes), None if figure == "accuracy" else min(sizes)
    return Difference(alone=values[0], after=values[1], error=error, n=alone.n, rarest=rarest)


def advice(party: PartyRecord, figure: str = "accuracy") -> tuple[str, str]:
    """Return which model a party should use, ``federated`` or ``stay alone``, and the evidence of its own test rows.

    "" where these do not tell: a difference within noise, or test rows of one class, on which a constant model is
    perfect. ``figure`` is what leads on own rows; where its error is not known, accuracy decides.

    >>> party = PartyRecord(name="a", solo={"own": Metrics(n=100, accuracy=0.9)})
    >>> party.federated["own"] = Metrics(n=100, accuracy=0.6)
    >>> advice(party)[0]
    'stay alone'
    """
    alone, after = party.solo.get("own"), party.federated.get("own")
    found = difference(alone, after, figure) or difference(alone, after)
    if found is None or alone is None:
        return "", ""
    held = [n is None or n > 0 for n in alone.support]
    clear = found.clear() and (len(held) < 2 or sum(held) != 1)
    return ("federated" if found.value > 0 else "stay alone") if clear else "", found.text()


_NAMED = 6  # further parties are counted, not named


def changes(record: RunRecord) -> list[tuple[PartyRecord, Difference]]:
    """Return each party's difference on its own test rows, where it is known; the largest loss comes first.

    It is of the figure that leads on own rows (`fedkd_flwr.report.results.figure_used`).
    """
    figure = results.figure_used(record, "own")
    found = [(p, difference(p.solo.get("own"), p.federated.get("own"), figure)) for p in record.parties]
    return sorted(((p, d) for p, d in found if d is not None), key=lambda item: (item[1].value, item[0].name))


def own_rows_finding(record: RunRecord) -> str:
    """Return a clause on how many parties lose on their own rows; "" where that is not known.

    It stands beside every finding on common rows, so that gains there hide no losses at home.
    """
    found = changes(record)
    if not found:
        return ""
    alone = sum(d.alone for _, d in found) / len(found)
    after = sum(d.after for _, d in found) / len(found)
    lost = sum(d.value < 0 for _, d in found)
    words = "loses" if lost == 1 else "lose"
    who = "none loses" if not lost else "all lose" if lost == len(found) > 1 else f"{lost} of {len(found)} {words}"
    name, fixed = results.figure_used(record, "own"), results.fixed_answer(record, "own")
    # a party with rows of one class has 1 by whatever always gives that class
    beside = f" (one fixed answer {fixed:.2f})" if name == "balanced_accuracy" and fixed is not None else ""
    name = results.figure_name(name)
    return f"at home, on their own rows, {who}: {name} {alone:.2f} alone, {after:.2f} with it{beside}"


def losers_warning(record: RunRecord) -> str:
    """Return a warning that names the parties that lose on their own rows by more than noise; "" if none does.

    The level is for all parties together (Bonferroni): among many, some lose clearly by chance.
    """
    found = changes(record)
    lost = [(p, d) for p, d in found if d.value < 0]
    clear = [(p, d) for p, d in lost if d.clear(len(found))]
    if not clear:
        return ""
    name = results.figure_name(results.figure_used(record, "own"))
    who = ", ".join(
        f"{plain(p.name, 40)} {d.alone:.3f} to {d.after:.3f} ({count(d.n, 'row')})" for p, d in clear[:_NAMED]
    )
    more = f" and {len(clear) - _NAMED} more" if len(clear) > _NAMED else ""
    lose = f"of {count(len(found), 'party', 'parties')} {'loses' if len(clear) == 1 else 'lose'} by the federation"
    text = f"At home, on their own test rows, {len(clear)} {lose} (from {name} alone to {name} with it): {who}{more}."
    few = sum(d.too_few for _, d in lost)
    if rest := len(lost) - len(clear) - few:
        together = ", which is judged for all parties together" if len(found) > 1 else ""
        text += f" {count(rest, 'more party loses', 'more parties lose')} within noise{together}."
    if few:
        of = " of some class" if name == "balanced accuracy" else ""
        text += (
            f" {count(few, 'more party has', 'more parties have')} fewer than {LEAST_ROWS} rows{of}: too few to say."
        )
    return text
