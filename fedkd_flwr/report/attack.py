"""What an attack found about a run, on its page: a table, and the ROC curve on logarithmic axes."""

from __future__ import annotations

from collections.abc import Iterator

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.record.run_record import AttackFigures, Measured, RunRecord
from fedkd_flwr.report.figure import BLUE, GREY, Canvas, Plot
from fedkd_flwr.report.html import Html, table, tag
from fedkd_flwr.rounding import bound_text, least_text

__all__ = ["attack", "found_texts", "interval_text", "roc_plot"]


def attack(record: RunRecord) -> Iterator[Html]:
    """Yield how well an attacker who saw all that left told members from fresh rows; nothing where none was tried."""
    found = record.audit
    if found is None:
        return
    yield tag(
        "p",
        "Each party trained on a random half of its rows; the other half are fresh rows of the same law. The attacker "
        f"saw all that left the parties ({', '.join(found.sent)}), knew all rows and the recipe, repeated the run "
        f"{found.shadows} times with other halves, and scored each row by how much likelier what left is if the row "
        "was trained on.",
    )
    rows = [_cells("all parties", found.everybody), *(_cells(name, of) for name, of in found.parties.items())]
    header = ["", "members", "attack AUC", "found at 1 % false alarms", "at 0.1 %"]
    yield table(header, rows, numbers=range(1, 5), label="What the attack found")
    yield tag(
        "p",
        "AUC 0.5 is guessing, 1 is certainty. Found is the share of members named at so many false alarms; a dash "
        "stands where one fresh row is more than that share. In "
        "brackets: 95 % intervals, DeLong's and Clopper and Pearson's, which take rows for independent. Without shadow "
        f"runs the AUC is {interval_text(found.without_shadows)}. An attack shows what leaks at least: another may "
        "find more. Only a claim says what leaks at most.",
        class_="soft",
    )
    claimed = [
        (
            f"{of.unit} ({of.neighbouring_relation})",
            f"{bound_text(of.epsilon)} at delta {bound_text(of.delta)}",
            least_text(of.proven),
        )
        for of in found.claims
    ]
    if claimed:
        header = ["claim for each", "claimed epsilon", "proven by this attack, at 95 %"]
        yield table(header, claimed, numbers=range(1, 3), label="Claims, and what the attack proves")
    try:
        plot = roc_plot(record)
    except MissingExtraError as error:
        yield tag("p", str(error), class_="warn")
        return
    if plot.svg:
        picture = tag("div", Html(plot.svg), class_="plot", tabindex="0", role="img", aria_label=plot.title)
        yield tag("figure", picture, tag("figcaption", plot.caption))


def _cells(name: str, of: AttackFigures) -> list[str]:
    return [name, f"{of.members:,}", interval_text(of.auc), *found_texts(of)]


def found_texts(of: AttackFigures) -> tuple[str, str]:
    """Return the shares of members found at 1 % and 0.1 % false alarms; a dash where the fresh rows are too few."""
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
        return Plot(title="Members found", svg="", caption="Not drawn: the record holds no attack.")
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
        canvas.title(title)
        svg = canvas.svg("roc")
    caption = (
        "The dashed line is guessing. A curve far above it at the left means that some members are nearly certain."
    )
    return Plot(title=title, svg=svg, caption=caption)
