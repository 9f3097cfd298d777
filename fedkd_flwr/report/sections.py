"""The page's sections below the plots: tables and the sentences that belong to them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from fedkd_flwr.report import facts, words
from fedkd_flwr.report.facts import ROWS, share, size
from fedkd_flwr.report.markup import Html, join, table, tag
from fedkd_flwr.run_record import RunRecord

__all__ = ["again", "configuration", "left_out", "parties", "privacy", "rounds"]


def parties(record: RunRecord) -> Iterator[Html]:
    """Yield one row per party: alone, with the federation, and what it gained."""
    if not record.parties:
        yield tag("p", "No party is in the record.")
        return
    seen = [r for r in ROWS if any(r in p.solo or r in p.federated for p in record.parties)]
    header = ["party", "model"]
    for rows in seen:
        header += [f"alone, {rows} rows", f"with the federation, {rows} rows", "gain"]
    weighed = any(p.model_bytes is not None for p in record.parties)
    noted = any(p.notes for p in record.parties)
    numbers = range(2, len(header) + weighed)
    header += ["model's size"] * weighed + ["notes"] * noted
    body = []
    for party in record.parties:
        cells = [party.name, party.model]
        for rows in seen:
            alone, after = party.solo.get(rows), party.federated.get(rows)
            known = facts.is_number(alone) and facts.is_number(after)
            gain = f"{after - alone:+.3f}" if known else "–"  # type: ignore[operator]
            cells += [share(alone), share(after), gain]
        cells += [size(party.model_bytes)] * weighed + ["; ".join(party.notes)] * noted
        body.append(cells)
    yield table(header, body, numbers=numbers, label="Each party's accuracy")
    if seen:
        yield tag(
            "p",
            "Accuracy is the share of test rows that are right. Common rows: one test set for all; own rows: a test "
            "set of each party's own. Alone (SOLO): the party's model fitted on its own rows only.",
            class_="soft",
        )


def rounds(record: RunRecord) -> Iterator[Html]:
    """Yield one row per round: who answered, how the vote went, bytes and time."""
    if not record.rounds:
        yield tag("p", "No round was finished.")
        return
    optional = {
        "agreement": [share(r.agreement) for r in record.rounds],
        "rows labelled": [share(r.labelled_share) for r in record.rounds],
        "labels changed": [share(r.changed_share) for r in record.rounds],
        "consensus right": [share(r.consensus_accuracy) for r in record.rounds],
        "parties' mean accuracy": [
            share(s.mean if (s := facts.spread(r.accuracy.values())) else None) for r in record.rounds
        ],
    }
    columns = {
        "round": [str(r.server_round) for r in record.rounds],
        "answered": [f"{len(r.answered)} of {r.asked}" for r in record.rounds],
        "left out": [str(len(r.rejected)) for r in record.rounds],
        **{name: cells for name, cells in optional.items() if set(cells) != {"–"}},
        "up, all parties": [size(r.bytes_up) for r in record.rounds],
        "down, all parties": [size(r.bytes_down) for r in record.rounds],
    }
    times = [facts.time_span(r.seconds) for r in record.rounds]
    if set(times) != {"–"}:
        columns["time"] = times
    rows = zip(*columns.values(), strict=True)
    yield table(list(columns), rows, numbers=range(len(columns)), label="Each round")


def left_out(record: RunRecord) -> Iterator[Html]:
    """Yield who was left out, when and why, with the way out."""
    found = facts.left_out(record)
    if not record.rounds:
        yield tag("p", "No round was finished.")
        return
    if not found:
        yield tag("p", "Nobody: every party that was asked gave a valid answer in every round.")
        return
    yield tag("p", "The vote went on without these parties in the rounds named.")
    body = [
        (entry.who, facts.rounds_text(entry.rounds), join([tag("code", entry.code)]), words.reason_sentence(entry.code))
        for entry in found
    ]
    yield table(["party", "when", "code", "what it means, and the way out"], body, label="Parties left out")


def privacy(record: RunRecord) -> Iterator[Html]:
    """Yield the claims in full and in words; without claims, what was shared and what it may reveal."""
    if not record.claims:
        yield tag("p", tag("b", "No privacy guarantee: labels are shared as they are (no noise)."))
        for sentence in words.unprotected(record):
            yield tag("p", sentence)
        return
    yield tag(
        "p",
        "What this run states about privacy, in full. A claim covers what it was computed for and nothing else; "
        "the smaller epsilon, the stronger it is.",
    )
    cells = [words.claim_cells(claim) for claim in record.claims]
    header = list(dict.fromkeys(heading for row in cells for heading in row))
    body = [[row.get(heading, "–") for heading in header] for row in cells]
    yield table(header, body, label="Privacy claims")
    yield tag("p", tag("b", "In words:"))
    yield tag("ol", *(tag("li", words.claim_meaning(claim)) for claim in record.claims))
    yield tag(
        "p",
        "Proven: follows from the noise that was added. Assumed or estimated sensitivity: holds only if the data "
        "change the labels no more than was assumed.",
        class_="soft",
    )


def again(record: RunRecord) -> Iterator[Html]:
    """Yield the lines and the command that repeat the run."""
    nodes = facts.count(len(record.parties), "party", "parties")
    yield tag(
        "p",
        "Save these lines as ",
        tag("code", "again.toml"),
        f", install the versions listed below, and run with {nodes}. The same seed, data and versions give the same "
        "consensus and model; noise for privacy is drawn anew.",
    )
    lines = "\n".join(
        f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}" for key, value in record.config.items() if _flat(value)
    )
    yield tag("pre", tag("code", lines or "# the record holds no configuration"))
    size = f' --federation-config "num-supernodes={len(record.parties)} client-resources-num-cpus=1"'
    command = f"flwr run . --run-config again.toml --stream{size if record.simulation else ''}"
    yield tag("pre", tag("code", command))


def _flat(value: object) -> bool:
    return isinstance(value, str | bool | int) or facts.is_number(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def configuration(record: RunRecord) -> Iterator[Html]:
    """Yield settings, the run's data, and versions."""
    rows = [
        (key, value if isinstance(value, str) else json.dumps(value, default=str))
        for key, value in record.config.items()
    ]
    about = [
        ("seed", str(record.seed)),
        ("public rows", f"{record.num_public:,}"),
        (
            "classes",
            f"{record.num_classes}: {', '.join(map(str, record.classes))}"
            if record.classes
            else str(record.num_classes),
        ),
        ("fingerprint of the public set", record.fingerprint or "–"),
    ]
    yield table(["setting", "value"], rows, label="Configuration")
    yield table(["run", ""], about, label="The run's data")
    yield table(["package", "version"], list(record.versions.items()), label="Versions")
