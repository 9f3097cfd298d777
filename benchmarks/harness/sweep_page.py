"""The page of a sweep: accuracy against epsilon, and what the epsilons protect."""

from __future__ import annotations

from pathlib import Path

from fedkd_flwr.files import write_atomic
from fedkd_flwr.report import claims, results, run_privacy
from fedkd_flwr.report.formatting import count, share
from fedkd_flwr.report.html import Table, drawn, environment

from .sweep import Sweep
from .sweep_plot import accuracy_against_epsilon

__all__ = ["write_sweep_page"]


_PAGE = """{% extends "base.html.md" %}
{% from "parts.html.md" import table, pictures %}
{% block main %}
<p class="soft">sweep of {{ sweep.name }} over {{ sweep.varied }} · {{ seeds }} · simulation</p>
<h1>{{ heading }}</h1>
{% for warning in warnings %}<p class="bad">{{ warning }}</p>{% endfor %}
{{ pictures(plots, missing) }}
<section><h2>Each epsilon</h2>{{ table(points) }}</section>
<section><h2>What the epsilons are about</h2>
{% for text in trust %}<p>{{ text }}</p>{% endfor %}
<p>Each epsilon is that of one run, computed without looking at private data. All runs of the sweep together cost more.
Choosing the setting that did best also looks at private data, and no claim covers that choice.</p>
<p>The accuracies are those of simulated parties. At real silos such a picture itself would cost privacy.</p>
{{ table(claim) }}
</section>
<section><h2>How to run this again</h2><pre><code>{{ sweep.command or "not recorded" }}</code></pre></section>
{% endblock %}
"""


def write_sweep_page(sweep: Sweep, path: Path) -> Path:
    """Write the page of a sweep and return its path. Without matplotlib it has its tables but no picture, and says so.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    plots, missing = drawn([accuracy_against_epsilon], sweep)
    heading = plots[0].title if plots else "Accuracy against epsilon"
    text = (
        environment()
        .from_string(_PAGE)
        .render(
            title=f"Sweep of {sweep.name}: {heading}",
            heading=heading,
            sweep=sweep,
            seeds=count(len(sweep.seeds), "seed"),
            warnings=run_privacy.unproven([sweep.claim]),
            plots=plots,
            missing=missing,
            points=_points(sweep),
            trust=run_privacy.trust([sweep.claim]),
            claim=_claim(sweep),
        )
    )
    return write_atomic(path, text.encode(errors="replace"))


def _points(sweep: Sweep) -> Table:
    def row(name: str, epsilon: str, values: list[float]) -> list[str]:
        found = results.spread(values)
        cells = [share(found.mean), share(found.lowest), share(found.highest)] if found else ["–"] * 3
        return [name, epsilon, *cells, str(len(values))]

    body = [
        row(f"{sweep.varied} = {point.value}", claims.bound_text(point.epsilon), point.accuracies)
        for point in sorted(sweep.points, key=lambda point: point.epsilon)
    ]
    if sweep.without_noise:
        body.append(row("without noise", "no bound", sweep.without_noise))
    if sweep.alone:
        body.append(row("a party alone (SOLO, mean)", "nothing is released", sweep.alone))
    header = ["", "epsilon", f"accuracy: {sweep.measure}", "lowest", "highest", "runs"]
    return Table("Each epsilon", header, body, range(1, 6))


def _claim(sweep: Sweep) -> Table:
    cells = claims.claim_cells(sweep.claim) | {"epsilon": "as in the table above"}
    # The noise differs from point to point, so the first point's description does not fit the others.
    cells.pop("noise", None)
    return Table("Privacy claim", ["", "claim"], list(cells.items()))
