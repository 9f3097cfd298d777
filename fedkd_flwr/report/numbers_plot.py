"""The picture of numbers: what models predict over what is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.canvas import GREY, Canvas, Plot
from fedkd_flwr.report.class_plots import LOOKS

__all__ = ["added", "numbers_plot"]


def added(measured: Iterable[Metrics | None]) -> Counter[tuple[float, float]]:
    """Return how many test rows have each pair of true and predicted number, of several models together.

    >>> dict(added([Metrics(n=3, pairs=[[1.0, 2.0, 3]]), Metrics(n=1, pairs=[[1.0, 2.0, 1]]), None]))
    {(1.0, 2.0): 4}
    """
    total: Counter[tuple[float, float]] = Counter()
    for one in measured:
        for true, predicted, rows in one.pairs if one is not None else []:
            total[true, predicted] += int(rows)
    return total


def numbers_plot(record: RunRecord) -> Plot:
    """Draw predicted over true numbers: all parties alone, all with the federation, or the server's model.

    Nothing is drawn, or said, where models answer with classes. Errors are those of `accuracy_plot`.
    """
    shown = results.of_kinds(record, added)
    if not shown:
        return Plot(title="", svg="", caption="")
    shown = {name: found for name, found in shown.items() if name in (next(iter(shown)), list(shown)[-1])}
    rows = results.rows_used(record)
    ends = [f([value for found in shown.values() for pair in found for value in pair]) for f in (min, max)]
    with Canvas(3.2) as canvas:
        panels = canvas.figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for axes, (name, found) in zip(panels, shown.items(), strict=True):
            most = max(found.values())
            axes.plot(ends, ends, color=GREY, linewidth=1.0, linestyle=":")
            true, predicted = zip(*found, strict=True)
            sizes = [3 + 50 * count / most for count in found.values()]
            axes.scatter(true, predicted, s=sizes, color=LOOKS[name][0], alpha=0.6, linewidths=0)
            axes.set_title(name, fontsize=9.5, weight="normal")
            axes.set_xlabel("true number")
            axes.grid()
        panels[0].set_ylabel("predicted number")
        svg = canvas.svg("numbers")
    whose = results.models_shown(record, rows, lambda found: found.pairs, server="server's model" in shown)
    caption = (
        f"{whose}, on {results.ROWS[rows]}. {results.rows_counted(rows)} A larger mark holds more rows, on a "
        "grid. On the dotted line the prediction is true; a cloud flatter than it is drawn to the mean."
    )
    return Plot(title="What is predicted, and what is true", svg=svg, caption=caption)
