"""What labels weighed on the wire, drawn beside what sharing the model would have."""

from __future__ import annotations

from fedkd_flwr.report import facts
from fedkd_flwr.report.canvas import BLUE, ORANGE, Canvas, Plot
from fedkd_flwr.report.facts import size
from fedkd_flwr.run_record import RunRecord

__all__ = ["bytes_plot"]


def bytes_plot(record: RunRecord, *, prefix: str = "bytes") -> Plot:
    """Draw what labels weighed per party and round, beside what sharing the model would have.

    Parameters and errors as in `accuracy_plot`.
    """
    sent = facts.traffic(record)
    model, averageable = facts.model_sharing(record)
    rival = "the model (FedAvg)" if averageable else "the model itself"
    labels_only = record.algorithm.lower() in facts.LABELS_ONLY
    sort, received = ("labels", "labels down") if labels_only else ("sent", "received")
    bars: list[tuple[str, float | None, str]] = [(received, sent.down, BLUE)]
    if sent.up_later is None:
        bars.insert(0, (f"{sort} up", sent.up, BLUE))
    else:
        bars.insert(0, (f"{sort} up, later rounds", sent.up_later, BLUE))
        bars.insert(0, (f"{sort} up, first round", sent.up_first, BLUE))
    bars += [(f"{rival}, up", model, ORANGE), (f"{rival}, down", model, ORANGE)]
    drawn = [(words, value, colour) for words, value, colour in bars if value is not None and value > 0]
    if not any(colour == BLUE for _, _, colour in drawn):
        return Plot(title="Bytes", svg="", caption="Not drawn: no bytes were recorded, or they are withheld.")
    title = _bytes_title(sent, model, averageable, "Labels need" if labels_only else "The exchange needs")
    with Canvas(1.25 + 0.36 * len(drawn)) as canvas:
        axes = canvas.figure.add_subplot()
        places = list(range(len(drawn)))[::-1]
        values = [value for _, value, _ in drawn]
        left = min(values) / 4
        axes.set_xscale("log")
        axes.set_xlim(left, max(values) * (max(values) / left) ** 0.18)
        axes.hlines(places, left, values, colors=[c for _, _, c in drawn], linewidth=2.2)
        for place, (_, value, colour) in zip(places, drawn, strict=True):
            marker = "o" if colour == BLUE else "D"
            axes.plot([value], [place], marker=marker, markersize=7, color=colour)
            axes.annotate(size(value), (value, place), (9, 0), textcoords="offset points", va="center")
        axes.set_yticks(places, [words for words, _, _ in drawn])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(-0.6, len(drawn) - 0.4)
        canvas.byte_axis(axes)
        axes.set_xlabel("bytes per party and round (each grid line is ten times the one before)")
        axes.grid(axis="x")
        canvas.title(title)
        svg = canvas.svg(prefix)
    caption = "Array bytes with their header, without Flower's envelope; 1 KB is 1,000 bytes."
    if model is None:
        caption += " What sharing models would weigh is not known for this run."
    elif averageable:
        caption += " FedAvg would send the same model up and down in every round; its size is the parties' mean."
    else:
        caption += (
            " FedAvg does not exist for these models: they have no weights to average, or differ between parties."
            " Shown instead is what sending the model itself once would weigh (the parties' mean)."
        )
    return Plot(title=title, svg=svg, caption=caption)


def _bytes_title(sent: facts.Traffic, model: float | None, averageable: bool, what: str) -> str:
    labels = (sent.up or 0.0) + (sent.down or 0.0)
    if model is None or not labels > 0:
        return f"A party sends {size(sent.up)} a round and receives {size(sent.down)}"
    ratio = 2 * model / labels
    other = "FedAvg of the same model" if averageable else "sending the model itself"
    if ratio >= 1:
        return f"{what} {facts.number(ratio)} times fewer bytes than {other}"
    return f"{what} {facts.number(1 / ratio)} times as many bytes as {other}"
