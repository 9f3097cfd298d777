"""Which parties gain or lose on their own test rows, which resemble the rows that a party will classify."""

from __future__ import annotations

from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.formatting import count, plain
from fedkd_flwr.report.recommendation import LEAST_ROWS, Difference, difference

__all__ = ["changes", "losers_warning", "own_rows_finding"]

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
