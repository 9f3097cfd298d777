"""Which of its two models a party should use, and which parties lose, by the evidence of their own test rows.

The two models were tested on the same rows, but a record holds their figures and not their answers row by row. Their
errors are therefore taken as independent, which overstates the standard error where both fail on the same rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist, fmean

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.formatting import count, plain

__all__ = ["LEAST_ROWS", "Difference", "advice", "changes", "difference", "losers_warning", "own_rows_finding"]

LEVEL = 0.95  # of confidence
LEAST_ROWS = 10  # of fewer test rows no difference is clear: the interval is an approximation
_NAMED = 6  # further parties are counted, not named


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A figure of two models on the same ``n`` rows, and the standard error of the difference.

    ``rarest`` is the number of rows of the rarest class, where the figure counts every class alike; else ``n``.
    """

    alone: float
    after: float
    error: float
    n: int
    rarest: int

    @property
    def value(self) -> float:
        """How much higher the figure is with the federation."""
        return self.after - self.alone

    def clear(self, comparisons: int = 1) -> bool:
        """Tell whether the difference is more than noise, at `LEVEL` for so many comparisons together (Bonferroni)."""
        return self.rarest >= LEAST_ROWS and abs(self.value) > self.margin(comparisons)

    def margin(self, comparisons: int = 1) -> float:
        """Return half the length of the confidence interval."""
        return NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / comparisons) * self.error

    def text(self) -> str:
        """Return the figures, the difference with its confidence interval's half, and the rows.

        >>> Difference(alone=0.9, after=0.78, error=0.02, n=200, rarest=200).text()
        '0.900 alone, 0.780 with the federation: -0.120 ± 0.039 on 200 rows'
        """
        change = f"{self.value:+.3f} ± {self.margin():.3f}"
        rows = f"{self.n:,} rows" + ("" if self.rarest == self.n else f", {self.rarest:,} of them of the rarest class")
        return f"{self.alone:.3f} alone, {self.after:.3f} with the federation: {change} on {rows}"


def difference(alone: Metrics | None, after: Metrics | None, figure: str = "accuracy") -> Difference | None:
    """Return the difference of a figure between two models on the same rows; None where its error is not known.

    ``figure``: accuracy, or balanced accuracy, whose classes' recalls must all be known. The error is Agresti and
    Caffo's: one right and one wrong row are added to each sample ("Simple and Effective Confidence Intervals for
    Proportions and Differences of Proportions", The American Statistician 54(4), 2000), so that a share of 0 or 1 of
    few rows is no proof.

    >>> difference(Metrics(n=100, accuracy=0.9), Metrics(n=100, accuracy=0.6)).clear()
    True
    """
    if alone is None or after is None or alone.n != after.n or figure == "r2":
        return None
    values = getattr(alone, figure), getattr(after, figure)
    shares = [(*values, alone.n)]
    if figure == "balanced_accuracy":
        recalls = zip(alone.recall, after.recall, alone.support, strict=False)
        shares = [(one, two, n) for one, two, n in recalls if one is not None and two is not None and n]
        if not shares or None in alone.support:
            return None
    if None in values:
        return None
    both = [((share * n + 1) / (n + 2), n + 2) for *pair, n in shares for share in pair]
    error = math.sqrt(sum(p * (1 - p) / n for p, n in both)) / len(shares)
    rarest = min(n for *_, n in shares)
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


def changes(record: RunRecord) -> list[tuple[PartyRecord, Difference]]:
    """Return each party's difference on its own test rows, where it is known; the largest loss comes first.

    It is of the figure that leads on own rows (`fedkd_flwr.report.results.figure_used`).
    """
    figure = results.figure_used(record, "own")
    found = [(p, difference(p.solo.get("own"), p.federated.get("own"), figure)) for p in record.parties]
    return sorted(((p, d) for p, d in found if d is not None), key=lambda item: (item[1].value, item[0].name))


def own_rows_finding(record: RunRecord) -> str:
    """Return a clause on who loses on own rows, so that gains on common ones hide no loss; "" where it is not known."""
    figure = results.figure_used(record, "own")
    if not (found := [pair for _, *pair in results.pairs(record, "own", figure)]):
        return ""
    lost = sum(after < alone for alone, after in found)
    some = f"{lost} of {len(found)} {'loses' if lost == 1 else 'lose'}"
    who = "none loses" if not lost else "all lose" if lost == len(found) > 1 else some
    # a party with rows of one class has 1 by whatever always gives that class
    fixed = results.fixed_answer(record, "own") if figure == "balanced_accuracy" else None
    beside = f" (one fixed answer {fixed:.2f})" if fixed is not None else ""
    alone, after = map(fmean, zip(*found, strict=True))
    reach = f"{results.figure_name(figure)} {alone:.2f} alone, {after:.2f} with it{beside}"
    return f"at home, on their own rows, {who}: {reach}"


def losers_warning(record: RunRecord) -> str:
    """Return a warning that names the parties that lose on their own rows by more than noise; "" if none does.

    The level is for all parties together (Bonferroni): among many, some lose clearly by chance.
    """
    found = changes(record)
    lost = [(p, d) for p, d in found if d.value < 0 and d.clear(len(found))]
    if not lost:
        return ""
    name = results.figure_name(results.figure_used(record, "own"))
    who = [f"{plain(p.name, 40)} {d.alone:.3f} to {d.after:.3f} ({count(d.n, 'row')})" for p, d in lost]
    more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
    lose = f"of {count(len(found), 'party', 'parties')} {'loses' if len(lost) == 1 else 'lose'} by the federation"
    return (
        f"At home, on their own test rows, {len(lost)} {lose}, by more than noise (from {name} alone to {name} with "
        f"it): {', '.join(who[:_NAMED])}{more}."
    )
