"""The tables of a run's page, and what stands below them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.privacy.rounding import bound_text, least_text
from fedkd_flwr.record.run_record import AttackFigures, AuditRecord, Measured, PartyRecord, RoundRecord, RunRecord
from fedkd_flwr.report import results, traffic
from fedkd_flwr.report.claims import Claim, claim_cells
from fedkd_flwr.report.formatting import is_number, share, size, time_span
from fedkd_flwr.report.html import Table
from fedkd_flwr.report.recommendation import LEAST_ROWS, advice
from fedkd_flwr.report.sentences import note_sentence

__all__ = [
    "attack_table",
    "attacked_claims",
    "claims",
    "columns",
    "configuration",
    "figures_explained",
    "fixed_answers",
    "found_texts",
    "interval_text",
    "lack_probabilities",
    "metrics",
    "metrics_by_class",
    "metrics_of_fewer",
    "parties",
    "public_set_fit",
    "rounds",
]

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
        found += [("own test rows", [_own_rows(p) for p in record.parties])] if rows == "own" else []
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
    found += [
        ("better model", [advice(p, results.figure_used(record, "own"))[0] for p in record.parties]),
        ("agreement", [share(p.agreement) for p in record.parties]),
        ("trust", [share(p.trust) for p in record.parties]),
        ("model's size", [size(p.model_bytes) for p in record.parties]),
        ("notes", [" ".join(map(note_sentence, p.notes)) for p in record.parties]),
    ]
    return _table("How good each party's models are", found, texts=("party", "model", "better model", "notes"))


def _both(record: RunRecord, rows: str, figure: str) -> list[tuple[float | None, float | None]]:
    return [(results.known(p.solo, rows, figure), results.known(p.federated, rows, figure)) for p in record.parties]


def _test_rows(record: RunRecord, rows: str) -> str:
    """Return the test rows for a heading: their number too where all parties have the same ones."""
    sizes = {m.n for p in record.parties for one in (p.solo, p.federated) if (m := one.get(rows))}
    return f"{sizes.pop():,} {rows} rows" if rows == "common" and len(sizes) == 1 else f"{rows} rows"


def _own_rows(party: PartyRecord) -> str:
    measured = party.solo.get("own") or party.federated.get("own")
    return "–" if measured is None else f"{measured.n:,}"


def figures_explained(record: RunRecord) -> str:
    """Return what the figures of the parties' table mean, and what one fixed answer reaches."""
    used = {rows: results.figure_used(record, rows) for rows in results.rows_measured(record)}
    found = []
    if "balanced_accuracy" in used.values():
        which = " and ".join(rows for rows, figure in used.items() if figure == "balanced_accuracy")
        found.append(
            f"Balanced accuracy is the mean recall of the classes that occur in the test rows. It is shown of {which} "
            "rows because a class is rare in them, or because nobody reports an accuracy: a model that gives one class "
            "to all rows may have a high accuracy, but its recall of every other class is 0."
        )
    if "r2" in used.values():
        found.append(
            "R2 is the share of the label's variance that a model explains: 1 is perfect, 0 is always answering the "
            "mean of the test rows. RMSE is the root of the mean squared error and MAE the mean absolute error, both "
            "in the label's unit; less is better."
        )
    if "accuracy" in used.values():
        found.append("Accuracy is the share of test rows that a model classifies correctly.")
    known = [f"{base:.3f} on {rows} rows" for rows in used if (base := results.baseline(record, rows)) is not None]
    if known:
        found.append(f"The accuracy of always answering the commonest class is {' and '.join(known)}.")
    found.append(
        "Common rows are one test set for all parties; own rows are a test set of each party's own. Alone (SOLO) is "
        "the party's model trained on its own rows only."
    )
    after = any(is_number(results.known(p.federated, r, f)) for p in record.parties for r, f in used.items())
    if not after and is_number(record.server_accuracy):
        found.append("The result of this run is the server's model; the parties trained none with it.")
    if any(d.get("own") and s.get("own") for d, s in ((p.solo, p.federated) for p in record.parties)):
        found.append(
            "A better model is named where own rows show a gain or loss beyond its 95 % interval, on "
            f"{LEAST_ROWS} rows or more (of the rarest class, where balanced accuracy decides)."
        )
    return " ".join(found)


def rounds(record: RunRecord) -> Table:
    """Return one row per round: who answered, the figures of the vote, bytes and time."""
    known = traffic.known_rounds(record)
    means = [results.spread(r.accuracy.values()) for r in record.rounds]
    sized = traffic.traffic(record).up is not None
    found: _Columns = [
        ("round", [str(r.server_round) for r in record.rounds]),
        ("answered", [f"{len(r.answered) if r in known else 'not known'} of {r.asked}" for r in record.rounds]),
        ("left out", [str(len(r.rejected)) if r in known else "–" for r in record.rounds]),
        ("agreement", [share(r.agreement) for r in record.rounds]),
        ("rows labelled", [share(r.labelled_share) for r in record.rounds]),
        ("noise replaced", [share(None if r.kept_share is None else 1 - r.kept_share) for r in record.rounds]),
        ("labels changed", [share(r.changed_share) for r in record.rounds]),
        ("consensus right", [_consensus_right(record, r) for r in record.rounds]),
        ("parties' mean accuracy", [share(mean.mean if mean else None) for mean in means]),
        ("accuracy of the server's model", [share(r.server_accuracy) for r in record.rounds]),
        ("up, all parties", [size(r.bytes_up) if r in known and sized else "–" for r in record.rounds]),
        ("down, all parties", [size(r.bytes_down) if sized else "–" for r in record.rounds]),
        ("time", [time_span(r.seconds) for r in record.rounds]),
    ]
    return _table("Each round", found)


def _consensus_right(record: RunRecord, done: RoundRecord) -> str:
    """Return the share of the labelled rows on which the consensus is right, and how many rows that are."""
    found = results.consensus_rows(record, done)
    of = f" of {found[1]}" if found and is_number(done.consensus_accuracy) else ""
    return share(done.consensus_accuracy) + of


def fixed_answers(record: RunRecord, shown: Table) -> str:
    """Return the accuracy of always answering the commonest class, on the test rows of the table of rounds."""
    rows_of = {"parties' mean accuracy": results.rows_used(record), "accuracy of the server's model": "common"}
    tested = dict.fromkeys(rows for name, rows in rows_of.items() if name in shown.header)
    known = [(base, rows) for rows in tested if (base := results.baseline(record, rows)) is not None]
    return " and ".join(f"{base:.3f} on {results.ROWS[rows]}" for base, rows in known)


def metrics(record: RunRecord, who: Mapping[str, str] = _WHO) -> Table:
    """Return all metrics of every kind of model; ``who`` names the kinds."""
    shown = results.figures_shown(record)
    rows = [
        [f"{who[one.who]}, {one.rows}", f"{one.n:,}", *(results.written(one.means.get(name), name) for name in shown)]
        for one in results.figures(record)
    ]
    return Table("Means of all metrics", ["metrics (means)", "n", *shown.values()], rows, range(1, len(shown) + 2))


def metrics_of_fewer(record: RunRecord) -> list[str]:
    """Return sentences on metrics that only some parties have."""
    return results.of_fewer(results.figures(record), _WHO)


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
    body = [
        [
            record.classes[c] if c < len(record.classes) else str(c),
            _support(kinds, rows, c),
            *(_mean(ms, name, c) for _, ms in kinds for name in names),
        ]
        for c in range(num_classes if num_classes <= _MANY_CLASSES else 0)
    ]
    return Table("Metrics by class", header, body, range(1, len(header)))


def _support(kinds: list[tuple[str, list[Metrics]]], rows: str, c: int) -> str:
    """Return the number of test rows of a class: of all parties together, if each has its own."""
    known = [[n for m in ms if m.support and (n := m.support[c]) is not None] for _, ms in kinds]
    totals = [sum(counts) if rows == "own" else max(counts) for counts in known if counts]
    return f"{max(totals):,}" if totals else "–"


def _mean(ms: list[Metrics], figure: str, c: int) -> str:
    known = [getattr(m, figure)[c] for m in ms if getattr(m, figure) and m.support[c]]
    return share(sum(known) / len(known)) if known else "–"


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


def attack_table(found: AuditRecord) -> Table:
    """Return how well an attacker who saw all that left told members from fresh rows."""
    rows = [_attacked("all parties", found.everybody), *(_attacked(name, of) for name, of in found.parties.items())]
    header = ["", "members", "attack AUC", "found at 1 % false alarms", "at 0.1 %"]
    return Table("What the attack found", header, rows, range(1, 5))


def attacked_claims(found: AuditRecord) -> Table:
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


def _attacked(name: str, of: AttackFigures) -> list[str]:
    return [name, f"{of.members:,}", interval_text(of.auc), *found_texts(of)]


def found_texts(of: AttackFigures) -> tuple[str, str]:
    """Return the shares of members found at 1 % and 0.1 % false alarms; a dash where there are too few fresh rows."""
    at_percent, at_permille = interval_text(of.found_at_1_percent), interval_text(of.found_at_1_permille)
    return at_percent if of.fresh >= 100 else "–", at_permille if of.fresh >= 1000 else "–"


def interval_text(of: Measured) -> str:
    """Return a figure with its interval."""
    return f"{of.value:.3f} ({of.low:.3f} to {of.high:.3f})"
