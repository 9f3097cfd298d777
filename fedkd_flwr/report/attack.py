"""What a membership attack found about a run: tables, and the ROC curve on logarithmic axes."""

from __future__ import annotations

from fedkd_flwr.privacy.rounding import bound_text, least_text
from fedkd_flwr.record.run_record import AttackFigures, AuditRecord, Measured, RunRecord
from fedkd_flwr.report.canvas import BLUE, GREY, Canvas, Plot
from fedkd_flwr.report.html import Table

__all__ = ["attack_table", "claims_table", "found_texts", "interval_text", "roc_plot"]


def attack_table(found: AuditRecord) -> Table:
    """Return how well an attacker who saw all that left told members from fresh rows."""
    rows = [_cells("all parties", found.everybody), *(_cells(name, of) for name, of in found.parties.items())]
    header = ["", "members", "attack AUC", "found at 1 % false alarms", "at 0.1 %"]
    return Table("What the attack found", header, rows, range(1, 5))


def claims_table(found: AuditRecord) -> Table:
    """Return what is claimed, rounded up, beside what the attack proves at least, rounded down."""
    rows = [
        (
            f"{of.unit} ({of.neighbouring_relation})",
            f"{bound_text(of.epsilon)} at delta {bound_text(of.delta)}",
            least_text(of.proven),
        )
        for of in found.claims
    ]
    header = ["claim for each", "claimed epsilon", "proven by this attack, at 95 %"]
    return Table("Claims, and what the attack proves", header, rows, (1, 2))


def _cells(name: str, of: AttackFigures) -> list[str]:
    return [name, f"{of.members:,}", interval_text(of.auc), *found_texts(of)]


def found_texts(of: AttackFigures) -> tuple[str, str]:
    """Return the shares of members found at 1 % and 0.1 % false alarms; a dash where there are too few fresh rows."""
    at_percent, at_permille = interval_text(of.found_at_1_percent), interval_text(of.found_at_1_permille)
    return at_percent if of.fresh >= 100 else "–", at_permille if of.fresh >= 1000 else "–"


def interval_text(of: Measured) -> str:
    """Return a figure with its interval."""
    return f"{of.value:.3f} ({of.low:.3f} to {of.high:.3f})"


def roc_plot(record: RunRecord) -> Plot:
    """Draw the attack's ROC curve on logarithmic axes, where few false alarms can be seen.

    Parameters and errors are those of `accuracy_plot`.
    """
    points = [] if record.audit is None else [p for p in record.audit.roc if len(p) == 2 and 0 < p[0] <= 1]
    if record.audit is None or not points:
        return Plot(title="Members found", caption="Not drawn: the record holds no attack.")
    least = min(x for x, _ in points)
    title = f"Members found against false alarms: AUC {interval_text(record.audit.everybody.auc)}"
    with Canvas(3.2) as canvas:
        axes = canvas.figure.add_subplot()
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.plot([least, 1], [least, 1], linestyle="--", linewidth=1, color=GREY)
        axes.step([x for x, _ in points], [max(y, least) for _, y in points], where="post", color=BLUE)
        axes.set_xlim(least, 1)
        axes.set_ylim(least, 1)
        axes.set_xlabel("share of fresh rows taken for members (false alarms)")
        axes.set_ylabel("share of members found")
        axes.grid()
        svg = canvas.svg("roc")
    caption = (
        "The dashed line is guessing. A curve far above it at the left means that some members are nearly certain."
    )
    return Plot(title=title, svg=svg, caption=caption)
