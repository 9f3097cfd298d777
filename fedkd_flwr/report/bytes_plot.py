"""The picture of the bytes that travelled, beside the bytes that sharing the models would take."""

from __future__ import annotations

import math

from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import derived
from fedkd_flwr.report.figure import BLUE, ORANGE, Canvas, Plot
from fedkd_flwr.report.formatting import number, size

__all__ = ["bytes_plot"]


def bytes_plot(record: RunRecord) -> Plot:
    """Draw the bytes per party and round, beside the bytes that sharing the models would take where they do not.

    Parameters and errors are those of `accuracy_plot`.
    """
    sent = derived.traffic(record)
    model, averageable = derived.model_sharing(record)
    rival = "the model (FedAvg)" if averageable else "the model itself"
    sends = f"{record.sends or 'answers'} sent"
    up: list[tuple[str, float | None, str]] = [(sends, sent.up, BLUE)]
    if sent.up_later is not None:
        up = [(f"{sends}, first round", sent.up_first, BLUE), (f"{sends}, later rounds", sent.up_later, BLUE)]
    once = record.final_bytes_down / len(record.parties) if record.parties else 0.0
    rounds = max(len(derived.heard(record)), 1)
    bars = [
        *up,
        ("received", sent.down, BLUE),
        (f"final {derived.final_result(record)}, once", once, BLUE),
        (f"{rival}, up", model, ORANGE),
        (f"{rival}, down", model, ORANGE),
    ]
    drawn = [(words, value, colour) for words, value, colour in bars if value is not None and value > 0]
    if not any(colour == BLUE for _, _, colour in drawn):
        return Plot(title="Bytes", svg="", caption="Not drawn: the record holds no sizes, or they are withheld.")
    title = _bytes_title(sent, model, averageable, once / rounds)
    if len(drawn) == 1:
        return Plot(title="Bytes", svg="", caption=f"{title}. There is nothing to compare this with.")
    with Canvas(1.25 + 0.36 * len(drawn)) as canvas:
        axes = canvas.figure.add_subplot()
        places = list(range(len(drawn)))[::-1]
        values = [value for _, value, _ in drawn]
        left = 10.0 ** math.floor(math.log10(min(values) / 4))  # a power of ten, so that at least one is labelled
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
        svg = canvas.svg("bytes")
    caption = "Bytes of the arrays with their headers, without Flower's envelope. 1 KB is 1,000 bytes."
    if once:
        what = derived.final_result(record)
        caption += f" What a party gets at the end ({what}) comes once; a round's share of it counts in the title."
    # a simulation weighs the first models only
    weighed, parties = sum(p.model_bytes is not None for p in record.parties), len(record.parties)
    of = "the parties" if weighed == parties else f"{weighed:,} of {parties:,} parties"
    whose = f"that of {of}" if weighed == 1 < parties else f"the mean over {of}"
    if record.sends == "weights":
        caption += " The parties send the model itself, so there is no model sharing to compare this with."
    elif model is None:
        caption += " The size of the models is not known for this run."
    elif averageable:
        caption += f" FedAvg would send the model up and down in every round; the size shown is {whose}."
    else:
        caption += (
            " FedAvg cannot average these models: they have no weights, or differ between parties. Shown instead is"
            f" the size of one model ({whose}), as if it were sent up and down."
        )
    return Plot(title=title, svg=svg, caption=caption)


def _bytes_title(sent: derived.Traffic, model: float | None, averageable: bool, final: float) -> str:
    exchanged = (sent.up or 0.0) + (sent.down or 0.0) + final
    if model is None or not exchanged > 0:
        return f"A party sends {size(sent.up)} a round and receives {size(sent.down)}"
    ratio = 2 * model / exchanged
    other = "FedAvg of the same model" if averageable else "sending the model itself"
    if ratio >= 1:
        return f"A round needs {number(ratio)} times fewer bytes than {other} up and down"
    return f"A round needs {number(1 / ratio)} times as many bytes as {other} up and down"
