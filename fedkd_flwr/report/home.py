"""Who gains and who loses at home: a party's two models on its own test rows, which are like the rows it will see."""

from __future__ import annotations

from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report import derived
from fedkd_flwr.report.formatting import count, plain
from fedkd_flwr.report.recommendation import LEAST_ROWS, Difference, difference, only_class

__all__ = ["changes", "home_finding", "home_warning"]

_NAMED = 6  # further parties are counted, not named


def changes(record: RunRecord) -> list[tuple[PartyRecord, Difference]]:
    """Return each party's difference on its own test rows, where it is known; the largest loss comes first.

    It is of the figure that leads on own rows (`fedkd_flwr.report.derived.figure_used`).
    """
    figure = derived.figure_used(record, "own")
    found = [(p, difference(p.solo.get("own"), p.federated.get("own"), figure)) for p in record.parties]
    return sorted(((p, d) for p, d in found if d is not None), key=lambda item: (item[1].value, item[0].name))


def home_finding(record: RunRecord) -> str:
    """Return in half a sentence what the federation does to the parties' own rows; "" where that is not known.

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
    name, fixed = derived.figure_used(record, "own"), derived.fixed_answer(record, "own")
    # a party with rows of one class has 1 by whatever always gives that class
    beside = f" (one fixed answer {fixed:.2f})" if name == "balanced_accuracy" and fixed is not None else ""
    name = name.replace("_", " ")
    return f"at home, on their own rows, {who}: {name} {alone:.2f} alone, {after:.2f} with it{beside}"


def home_warning(record: RunRecord) -> str:
    """Return a warning that names the parties that lose at home by more than noise; "" if none does.

    The level is for all parties together (Bonferroni): among many, some lose clearly by chance.
    """
    found = changes(record)
    lost = [(p, d) for p, d in found if d.value < 0]
    clear = [(p, d) for p, d in lost if d.clear(len(found))]
    if not clear:
        return ""
    who = ", ".join(
        f"{plain(p.name, 40)} {d.alone:.3f} to {d.after:.3f} ({count(d.n, 'row')})" for p, d in clear[:_NAMED]
    )
    more = f" and {len(clear) - _NAMED} more" if len(clear) > _NAMED else ""
    of = count(len(found), "party", "parties")
    words = "loses" if len(clear) == 1 else "lose"
    name = derived.figure_used(record, "own").replace("_", " ")
    text = (
        f"At home, on their own test rows, {len(clear)} of {of} {words} by the federation (from {name} alone to "
        f"{name} with it): {who}{more}."
    )
    single = [p for p, _ in clear if only_class(p.solo["own"]) is not None]
    if better := [p for p, _ in clear if p not in single]:
        one = len(better) == 1
        text += (
            f" {_names(better)} {'is' if one else 'are'} better off with the model that {'it' if one else 'they'} "
            "trained alone."
        )
    if single:
        text += (
            f" All own test rows of {_names(single)} are of one class: they show nothing of what the model trained "
            "alone would miss of the others."
        )
    few = sum(d.too_few for _, d in lost)
    if rest := len(lost) - len(clear) - few:
        together = ", which is judged for all parties together" if len(found) > 1 else ""
        text += f" {count(rest, 'more party loses', 'more parties lose')} within noise{together}."
    if few:
        of = " of some class" if name == "balanced accuracy" else ""
        has = count(few, "more party has", "more parties have")
        text += f" {has} fewer than {LEAST_ROWS} rows{of}: too few to say."
    return text


def _names(parties: list[PartyRecord]) -> str:
    named = [plain(p.name, 40) for p in parties[:_NAMED]]
    if len(parties) > _NAMED:
        named.append(f"{len(parties) - _NAMED} more")
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
