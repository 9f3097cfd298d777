"""The sections of a run's page below the plots: tables, and the sentences that explain them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from fedkd_flwr.record.run_record import WITHHELD, PartyRecord, RoundRecord, RunRecord
from fedkd_flwr.report import claims, derived, run_privacy
from fedkd_flwr.report.derived import ROWS, SIMULATION_ONLY
from fedkd_flwr.report.formatting import count, is_number, plain, rounds_text, share, size, time_span
from fedkd_flwr.report.html import Html, join, table, tag
from fedkd_flwr.report.reasons import note_sentence, reason_sentence
from fedkd_flwr.report.recommendation import LEAST_ROWS, LEVEL, recommendation
from fedkd_flwr.report.standing import progress

__all__ = ["advice", "again", "columns", "configuration", "left_out", "parties", "privacy", "rounds"]


def columns(record: RunRecord) -> Iterator[Html]:
    """Yield what was done to each column of a simulated table."""
    header = ["column", "read as", "cells repaired", "empty cells", "note"]
    rows = [(c.name or "(file)", c.read_as, f"{c.repaired:,}", f"{c.missing:,}", c.note) for c in record.columns]
    yield table(header, rows, numbers=(2, 3), label="How each column was read")
    yield tag(
        "p", "Rows count from 1 below the header. The notes say by which rule cells were repaired.", class_="soft"
    )


def parties(record: RunRecord) -> Iterator[Html]:
    """Yield a table with one row per party: how good its model is alone, with the federation, and the difference.

    The figure is that of `fedkd_flwr.report.derived.figure_used`, as in the table at the end of the log.
    """
    if not record.parties:
        yield tag("p", "No party is in the record.")
        return
    seen = [r for r in ROWS if any(r in p.solo or r in p.federated for p in record.parties)]
    named = any(p.model for p in record.parties)
    header = ["party", *["model"] * named]
    used = {rows: derived.figure_used(record, rows) for rows in seen}
    after_too = any(is_number(derived.known(p.federated, rows, used[rows])) for p in record.parties for rows in seen)
    where = {rows: _test_rows(record, rows) for rows in seen}
    for rows in seen:
        figure = used[rows].replace("_", " ")
        header += ["own test rows"] * (rows == "own") + [f"{figure} alone, {where[rows]}"]
        header += [f"{figure} with the federation, {where[rows]}", "gain"] * after_too
    weighed = any(p.model_bytes is not None for p in record.parties)
    noted = any(p.notes for p in record.parties)
    if seen and derived.simulation_only(record):
        yield tag("p", f"These figures are computed from private rows. They are {SIMULATION_ONLY}.", class_="warn")
    wide = [r for r in seen if any(r in p.extended for p in record.parties)]
    for rows in wide:
        header += [f"{used[rows].replace('_', ' ')} with own columns too, {where[rows]}", "gain"]
    agreed = any(is_number(p.agreement) for p in record.parties)
    trusted = any(is_number(p.trust) for p in record.parties)
    named_columns = any(p.own_columns for p in record.parties)
    numbers = [*range(1 + named, len(header))]
    header += ["own columns"] * named_columns
    numbers += range(len(header), len(header) + agreed + trusted + weighed)
    header += ["agreement"] * agreed + ["trust"] * trusted + ["model's size"] * weighed + ["notes"] * noted
    body = []
    for party in record.parties:
        cells = [party.name, *[party.model] * named]
        for rows in seen:
            alone, after = (derived.known(one, rows, used[rows]) for one in (party.solo, party.federated))
            known = is_number(alone) and is_number(after)
            gain = f"{after - alone:+.3f}" if known else "–"  # type: ignore[operator]
            cells += [_own_rows(party)] * (rows == "own") + [share(alone)] + [share(after), gain] * after_too
        for rows in wide:
            own_gain = derived.own_gain(party, rows, used[rows])
            extended = share(derived.known(party.extended, rows, used[rows]))
            cells += [extended, "–" if own_gain is None else f"{own_gain:+.3f}"]
        cells += [plain(", ".join(party.own_columns), 200)] * named_columns
        cells += [share(party.agreement)] * agreed + [share(party.trust)] * trusted
        cells += [size(party.model_bytes)] * weighed + [" ".join(map(note_sentence, party.notes))] * noted
        body.append(cells)
    yield table(header, body, numbers=numbers, label="How good each party's models are")
    if seen:
        text = _what_figures(record, used) + (
            " Common rows are one test set for all parties; own rows are a test set of each party's own. Alone (SOLO) "
            "is the party's model trained on its own rows only."
        )
        if not after_too and is_number(record.server_accuracy):
            text += " The result of this run is the server's model; the parties trained none with it."
        yield tag("p", text, class_="soft")
    if wide:
        text = (
            "With own columns too: the party's own final model, which reads the columns that only it has beside the "
            "shared ones, and its gain over the model with the federation. Where they did not help on rows of the "
            "party that were left out in turn, it keeps the model without them, and the gain is 0. The models that "
            "voted read the shared columns alone."
        )
        yield tag("p", text, class_="soft")
    if agreed or trusted:
        text = (
            "Agreement is the share of labelled public rows on which the party's labels were the consensus, in the "
            "round where it was lowest. A party that holds few classes agrees less. Trust is how far the other parties "
            "confirm its answers, 0 to 1, and what they count for; Dawid-Skene estimates each party's errors instead."
        )
        yield tag("p", text, class_="soft")


def _test_rows(record: RunRecord, rows: str) -> str:
    """Return the test rows for a heading: their number too where all parties have the same ones."""
    sizes = {m.n for p in record.parties for one in (p.solo, p.federated) if (m := one.get(rows))}
    return f"{sizes.pop():,} {rows} rows" if rows == "common" and len(sizes) == 1 else f"{rows} rows"


def _own_rows(party: PartyRecord) -> str:
    measured = party.solo.get("own") or party.federated.get("own")
    return "–" if measured is None else f"{measured.n:,}"


def _what_figures(record: RunRecord, used: Mapping[str, str]) -> str:
    """Return what the figures mean, and what one fixed answer reaches."""
    said = []
    if "balanced_accuracy" in used.values():
        which = " and ".join(rows for rows, figure in used.items() if figure == "balanced_accuracy")
        said.append(
            f"Balanced accuracy is the mean recall of the classes that occur in the test rows. It is shown of {which} "
            "rows because a class is rare in them, or because nobody reports an accuracy: a model that gives one class "
            "to all rows may have a high accuracy, but its recall of every other class is 0."
        )
    if "accuracy" in used.values():
        said.append("Accuracy is the share of test rows that a model classifies correctly.")
    fixed = {rows: derived.baseline(record, rows) for rows in used}
    known = [f"{value:.3f} on {rows} rows" for rows, value in fixed.items() if value is not None]
    if known:
        said.append(f"The accuracy of always answering the commonest class is {' and '.join(known)}.")
    return " ".join(said)


def rounds(record: RunRecord, *, publishable: bool = False) -> Iterator[Html]:
    """Yield a table with one row per round: who answered, the figures of the vote, bytes and time."""
    if publishable and not record.length_told:
        asked = record.config.get("num-rounds")
        many = f" ({asked} were configured)" if is_number(asked) and asked else ""
        yield tag(
            "p",
            "Only the first round is shown. Votes that no proven claim covers may have decided how many rounds there "
            f"were, so their number is withheld{many}.",
        )
    if not record.rounds:
        yield tag("p", f"{progress(record).capitalize()}.")
        return
    known = derived.heard(record)
    spreads = [derived.spread(r.accuracy.values()) for r in record.rounds]
    optional = {
        "agreement": [share(r.agreement) for r in record.rounds],
        "rows labelled": [share(r.labelled_share) for r in record.rounds],
        "noise replaced": [share(None if r.kept_share is None else 1 - r.kept_share) for r in record.rounds],
        "labels changed": [share(r.changed_share) for r in record.rounds],
        "consensus right": [_consensus_right(record, r) for r in record.rounds],
        "parties' mean accuracy": [share(spread.mean if spread else None) for spread in spreads],
        "accuracy of the server's model": [share(r.server_accuracy) for r in record.rounds],
    }
    sizes = {
        "up, all parties": [size(r.bytes_up) if r in known else "–" for r in record.rounds],
        "down, all parties": [size(r.bytes_down) for r in record.rounds],
    }
    times = [time_span(r.seconds) for r in record.rounds]
    columns = {
        "round": [str(r.server_round) for r in record.rounds],
        "answered": [f"{len(r.answered) if r in known else 'not known'} of {r.asked}" for r in record.rounds],
        "left out": [str(len(r.rejected)) if r in known else "–" for r in record.rounds],
        **{name: cells for name, cells in optional.items() if set(cells) != {"–"}},
        **(sizes if derived.traffic(record).up is not None else {}),
        **({"time": times} if set(times) != {"–"} else {}),
    }
    rows = zip(*columns.values(), strict=True)
    yield table(list(columns), rows, numbers=range(len(columns)), label="Each round")
    if "parties' mean accuracy" in columns and derived.simulation_only(record):
        yield tag("p", f"The parties' mean accuracy is {SIMULATION_ONLY}.", class_="warn")
    rows_of = {"parties' mean accuracy": derived.rows_used(record), "accuracy of the server's model": "common"}
    tested = dict.fromkeys(rows for name, rows in rows_of.items() if name in columns)
    fixed_answers = [(base, rows) for rows in tested if (base := derived.baseline(record, rows)) is not None]
    if fixed_answers:
        said = " and ".join(f"{base:.3f} on {derived.ROWS[rows]}" for base, rows in fixed_answers)
        yield tag("p", f"The accuracy of always answering the commonest class is {said}.", class_="soft")


def _consensus_right(record: RunRecord, done: RoundRecord) -> str:
    """Return the share of the labelled rows on which the consensus is right, and how many rows that are."""
    found = derived.consensus_rows(record, done)
    of = f" of {found[1]}" if found and is_number(done.consensus_accuracy) else ""
    return share(done.consensus_accuracy) + of


def left_out(record: RunRecord, *, publishable: bool = False) -> Iterator[Html]:
    """Yield who was left out, in which rounds, why, and what can be done about it."""
    found = derived.left_out(record)
    if not derived.heard(record):
        yield tag("p", "No round was finished.")
        return
    if not found:
        which = "the first round" if publishable and not record.length_told else "every round"
        which += " that ended" if record.open_round is not None else ""
        yield tag("p", f"Nobody: every party that was asked gave a valid answer in {which}.")
        return
    yield tag("p", _how_the_vote_went(record, found))
    body = [
        (
            entry.who,
            rounds_text(entry.rounds).replace(" ", "\u00a0", 1),  # keeps "round 1" on one line
            join([tag("code", entry.code)]),
            join([tag("code", entry.failure), tag("br"), reason_sentence(entry.code)])
            if entry.failure
            else reason_sentence(entry.code),
        )
        for entry in found
    ]
    yield table(["party", "when", "code", "what it means, and what to do"], body, label="Parties left out")


def _how_the_vote_went(record: RunRecord, found: Sequence[derived.LeftOut]) -> str:
    """Return whether a vote was held in the rounds in which parties were left out: in one that failed it was not."""
    failed = record.open_round.server_round if record.open_round is not None else None
    rounds = {number for entry in found for number in entry.rounds}
    if failed not in rounds:
        return "In these rounds the vote was held without these parties."
    if rounds == {failed}:
        return "These parties gave no valid answer. The round did not end, and no vote was held in it."
    return f"The vote was held without these parties, but not in round {failed}: it did not end, and had no vote."


def privacy(record: RunRecord) -> Iterator[Html]:
    """Yield the claims, publishable ones first; for a run without claims, what was shared and what it may reveal."""
    if not record.claims:
        if record.rounds:
            yield tag("p", tag("b", f"No privacy guarantee: {run_privacy.no_claim(record)}."))
        for sentence in run_privacy.unprotected(record):
            yield tag("p", sentence)
        return
    found = claims.ordered(record.claims)
    for warning in run_privacy.unproven(found):
        yield tag("p", warning, class_="bad")
    yield tag(
        "p",
        "These are all of this run's statements about privacy. A claim covers what it was computed for and nothing "
        "else. The smaller its epsilon and delta, the stronger it is.",
    )
    for sentence in run_privacy.trust(found):
        yield tag("p", tag("b", sentence))
    for sentence in (*run_privacy.explanations(found), *run_privacy.noise_effect(record)):
        yield tag("p", sentence)
    shown = [claim for claim in found if claims.public(claim)]
    if shown:
        yield tag("h3", "May be passed on")
        yield from _claims(shown, first=1)
    if len(shown) < len(found):
        private = [claim for claim in found if not claims.public(claim)]
        withheld = all(claim.get("epsilon") == WITHHELD for claim in private)
        yield tag("h3", "Numbers withheld" if withheld else "For the operator only")
        if not withheld:
            warning = "The numbers below were computed from private data and reveal something about them."
            yield tag("p", warning, class_="warn")
        yield from _claims(private, first=len(shown) + 1)


def _claims(shown: Sequence[claims.Claim], *, first: int) -> Iterator[Html]:
    """Yield the claims as sentences, then side by side in a table with one row for each heading."""
    yield tag("ol", *(tag("li", claims.claim_meaning(claim)) for claim in shown), start=str(first))
    columns = [claims.claim_cells(claim) for claim in shown]
    headings = list(dict.fromkeys(heading for cells in columns for heading in cells))
    header = ["", *(f"claim {number}" for number in range(first, first + len(shown)))]
    body = [[heading, *(cells.get(heading, "–") for cells in columns)] for heading in headings]
    yield table(header, body, label="Privacy claims")


def advice(record: RunRecord) -> Iterator[Html]:
    """Yield for each party which of its models its own test rows speak for, and the evidence."""
    figure = derived.figure_used(record, "own")
    found = [(p, recommendation(p, classes=record.classes, figure=figure)) for p in record.parties]
    body = [(p.name, one.verdict, one.why) for p, one in found if one is not None]
    if not body:
        yield tag("p", "No party's two models were measured on its own test rows, so nothing can be recommended.")
        return
    yield table(["party", "recommended", "evidence"], body, label="Which model each party should use")
    yield tag(
        "p",
        f"± is the {LEVEL:.0%} confidence interval of one party by itself: of twenty parties that neither gain nor "
        "lose, one is outside it. The warning at the head of the page judges all parties together, and so names fewer. "
        "A difference within the interval may be noise, and nothing is recommended from it, nor from fewer than "
        f"{LEAST_ROWS} rows (of the rarest class, where balanced accuracy decides). At a silo both models lie in the "
        "state-dir, and its owner finds the same advice there.",
        class_="soft",
    )


def again(record: RunRecord) -> Iterator[Html]:
    """Yield the settings that are not the defaults, and the command that repeats the run."""
    number = _number_of_parties(record)
    nodes = f" with {count(number, 'party', 'parties')}" if number else ""
    yield tag(
        "p",
        "Save these lines as ",
        tag("code", "again.toml"),
        f", install the versions listed below, and run{nodes}. The same seed, data and versions give the same "
        "consensus and model. Only privacy noise differs: it is drawn anew in each run.",
        " All other settings had their defaults; the section Configuration lists them too."
        if record.changed is not None
        else "",
    )
    told = record.config if record.changed is None else {*record.changed, "algorithm", "seed"}
    lines = "\n".join(
        f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in record.config.items()
        if _flat(value) and key in told
    )
    yield tag("pre", tag("code", lines or "# the record holds no configuration"))
    size = f' --federation-config "num-supernodes={number} client-resources-num-cpus=1"' if number else ""
    command = f"flwr run . --run-config again.toml --stream{size if record.simulation else ''}"
    simulate = f"fedkd simulate again.toml{f' --parties {number}' if number else ''}"
    ours = simulate if record.simulation else "fedkd run again.toml"
    yield tag("pre", tag("code", f"{ours}\n# or, in the folder of a Flower app:\n{command}"))


def _number_of_parties(record: RunRecord) -> int:
    """Return how many parties a run had; 0 if that is not known. One that was killed has heard of none by name."""
    said = record.config.get("num-parties")
    configured = said if isinstance(said, int) else 0
    return max(configured, len(record.parties), *(one.asked for one in record.rounds), 0)


def _flat(value: object) -> bool:
    return isinstance(value, str | bool | int) or is_number(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", key) else json.dumps(key, ensure_ascii=False)


def configuration(record: RunRecord) -> Iterator[Html]:
    """Yield tables of the settings, of the run's data, and of package versions."""
    settings = record.config.items()
    rows = [(key, value if isinstance(value, str) else json.dumps(value, default=str)) for key, value in settings]
    names = f": {', '.join(map(str, record.classes))}" if record.classes else ""
    about = [
        ("seed", str(record.seed)),
        ("public rows", f"{record.num_public:,}"),
        ("classes", f"{record.num_classes}{names}"),
        ("fingerprint of the public set", record.fingerprint or "–"),
    ]
    yield table(["setting", "value"], rows, label="Configuration")
    yield table(["run", ""], about, label="The run's data")
    yield table(["package", "version"], list(record.versions.items()), label="Versions")
