"""Warnings about models that miss a class or are no better than one fixed answer, however good their accuracy looks."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.formatting import count, plain

__all__ = ["kinds_of_warnings", "model_warnings", "warnings_of"]

_MANY_CLASSES = 3  # classes named in a warning; further ones are counted


def model_warnings(record: RunRecord) -> list[str]:
    """Return warnings about models that do not find a class, or are no better than one fixed answer.

    The server's model is judged on the common test rows, and the parties' models with the federation (alone, where
    there is neither) on those of `fedkd_flwr.report.results.rows_used`. A reader must see them before any accuracy.
    """
    return [text for _, text in kinds_of_warnings(record)]


def kinds_of_warnings(record: RunRecord) -> list[tuple[str, str]]:
    """Return `model_warnings`, each after what the same warning of another run has too, whatever its numbers are."""
    found: list[tuple[str, str]] = []
    if server := record.server.get("common"):
        found += warnings_of(record, [server], "The server's model", "common")
    rows = results.rows_used(record)
    models = [m for p in record.parties if (m := p.federated.get(rows))]
    who = "Models with the federation"
    if not models and not server:
        models, who = [m for p in record.parties if (m := p.solo.get(rows))], "Models alone"
    return [*found, *warnings_of(record, models, who, rows)]


def warnings_of(record: RunRecord, models: Sequence[Metrics], who: str, rows: str) -> Iterator[tuple[str, str]]:
    """Yield warnings about one or several models together, by their figures on test rows of one kind.

    Each is told as `kinds_of_warnings` does. Of several models a class counts that half of them do not find.
    """
    subject = f"{who}, on {results.ROWS[rows]}"
    if known := [m.r2 for m in models if m.r2 is not None]:
        if (mean := statistics.fmean(known)) <= 0:
            text = f"{subject}: R2 {mean:.3f}, not above that of always answering the mean."
            yield f"{who} not above the mean", text
        return
    fixed = [m for m in models if _only_class(m) is not None]
    if fixed:
        accuracies = [m.accuracy for m in fixed if m.accuracy is not None]
        comes = f" An accuracy of {statistics.fmean(accuracies):.3f} comes from that alone." if accuracies else ""
        of = f"{len(fixed)} of {count(len(models), 'model')} useless" if len(models) > 1 else "useless"
        given = {_class(record, c) for m in fixed if (c := _only_class(m)) is not None}
        name = given.pop() if len(given) == 1 else "one class"
        yield f"{who} useless {name}", f"{subject}: {of}, {name} is given to all rows.{comes}"
    missing, tested = Counter(c for m in models for c in _missed(m)), Counter(c for m in models for c in _classes(m))
    said = Counter(c for m in fixed for c in _missed(m))  # by the sentence above
    if often := sorted(c for c in missing if 2 * missing[c] >= tested[c] and missing[c] > said[c]):
        names = [_class(record, c) for c in often[:_MANY_CLASSES]]
        how = [f"{missing[c]} of {tested[c]} models" for c in often]
        if len(models) == 1:
            how = [count(models[0].support[c] or 0, "row") for c in often]
        named = ", ".join(f"{name} ({of})" for name, of in zip(names, how, strict=False))
        more = f" and {len(often) - _MANY_CLASSES} more" if len(often) > _MANY_CLASSES else ""
        yield " ".join([who, "missed", *names]), f"{subject}: no row is found of {named}{more}."
    both = [(m.accuracy, m.baseline) for m in models if m.accuracy is not None and m.baseline is not None]
    if len(fixed) < len(both):
        mean, base = (statistics.fmean(values) for values in zip(*both, strict=True))
        if mean <= base:
            below = f"{subject}: accuracy {mean:.3f}, not above that of always answering the commonest class"
            yield f"{who} not above the commonest class", f"{below} ({base:.3f}).{_balanced(record, rows, models)}"


def _balanced(record: RunRecord, rows: str, models: Sequence[Metrics]) -> str:
    """Return the models' balanced accuracy beside one fixed answer's, where it leads: false alarms are no fault.

    Labels that are mere noise raise it too, for they move the threshold: then rows are ranked worse, which is said.
    """
    known = [(m.balanced_accuracy, 1 / len(_classes(m))) for m in models if m.balanced_accuracy and _classes(m)]
    if results.figure_used(record, rows) != "balanced_accuracy" or not known:
        return ""
    mean, fixed = (statistics.fmean(values) for values in zip(*known, strict=True))
    figures = f"{mean:.3f}, of one fixed answer {fixed:.3f}{results.rarest_in_brackets(record, rows)}"
    text = f" Balanced accuracy, which leads here because a class is rare: {figures}."
    both = results.pairs(record, rows, "roc_auc") if len(models) > 1 else []
    alone, after = results.means(both) if both else (0.0, 0.0)
    return (
        text if alone <= after else f"{text} Rows are ranked worse than alone: ROC AUC {after:.3f}, alone {alone:.3f}."
    )


def _classes(m: Metrics) -> list[int]:
    """Return the classes that have test rows and whose recall is known."""
    return [c for c, (share, n) in enumerate(zip(m.recall, m.support, strict=False)) if n and share is not None]


def _missed(m: Metrics) -> list[int]:
    """Return the classes that have test rows of which the model finds none."""
    return [c for c in _classes(m) if m.recall[c] == 0]


def _only_class(m: Metrics) -> int | None:
    """Return the class that the model gives to all rows, None if it gives several or all rows are of one class."""
    for c, (share, right, n) in enumerate(zip(m.recall, m.precision, m.support, strict=False)):
        if share == 1 and right and n and n < m.n and round(n / right) == m.n:
            return c
    return None


def _class(record: RunRecord, c: int) -> str:
    return f"class '{plain(record.classes[c], 40)}'" if c < len(record.classes) else f"class {c}"
