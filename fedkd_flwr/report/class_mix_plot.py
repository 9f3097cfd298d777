"""The picture of who holds what: each party's rows by class, the cause of most of what a federation shows."""

from __future__ import annotations

from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import derived
from fedkd_flwr.report.figure import Canvas, Plot
from fedkd_flwr.report.formatting import plain

__all__ = ["class_mix_plot"]

_NAMED_PARTIES = 40
_NAMED_CLASSES = 40
_CELLS = 300  # of more cells the counts are not written


def class_mix_plot(record: RunRecord) -> Plot:
    """Draw each party's share of rows by class as a heatmap, with its rows.

    Parameters and errors are those of `accuracy_plot`.
    """
    held = [p for p in record.parties if sum(p.class_counts)]
    title = "Which classes each party holds"
    if not held:
        return Plot(title=title, svg="", caption="Not drawn: the parties' class counts are not in the record.")
    num_classes = max(len(p.class_counts) for p in held)
    most = max(held, key=lambda p: sum(p.class_counts))
    least = min(held, key=lambda p: sum(p.class_counts))
    missing = sum(sum(n == 0 for n in p.class_counts) for p in held) / len(held)
    title = f"{sum(most.class_counts):,} rows; {missing:.0f} of {num_classes} classes are missing"
    if len(held) > 1:
        title = (
            f"{len(held)} parties with {sum(least.class_counts):,} to {sum(most.class_counts):,} rows; "
            f"on average a party lacks {missing:.1f} of {num_classes} classes"
        )
    shares = [[n / sum(p.class_counts) for n in p.class_counts] for p in held]
    top = max(map(max, shares))
    named = len(held) <= _NAMED_PARTIES
    with Canvas(1.3 + (max(0.235 * len(held), 1.2) if named else 4.0)) as canvas:
        axes = canvas.figure.add_subplot()
        image = canvas.heatmap(axes, shares, top=top)
        if len(held) * num_classes <= _CELLS and num_classes <= 15:
            for i, party in enumerate(held):
                for c, n in enumerate(party.class_counts):
                    colour = "white" if shares[i][c] > top / 2 else "#222222" if n else "#8a8a8a"
                    axes.text(c, i, f"{n:,}", ha="center", va="center", fontsize=7.5, color=colour)
        if named:
            labels = [f"{plain(p.name, 24)} ({sum(p.class_counts):,})" for p in held]
            axes.set_yticks(range(len(held)))
            axes.set_yticklabels(labels, parse_math=False)
            axes.set_ylabel("party (rows)")
        else:
            axes.set_yticks([])
            axes.set_ylabel(f"{len(held)} parties, by name")
        if num_classes <= _NAMED_CLASSES:
            names = [plain(derived.class_name(record.classes, c), 16) for c in range(num_classes)]
            long = max(map(len, names)) * num_classes > 60
            axes.set_xticks(range(num_classes))
            turned = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if long else {}
            axes.set_xticklabels(names, parse_math=False, **turned)
        else:
            axes.set_xlabel(f"{num_classes} classes, in the schema's order")
        canvas.figure.colorbar(image, ax=axes, label="share of the party's rows", fraction=0.035, pad=0.02)
        canvas.title(title)
        svg = canvas.svg("mix")
    caption = (
        "Each row is one party, each column one class; darker means a larger share of the party's rows. The numbers "
        "are private rows, those kept for testing among them. The more the parties differ, the harder a vote is."
    )
    return Plot(title=title, svg=svg, caption=caption)
