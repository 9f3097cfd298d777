"""The page's section on metrics: every figure of every kind of model, and precision, recall and F1 by class."""

from __future__ import annotations

from collections.abc import Iterator

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import derived
from fedkd_flwr.report.formatting import share
from fedkd_flwr.report.html import Html, table, tag

__all__ = ["metrics"]

_WHO = {
    "alone": "alone (SOLO)",
    "federated": "with the federation",
    "extended": "with own columns too",
    "server": "server's model",
    "centralised": "centralised",
}
_MANY_CLASSES = 100


def metrics(record: RunRecord) -> Iterator[Html]:
    """Yield a table of all figures, one of the classes, and sentences that explain them."""
    found = derived.figures(record)
    if not found:
        still = record.status == "running"
        yield tag("p", f"No metric is in the record{' yet' if still else ''}.")
        return
    header = ["model", "test rows", "number of rows", *derived.FIGURES.values()]
    body = [
        [_WHO[one.who], one.rows, f"{one.n:,}", *(share(one.means.get(figure)) for figure in derived.FIGURES)]
        for one in found
    ]
    yield table(header, body, numbers=range(2, len(header)), label="Means of all metrics")
    ranked = f"of class {_name(record, 1)}" if record.num_classes == 2 else "of each class against the others"
    text = (
        "Figures of parties are means over those that report them. bal.acc: balanced accuracy, the mean recall of the "
        "classes. base: accuracy of always answering the commonest class. F1: mean over classes. AUC and AP: area "
        "under the ROC curve and average precision, "
        f"{ranked}. Log loss, Brier score and expected calibration error (ECE) are better where they are lower."
    )
    if partly := derived.of_fewer(found, _WHO):
        text += f" {' '.join(partly)} The others have none, such as an AUC on test rows of one class."
    if any(one.no_probabilities for one in _all(record)):
        text += " Models without probabilities have no AUC, AP, log loss, Brier score and ECE."
    yield tag("p", text, class_="soft")
    rows = derived.rows_used(record)
    kinds = [(who, ms) for who, every in derived.models(record) if (ms := [m[rows] for m in every if rows in m])]
    num_classes = max((len(m.recall or m.precision or m.f1) for _, ms in kinds for m in ms), default=0)
    if 0 < num_classes <= _MANY_CLASSES:
        names = ("recall", "precision", "f1")
        header = ["class", "number of rows", *(f"{name}, {_WHO[who]}" for who, _ in kinds for name in names)]
        body = [
            [_name(record, c), _support(kinds, rows, c), *(_mean(ms, name, c) for _, ms in kinds for name in names)]
            for c in range(num_classes)
        ]
        yield table(header, body, numbers=range(1, len(header)), label="Metrics by class")
        text = f"By class, on {derived.ROWS[rows]}: means over the models whose test rows hold the class."
        yield tag("p", text, class_="soft")


def _all(record: RunRecord) -> Iterator[Metrics]:
    for _, measured in derived.models(record):
        for one in measured:
            yield from one.values()


def _name(record: RunRecord, c: int) -> str:
    return record.classes[c] if c < len(record.classes) else str(c)


def _support(kinds: list[tuple[str, list[Metrics]]], rows: str, c: int) -> str:
    """Return the number of test rows of a class: of all parties together, if each has its own."""
    told = [[n for m in ms if m.support and (n := m.support[c]) is not None] for _, ms in kinds]
    totals = [sum(counts) if rows == "own" else max(counts) for counts in told if counts]
    return f"{max(totals):,}" if totals else "–"


def _mean(ms: list[Metrics], figure: str, c: int) -> str:
    known = [getattr(m, figure)[c] for m in ms if getattr(m, figure) and m.support[c]]
    return share(sum(known) / len(known)) if known else "–"
