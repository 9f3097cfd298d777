"""The tables of a run's page, and what stands below them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from fedkd_flwr.privacy.rounding import bound_text, least_text
from fedkd_flwr.record.run_record import AttackFigures, AuditRecord, Measured, RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.claims import Claim, claim_cells
from fedkd_flwr.report.formatting import is_number, share, size, time_span
from fedkd_flwr.report.html import Table
from fedkd_flwr.report.recommendation import LEAST_ROWS, advice
from fedkd_flwr.report.sentences import note_sentence
from fedkd_flwr.report.summary import known_rounds, traffic

__all__ = ["FIGURES_EXPLAINED", "audit_text", "claims", "columns", "configuration", "fixed_answers"]
__all__ += ["lack_probabilities", "metrics", "metrics_by_class", "parties", "public_set_fit", "rounds"]

_WHO = {
    "alone": "alone (SOLO)",
    "federated": "with the federation",
    "server": "server's model",
    "centralised": "centralised",
}
_MANY_CLASSES = 100
_Columns = list[tuple[str, list[str]]]


def _table(label: str, columns: _Columns, *, texts: Sequence[str] = ()) -> Table:
    """Return a table of the columns that hold anything; all but the ``texts`` are numbers."""
    kept = [(name, cells) for i, (name, cells) in enumerate(columns) if not i or set(cells) - {"–", ""}]
    numbers = [i for i, (name, _) in enumerate(kept) if name not in texts]
    return Table(label, [name for name, _ in kept], list(zip(*(cells for _, cells in kept), strict=True)), numbers)


def public_set_fit(record: RunRecord) -> Table:
    """Return how well the public rows fit each party's own, the worst first."""
    known = [(fit, p.name) for p in record.parties if (fit := p.public_fit) is not None and is_number(fit)]
    rows = [(name, share(fit)) for fit, name in sorted(known)]
    return Table("How well the public rows fit each party", ["party", "public set fit"], rows, (1,))


def columns(record: RunRecord) -> Table:
    """Return what was done to each column of a simulated table."""
    rows = [(c.name or "(file)", c.read_as, f"{c.repaired:,}", f"{c.missing:,}", c.note) for c in record.columns]
    header = ["column", "read as", "cells repaired", "empty cells", "note"]
    return Table("How each column was read", header, rows, (2, 3))


def claims(shown: Sequence[Claim], first: int) -> Table:
    """Return privacy claims side by side, with one row for each heading."""
    cells = [claim_cells(claim) for claim in shown]
    headings = dict.fromkeys(heading for one in cells for heading in one)
    header = ["", *(f"claim {number}" for number in range(first, first + len(shown)))]
    return Table("Privacy claims", header, [[key, *(one.get(key, "–") for one in cells)] for key in headings])


def parties(record: RunRecord) -> Table:
    """Return how good each party's model is alone, with the federation, and the difference.

    The figure is that of `fedkd_flwr.report.results.figure_used`, as in the table at the end of the log.
    """
    found: _Columns = [("party", [p.name for p in record.parties]), ("model", [p.model for p in record.parties])]
    for rows in results.ROWS:
        figure = results.figure_used(record, rows)
        both = _both(record, rows, figure)
        where, name = _test_rows(record, rows), results.figure_name(figure)
        if rows == "own":
            measured = [p.solo.get("own") or p.federated.get("own") for p in record.parties]
            found += [("own test rows", [f"{m.n:,}" if m else "–" for m in measured])]
        found += [
            (f"{name} alone, {where}", [share(alone) for alone, _ in both]),
            (f"{name} with the federation, {where}", [share(after) for _, after in both]),
            ("gain", ["–" if alone is None or after is None else f"{after - alone:+.3f}" for alone, after in both]),
        ]
        for error in results.OF_NUMBERS[1:] if figure == "r2" else ():
            both, name = _both(record, rows, error), results.FIGURES[error]
            found += [
                (f"{name} alone, {where}", [results.written(alone, error) for alone, _ in both]),
                (f"{name} with the federation, {where}", [results.written(after, error) for _, after in both]),
            ]
    weighed = {p.model: p.model_bytes for p in record.parties if p.model_bytes}  # simulated: one of each kind
    found += [
        ("better model", [advice(p, results.figure_used(record, "own"))[0] for p in record.parties]),
        ("rows by class", [" ".join(f"{n:,}" for n in p.class_counts[:_MANY_CLASSES]) for p in record.parties]),
        ("agreement", [share(p.agreement) for p in record.parties]),
        ("trust", [share(p.trust) for p in record.parties]),
        ("size of such a model", [size(p.model_bytes or weighed.get(p.model)) for p in record.parties]),
        ("notes", [" ".join(map(note_sentence, p.notes)) for p in record.parties]),
    ]
    return _table("How good each party's models are", found, texts=("party", "model", "better model", "notes"))


def _both(record: RunRecord, rows: str, figure: str) -> list[tuple[float | None, float | None]]:
    return [(results.known(p.solo, rows, figure), results.known(p.federated, rows, figure)) for p in record.parties]


def _test_rows(record: RunRecord, rows: str) -> str:
    """Return the test rows for a heading: their number too where all parties have the same ones."""
    sizes = {m.n for p in record.parties for one in (p.solo, p.federated) if (m := one.get(rows))}
    return f"{sizes.pop():,} {rows} rows" if rows == "common" and len(sizes) == 1 else f"{rows} rows"


FIGURES_EXPLAINED = (
    "Common rows are one test set for all parties; there models of the federation answer for the class shares of its "
    "labels (fedkd predict --class-shares common), with noise as they were taught, as in each round. Own rows are each "
    "party's test rows, answered for its own shares. Alone (SOLO) is the party's model trained on its own rows only. "
    "Accuracy is the share of test rows that are classified correctly, balanced accuracy, shown where a "
    "class is rare, the mean recall of the classes. R2 is the share of the label's variance that a model explains. "
    "RMSE and MAE (mean absolute error) are in the label's unit. A better model is named where own rows show a gain or "
    f"loss beyond its 95 % interval, on {LEAST_ROWS} rows or more (of the rarest class, where one is rare)."
)


def fixed_answers(record: RunRecord) -> str:
    """Return what always answering the commonest class reaches on each kind of test rows, as a clause."""
    known = [(base, rows) for rows in results.ROWS if (base := results.baseline(record, rows)) is not None]
    return " and ".join(f"{base:.3f} on {results.ROWS[rows]}" for base, rows in known)


def rounds(record: RunRecord) -> Table:
    """Return one row per round: who answered, the figures of the vote, bytes and time."""
    known = known_rounds(record)
    means = [results.spread(r.accuracy.values()) for r in record.rounds]
    sized = traffic(record)[0] is not None
    found: _Columns = [
        ("round", [str(r.server_round) for r in record.rounds]),
        ("answered", [f"{len(r.answered) if r in known else 'not known'} of {r.asked}" for r in record.rounds]),
        ("left out", [str(len(r.rejected)) if r in known else "–" for r in record.rounds]),
        ("agreement", [share(r.agreement) for r in record.rounds]),
        ("rows labelled", [share(r.labelled_share) for r in record.rounds]),
        ("noise replaced", [share(None if r.kept_share is None else 1 - r.kept_share) for r in record.rounds]),
        ("labels changed", [share(r.changed_share) for r in record.rounds]),
        ("consensus right", [share(r.consensus_accuracy) for r in record.rounds]),
        ("parties' mean accuracy", [share(mean.mean if mean else None) for mean in means]),
        ("accuracy of the server's model", [share(r.server_accuracy) for r in record.rounds]),
        ("up, all parties", [size(r.bytes_up) if r in known and sized else "–" for r in record.rounds]),
        ("down, all parties", [size(r.bytes_down) if sized else "–" for r in record.rounds]),
        ("time", [time_span(r.seconds) for r in record.rounds]),
    ]
    return _table("Each round", found)


def metrics(record: RunRecord, who: Mapping[str, str] = _WHO) -> Table:
    """Return all metrics of every kind of model; ``who`` names the kinds."""
    shown = results.figures_shown(record)
    rows = [
        [f"{who[one.who]}, {one.rows}", f"{one.n:,}", *(one.text(name) for name in shown)]
        for one in results.figures(record)
    ]
    return Table("Means of all metrics", ["metrics (means)", "n", *shown.values()], rows, range(1, len(shown) + 2))


def lack_probabilities(record: RunRecord) -> bool:
    """Tell whether some model gives no probabilities."""
    return any(m.no_probabilities for _, every in results.models(record) for one in every for m in one.values())


def metrics_by_class(record: RunRecord) -> Table:
    """Return recall, precision and F1 of each class, where there are not too many."""
    rows = results.rows_used(record)
    kinds = [(who, ms) for who, every in results.models(record) if (ms := [m[rows] for m in every if rows in m])]
    num_classes = max((len(m.recall or m.precision or m.f1) for _, ms in kinds for m in ms), default=0)
    names = ("recall", "precision", "f1")
    header = ["class", "number of rows", *(f"{name}, {_WHO[who]}" for who, _ in kinds for name in names)]
    body = []
    for c in range(num_classes if num_classes <= _MANY_CLASSES else 0):
        held = [[n for m in ms if m.support and (n := m.support[c]) is not None] for _, ms in kinds]
        total = max((sum(counts) if rows == "own" else max(counts) for counts in held if counts), default=None)
        means = [
            results.spread(getattr(m, name)[c] for m in ms if getattr(m, name) and m.support[c])
            for _, ms in kinds
            for name in names
        ]
        cells = [share(mean and mean.mean) for mean in means]
        body.append([results.class_name(record.classes, c), "–" if total is None else f"{total:,}", *cells])
    return Table("Metrics by class", header, body, range(1, len(header)))


def configuration(record: RunRecord) -> list[Table]:
    """Return the settings, the run's data, and the versions of packages."""
    settings = [(key, v if isinstance(v, str) else json.dumps(v, default=str)) for key, v in record.config.items()]
    names = f": {', '.join(map(str, record.classes))}" if record.classes else ""
    data = [
        ("seed", str(record.seed)),
        ("public rows", f"{record.num_public:,}"),
        ("classes", f"{record.num_classes}{names}"),
        ("fingerprint of the public set", record.fingerprint or "–"),
    ]
    return [
        Table("Configuration", ["setting", "value"], settings),
        Table("The run's data", ["run", ""], data),
        Table("Versions", ["package", "version"], list(record.versions.items())),
    ]


def audit_text(found: AuditRecord) -> str:
    """Return what an attack found as a table of plain text; claims rounded up, what is proven rounded down."""

    def cell(of: Measured) -> str:
        return f"{of.value:.3f} ({of.low:.3f} to {of.high:.3f})"

    def row(name: str, of: AttackFigures) -> str:
        at_percent = cell(of.found_at_1_percent) if of.fresh >= 100 else "–"
        at_permille = cell(of.found_at_1_permille) if of.fresh >= 1000 else "–"
        return f"{name:<14} {of.members:>8} {of.fresh:>6} {cell(of.auc):<24}  {at_percent:<24}  {at_permille}"

    lines = [
        f"sent: {', '.join(found.sent)}; likelihood ratios over {found.shadows} shadow runs",
        f"{'':<14} {'members':>8} {'fresh':>6} {'attack AUC':<24}  {'found at 1 % FPR':<24}  found at 0.1 % FPR",
        row("all parties", found.everybody),
        *(row(name, of) for name, of in found.parties.items()),
        f"without shadow runs: AUC {cell(found.without_shadows)}",
        *(
            f"claimed epsilon {bound_text(of.epsilon)} at delta {bound_text(of.delta)} ({of.unit}): "
            f"the attack proves {least_text(of.proven)}"
            for of in found.claims
        ),
        "FPR: share of fresh rows called members; a dash stands where they are too few to say.",
        "0.5 is guessing. An attack shows what leaks at least; only a claim says at most.",
    ]
    return "\n".join(lines)
