"""Warnings about models that miss a class or are no better than one fixed answer, however good their accuracy looks."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator

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
        found += warnings_of(record, server, "The server's model", "common")
    rows = results.rows_used(record)
    models = [m for p in record.parties if (m := p.federated.get(rows))]
    kind = "with the federation"
    if not models and not server:
        models, kind = [m for p in record.parties if (m := p.solo.get(rows))], "alone"
    return found + list(_useless_parties(record, models, rows, f"{kind}, on {results.ROWS[rows]}"))


def warnings_of(record: RunRecord, m: Metrics, who: str, rows: str) -> Iterator[tuple[str, str]]:
    """Yield warnings about one model, by its figures on test rows of one kind; each as `kinds_of_warnings` does."""
    if m.r2 is not None:
        if m.r2 <= 0:
            yield f"{who} not above the mean", f"{who}'s R2 {m.r2:.3f} is not above that of always answering the mean."
        return
    missed = _missed(m)
    if (only := _only_class(m)) is not None:
        yield (
            f"{who} useless {_class(record, only)}",
            f"{who} is useless: it gives {_class(record, only)} to all {m.n:,} {rows} test rows and finds none of "
            f"{_classes(record, missed, m)}. An accuracy of {m.support[only] / m.n:.3f} comes from that alone.",  # type: ignore[operator]
        )
        return
    if missed:
        kind = " ".join([who, "misses", *(_class(record, c) for c in missed)])
        yield kind, f"{who} finds none of the {rows} test rows of {_classes(record, missed, m)}."
    if m.accuracy is not None and m.baseline is not None and m.accuracy <= m.baseline:
        yield (
            f"{who} not above the commonest class",
            f"{who}'s accuracy {m.accuracy:.3f} is not above that of always answering the commonest class "
            f"({m.baseline:.3f}).{_balanced(record, rows, [m])}",
        )


def _useless_parties(record: RunRecord, models: list[Metrics], rows: str, where: str) -> Iterator[tuple[str, str]]:
    if known := [m.r2 for m in models if m.r2 is not None]:
        if (mean := statistics.fmean(known)) <= 0:
            yield "not above the mean", f"Mean R2 {where}: {mean:.3f}, not above that of always answering the mean."
        return
    fixed = [m for m in models if _only_class(m) is not None]
    if fixed:
        models_in_all = count(len(models), "model", "models")
        yield "useless", f"{len(fixed)} of {models_in_all} {where}: useless, one class is given to all rows."
    tested = Counter(c for m in models for c, n in enumerate(m.support) if n and m.recall and m.recall[c] is not None)
    missing = Counter(c for m in models for c in _missed(m))
    said = Counter(c for m in fixed for c in _missed(m))  # the sentence above tells of these
    often = sorted(c for c in missing if 2 * missing[c] >= tested[c] and missing[c] > said[c])
    if often:
        named = ", ".join(
            f"{_class(record, c)} ({missing[c]} of {count(tested[c], 'model', 'models')})"
            for c in often[:_MANY_CLASSES]
        )
        more = f" and {len(often) - _MANY_CLASSES} more" if len(often) > _MANY_CLASSES else ""
        kind = " ".join(["missed", *(_class(record, c) for c in often[:_MANY_CLASSES])])
        yield kind, f"Models {where} find no row of {named}{more}."
    both = [(m.accuracy, m.baseline) for m in models if m.accuracy is not None and m.baseline is not None]
    if len(fixed) < len(both):
        mean, base = (statistics.fmean(values) for values in zip(*both, strict=True))
        if mean <= base:
            below = f"Mean accuracy {where}: {mean:.3f}, not above that of the commonest class alone ({base:.3f})."
            yield "not above the commonest class", below + _balanced(record, rows, models)


def _balanced(record: RunRecord, rows: str, models: list[Metrics]) -> str:
    """Return the models' balanced accuracy beside that of one fixed answer, where it leads; else nothing.

    With rare classes an accuracy below the fixed answer's is no fault: a model that finds them may raise false alarms.
    """
    if results.figure_used(record, rows) != "balanced_accuracy":
        return ""
    known = [
        (m.balanced_accuracy, 1 / sum(map(bool, m.support)))
        for m in models
        if m.balanced_accuracy is not None and m.support and None not in m.support
    ]
    if not known:
        return ""
    mean, fixed = (statistics.fmean(values) for values in zip(*known, strict=True))
    figures = f"{mean:.3f}, of one fixed answer {fixed:.3f}{results.rarest_in_brackets(record, rows)}"
    return f" Balanced accuracy, which leads here because a class is rare: {figures}."


def _missed(m: Metrics) -> list[int]:
    """Return the classes that have test rows of which the model finds none."""
    return [c for c, (share, n) in enumerate(zip(m.recall, m.support, strict=False)) if n and share == 0]


def _only_class(m: Metrics) -> int | None:
    """Return the class that the model gives to all rows, None if it gives several or all rows are of one class."""
    for c, (share, right, n) in enumerate(zip(m.recall, m.precision, m.support, strict=False)):
        if share == 1 and right and n and n < m.n and round(n / right) == m.n:
            return c
    return None


def _classes(record: RunRecord, classes: list[int], m: Metrics) -> str:
    named = [f"{_class(record, c)} ({count(m.support[c] or 0, 'row', 'rows')})" for c in classes[:_MANY_CLASSES]]
    more = len(classes) - len(named)
    return ", ".join(named) + (f" and {count(more, 'more class', 'more classes')}" if more else "")


def _class(record: RunRecord, c: int) -> str:
    return f"class '{plain(record.classes[c], 40)}'" if c < len(record.classes) else f"class {c}"
