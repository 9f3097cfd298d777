"""Numbers derived from a run record, and how numbers are written: one source for table, plots and page."""

from __future__ import annotations

import math
import re
import statistics
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field

from fedkd_flwr.run_record import PartyRecord, RunRecord

__all__ = [
    "LABELS_ONLY",
    "ROWS",
    "SIMULATION_ONLY",
    "LeftOut",
    "Spread",
    "Traffic",
    "answered",
    "count",
    "is_number",
    "left_out",
    "means",
    "model_sharing",
    "number",
    "pairs",
    "plain",
    "rounds_text",
    "rows_used",
    "server_accuracies",
    "share",
    "simulation_only",
    "size",
    "spread",
    "time_span",
    "traffic",
]

LABELS_ONLY = frozenset({"fedct", "fedkt", "pate"})  # algorithms that send labels and nothing else, both ways
SIMULATION_ONLY = "simulation only: at real silos these stay with the party"
ROWS = {"common": "common test rows", "own": "each party's own test rows"}

# what FedAvg can average, by how the words of a model's name begin; a tree has no weights to average
_AVERAGEABLE = ("mlp", "cnn", "logistic", "linear", "net", "lenet", "resnet", "vgg", "sgd")


def is_number(value: object) -> bool:
    """Tell whether ``value`` is a finite number: what a damaged or NaN field is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def plain(text: object, limit: int = 0) -> str:
    r"""Return text without control and direction-changing characters, cut to ``limit`` characters.

    Names come from other organisations: they may carry terminal escapes or turn the line around.

    >>> plain("a\x1b[31mb"), plain("a very long name", 8)
    ('a�[31mb', 'a very …')
    """
    hidden = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    kept = "".join("\ufffd" if unicodedata.category(c) in hidden else c for c in str(text).replace("\t", " "))
    return kept if not limit or len(kept) <= limit else kept[: limit - 1] + "…"


def share(value: object, digits: int = 3) -> str:
    """Return a share as text, or a dash where there is none.

    >>> share(0.91234), share(None)
    ('0.912', '–')
    """
    return f"{value:.{digits}f}" if is_number(value) else "–"


def size(value: object) -> str:
    """Return a number of bytes in plain units; 1 KB is 1,000 bytes.

    >>> size(512), size(5_120), size(2_600_000)
    ('512 B', '5.1 KB', '2.6 MB')
    """
    if not is_number(value):
        return "–"
    left = float(value)  # type: ignore[arg-type]
    for unit in ("B", "KB", "MB"):
        if left < 999.5:
            return f"{left:.0f} {unit}" if unit == "B" or left >= 99.95 else f"{left:.1f} {unit}"
        left /= 1000
    return f"{left:.1f} GB"


def number(value: float) -> str:
    """Return a ratio to two figures: ``7.4``, ``74``, ``740``, ``7,400``.

    >>> number(7.43), number(743.2)
    ('7.4', '740')
    """
    if value < 10:
        return f"{value:.1f}"
    return f"{round(value, 1 - math.floor(math.log10(value))):,.0f}"


def time_span(seconds: float) -> str:
    """Return seconds as text; a dash where none were recorded.

    >>> time_span(9.04), time_span(95), time_span(0.0)
    ('9.0 s', '1 min 35 s', '–')
    """
    if not is_number(seconds) or seconds <= 0:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 59.95 else "1 min 0 s"
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"


def count(amount: int, one: str, many: str = "") -> str:
    """Return an amount with its word.

    >>> count(1, "party", "parties"), count(3, "round")
    ('1 party', '3 rounds')
    """
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean, lowest and highest of some numbers."""

    mean: float
    lowest: float
    highest: float

    def text(self) -> str:
        """Return ``mean (lowest to highest)``."""
        return f"{self.mean:.3f} ({self.lowest:.3f} to {self.highest:.3f})"


def spread(values: Iterable[object]) -> Spread | None:
    """Return the spread of the finite numbers among ``values``, or None where there are none."""
    known = [float(v) for v in values if is_number(v)]  # type: ignore[arg-type]
    if not known:
        return None
    return Spread(mean=statistics.fmean(known), lowest=min(known), highest=max(known))


def rows_used(record: RunRecord) -> str:
    """Return the test rows a headline speaks of: the common ones where they exist, else each party's own."""
    for rows in ROWS:
        if any(is_number(p.solo.get(rows)) or is_number(p.federated.get(rows)) for p in record.parties):
            return rows
    return "common"


def pairs(record: RunRecord, rows: str) -> list[tuple[PartyRecord, float, float]]:
    """Return (party, alone, with the federation) for each party that has both, worst alone first."""
    both = [
        (p, p.solo[rows], p.federated[rows])
        for p in record.parties
        if is_number(p.solo.get(rows)) and is_number(p.federated.get(rows))
    ]
    return sorted(both, key=lambda item: (item[1], item[2], item[0].name))


def means(both: list[tuple[PartyRecord, float, float]]) -> tuple[float, float]:
    """Return the mean alone and the mean with the federation of some `pairs`."""
    return statistics.fmean(alone for _, alone, _ in both), statistics.fmean(after for _, _, after in both)


def simulation_only(record: RunRecord) -> bool:
    """Tell whether accuracies of parties are known only because the run was simulated: noise hid their labels."""
    return record.simulation and any(claim.get("adversary") == "server" for claim in record.claims)


def server_accuracies(record: RunRecord) -> list[float | None]:
    """Return, round by round, the accuracy of the model the server holds, where it was measured."""
    return [r.server_accuracy for r in record.rounds]


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Label bytes per party and round: the mean over rounds, the first round, the mean over later ones.

    None where none are told: a valid reply weighs something, so no bytes up mean that sizes were left out.
    """

    up: float | None
    down: float | None
    up_first: float | None
    up_later: float | None
    total_up: int
    total_down: int


def traffic(record: RunRecord) -> Traffic:
    """Return what labels weighed on the wire, per party that answered (up) or was asked (down)."""
    told = any(r.bytes_up for r in record.rounds)
    ups = [r.bytes_up / len(r.answered) for r in record.rounds if r.answered and told]
    downs = [r.bytes_down / r.asked for r in record.rounds if r.asked > 0 and told]
    return Traffic(
        up=statistics.fmean(ups) if ups else None,
        down=statistics.fmean(downs) if downs else None,
        up_first=ups[0] if ups else None,
        up_later=statistics.fmean(ups[1:]) if len(ups) > 1 else None,
        total_up=sum(r.bytes_up for r in record.rounds),
        total_down=sum(r.bytes_down for r in record.rounds),
    )


def model_sharing(record: RunRecord) -> tuple[float | None, bool]:
    """Return the mean bytes of a party's model, and whether FedAvg exists for these models.

    FedAvg averages weights: every party must have the same model, and that model must have weights.
    """
    sizes = spread(p.model_bytes for p in record.parties)
    kinds = {p.model.lower() for p in record.parties}
    words = re.split(r"[^a-z0-9]+", next(iter(kinds), ""))
    averageable = len(kinds) == 1 and any(word.startswith(_AVERAGEABLE) for word in words)
    return (sizes.mean if sizes else None), averageable


@dataclass(kw_only=True)
class LeftOut:
    """One party, or nameless node, left out for one reason, and the rounds in which that happened."""

    who: str
    code: str
    rounds: list[int] = field(default_factory=list)


def left_out(record: RunRecord) -> list[LeftOut]:
    """Return who was left out and why, one entry per party and reason, in the order of first happening."""
    found: dict[tuple[str, str], LeftOut] = {}
    for r in record.rounds:
        for x in r.rejected:
            who = plain(x.party) if x.party else f"node {plain(x.node_id)} (never said its name)"
            entry = found.setdefault((who, x.code), LeftOut(who=who, code=plain(x.code)))
            entry.rounds.append(r.server_round)
    return list(found.values())


def answered(record: RunRecord) -> str:
    """Return how many parties answered of how many asked, over all rounds."""
    got = [len(r.answered) for r in record.rounds]
    asked = [r.asked for r in record.rounds]
    if not got:
        return "no round was finished"
    every = ", in every round" if len(got) > 1 and min(got) == max(got) else ""
    return f"{_range(got)} answered of {_range(asked)} asked{every}"


def _range(values: list[int]) -> str:
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)} to {max(values)}"


def rounds_text(rounds: list[int]) -> str:
    """Return round numbers with runs of them joined.

    >>> rounds_text([1, 2, 3, 5])
    'rounds 1-3, 5'
    """
    kept = sorted(set(rounds))
    runs: list[list[int]] = []
    for r in kept:
        if runs and runs[-1][-1] == r - 1:
            runs[-1].append(r)
        else:
            runs.append([r])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    return f"round{'s' if len(kept) > 1 else ''} {', '.join(parts)}"
