"""Privacy claims in words a data-protection officer can read: who, against whom, trusting whom, and how far.

A claim arrives as `PrivacyClaim.as_dict` wrote it (docs/privacy.md), perhaps from a file: any key may be missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedkd_flwr.report.facts import is_number, plain
from fedkd_flwr.run_record import WITHHELD, RunRecord

__all__ = [
    "CLAIM_FIELDS",
    "bound_text",
    "bounded",
    "claim_cells",
    "claim_meaning",
    "claim_words",
    "explanations",
    "headline",
    "noise_effect",
    "ordered",
    "public",
    "side",
    "trust",
    "unproven",
]

Claim = dict[str, Any]

CLAIM_FIELDS = (
    "protects",
    "against",
    "trusted for it",
    "epsilon",
    "delta",
    "data sets compared",
    "basis",
    "may be passed on",
    "noise",
)

_WHO = {"record": "one record (one row) of one party", "party": "everything one party holds"}
_WATCHERS = {
    "server": "the server, which sees every reply, and all who get something from it",
    "everyone who sees the result": "everyone who sees the result, the other parties too; but not the server",
}
_TRUSTED = {
    "server": "the party's own software alone, which adds the noise before anything leaves; not the server",
    "everyone who sees the result": "the server, which sees the labels without noise and adds it",
}
_NOBODY = "nobody: nothing is promised"
_BASES = {
    "proven": "proven: follows from the noise that was added",
    "assumed sensitivity": "NOT proven: an assumption about the data",
    "estimated sensitivity": "NOT proven: an estimate from the data",
}


def _named(claim: Claim) -> dict[str, Any]:
    named = {key.lower().replace("_", " ").replace("-", " "): value for key, value in claim.items()}
    if "neighboring relation" in named:
        named.setdefault("neighbouring relation", named.pop("neighboring relation"))
    return named


def bounded(claim: Claim) -> bool:
    """Tell whether a claim promises anything: a finite epsilon on some basis."""
    return is_number(claim.get("epsilon")) and not str(claim.get("basis", "none")).startswith("none")


def public(claim: Claim) -> bool:
    """Tell whether a claim's numbers may be passed on."""
    return claim.get("publishable") is True


def side(claim: Claim) -> str:
    """Return where the noise is added: ``party`` where the claim holds against the server, else ``server``."""
    return "party" if claim.get("adversary") == "server" else "server"


def ordered(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims as they are read: publishable ones first, one record before a whole party, least epsilon."""

    def place(claim: Claim) -> tuple[bool, bool, float]:
        return not public(claim), claim.get("unit") != "record", _number(claim.get("epsilon"), math.inf)

    return sorted(claims, key=place)


def claim_cells(claim: Claim) -> dict[str, str]:
    """Return one claim as heading -> text; keys no heading knows are kept at the end.

    >>> claim_cells({"unit": "party", "epsilon": None})["epsilon"]
    'no bound'
    """
    named = _named(claim)
    unit, adversary, basis = (str(named.pop(key, "–")) for key in ("unit", "adversary", "basis"))
    trusted = str(named.pop("protects from", "–"))
    epsilon, delta = named.pop("epsilon", None), named.pop("delta", None)
    cells = {
        "protects": _WHO.get(unit, unit),
        "against": _WATCHERS.get(adversary, adversary),
        "trusted for it": _TRUSTED.get(adversary, trusted) if bounded(claim) or epsilon == WITHHELD else _NOBODY,
        "epsilon": bound_text(epsilon),
        "delta": bound_text(delta) + (f" ({_small(rare)})" if 0 < (rare := _number(delta)) < 0.1 else ""),
        "data sets compared": str(named.pop("neighbouring relation", "–")),
        "basis": _BASES.get(basis, basis),
        "may be passed on": "yes: computed without looking at private data"
        if named.pop("publishable", None) is True
        else "no: for the operator only",
        "noise": str(named.pop("mechanism", "–")),
    }
    if notes := named.pop("notes", ""):
        cells["notes"] = str(notes)
    return {key: plain(value) for key, value in (cells | {str(k): str(v) for k, v in named.items()}).items()}


def _number(value: Any, otherwise: float = 0.0) -> float:
    return float(value) if is_number(value) else otherwise


def bound_text(value: object) -> str:
    """Return a bound with four figures, rounded up so that it stays one; ``no bound`` where there is none.

    >>> bound_text(8.0), bound_text(24.3214), bound_text(1e-05), bound_text(None)
    ('8', '24.33', '1e-05', 'no bound')
    """
    if not is_number(value):
        return value if isinstance(value, str) else "no bound"  # infinity is null in JSON
    exact = _number(value)
    nearest = float(f"{exact:.4g}")
    step = 10.0 ** (math.floor(math.log10(abs(exact))) - 3) if exact else 0.0
    return f"{nearest if nearest >= exact else nearest + step:.4g}"


def _small(probability: float) -> str:
    return f"1 in {math.floor((1 + 1e-9) / probability):,}" if probability < 0.1 else bound_text(probability)


def _factor(odds: float) -> str:
    if odds < 10:
        return f"{math.ceil(odds * 100 - 1e-9) / 100:.2f}"
    return f"{math.ceil(odds):,}" if odds < 1e6 else "more than a million"


def _question(claim: Claim) -> str:
    """Return what the two data sets of a claim leave open, as a question the adversary asks."""
    relation = plain(_named(claim).get("neighbouring relation", ""))
    unit = claim.get("unit")
    if unit == "record":
        return "whether one record is in the data" + (", or another in its place" if "replace" in relation else "")
    if relation.startswith("a change") and "at most" in relation:
        changed = relation.split("changes ", 1)[-1].partition(" (")[0]
        return f"whether a party holds its data, or other data that changes {changed}"
    if unit == "party":
        return "whether one party takes part with what it holds, or with any other data"
    return f"whether one {plain(unit)} is in the data"


def claim_meaning(claim: Claim) -> str:
    """Return one claim as sentences for a reader who does not know differential privacy.

    Notes
    -----
    An (epsilon, delta) guarantee is that of a mechanism which tells all with probability delta and else shifts odds by
    at most ``exp(epsilon)`` (Kairouz, Oh and Viswanath 2015, Theorem 3.1). A guess between two cases that are equally
    likely beforehand is right with a probability of at most ``(exp(epsilon) + delta) / (exp(epsilon) + 1)``.
    """
    epsilon, delta = claim.get("epsilon"), claim.get("delta")
    watcher = {
        "server": "the server, and to all who get something from it",
        "everyone who sees the result": "everyone who sees the result, but not to the server",
    }.get(str(claim.get("adversary")), plain(claim.get("adversary", "anybody")))
    if epsilon == WITHHELD:
        return "The numbers of this claim depend on private data: the operator knows them, they are not published."
    if not bounded(claim):
        return f"No guarantee: nothing is proven about what is told to {watcher}, on {_question(claim)}."
    odds = math.exp(min(_number(epsilon), 700.0))
    text = (
        f"What was released to {watcher}, shifts the odds on the question {_question(claim)}, "
        f"by a factor of at most {_factor(odds)}"
    )
    failing = _number(delta)
    if failing > 0:
        text += f", except with a probability of {_small(failing)}, with which it may tell outright"
    right = (odds + failing) / (odds + 1)
    sure = f"at most {math.ceil(1000 * right - 1e-9) / 10:.1f} %" if right < 0.999 else "more than 99.9 %"
    text += f". Who finds both equally likely before, may guess right in {sure} of cases after."
    if odds > 100:
        text += " A factor this large protects hardly at all."
    if claim.get("basis") != "proven":
        text += " This is not proven."
    if not public(claim):
        text += " The numbers were computed from private data: do not pass them on."
    return text


def unproven(claims: Sequence[Claim]) -> list[str]:
    """Return a warning for each claim that promises nothing, or only under an assumption."""
    found = []
    for claim in claims:
        basis, relation = str(claim.get("basis", "none")), plain(_named(claim).get("neighbouring relation", ""))
        about = f" ({relation})" if relation not in ("", WITHHELD) else ""
        if basis.startswith("assumed"):
            found.append(
                f"NOT PROVEN: the epsilon of this run assumes a sensitivity{about}. Nothing shows that one "
                "record, or one party's data, changes no more labels; where it does, the epsilon does not hold."
            )
        elif basis.startswith("estimated"):
            found.append(
                f"NOT PROVEN: the epsilon of this run rests on an estimated sensitivity{about}, found by "
                "trying some records. That is a look at some data and no bound; and the number tells of those data."
            )
        elif "seeded" in basis:
            found.append(
                "NO GUARANTEE: the noise of this run came from a seed. Whoever knows the seed takes the noise away."
            )
        elif basis != "proven":
            found.append(f"NO GUARANTEE: the basis of a claim of this run is “{plain(basis)}”.")
    return list(dict.fromkeys(found))


def trust(claims: Sequence[Claim]) -> list[str]:
    """Return, for each side that adds noise, what the server sees and whether it has to be trusted."""
    sides, proven = {side(claim) for claim in claims}, all(claim.get("basis") == "proven" for claim in claims)
    found = []
    if "server" in sides:
        found.append(
            "The server itself sees labels without noise: each party's labels reach it as they are, and it adds the "
            "noise afterwards. It must be trusted to do so and to keep the labels; the claims are about everybody else."
        )
    if "party" in sides:
        text = "Each party adds the noise itself, before anything leaves it. "
        found.append(
            text + "The server needs no trust for these claims."
            if proven and sides == {"party"}
            else text + "How much that hides from the server is what the claims say, on the basis they name."
        )
    return found


def explanations(claims: Sequence[Claim]) -> list[str]:
    """Return why a run makes several claims, and how they belong together."""
    shown = [claim for claim in claims if public(claim)]
    found = []
    if {"record", "party"} <= {claim.get("unit") for claim in shown}:
        found.append(
            "The claims speak of the same release, for two sizes of what is hidden. One record changes little, so its "
            "epsilon is smaller; everything a party holds can change every vote, so the same noise hides it less."
        )
    if any(claim.get("unit") == "record" for claim in claims):
        found.append(
            "A record is one row. Somebody with several rows, or with rows at several parties, is protected less: the "
            "epsilons of the rows add up."
        )
    if any(not public(claim) and claim.get("basis") == "proven" for claim in claims) and shown:
        found.append(
            "An epsilon for the operator only bounds the same release by looking at the votes as they were cast: it is "
            "true as well, but the number itself would tell of them. Budgets and calibration never use it."
        )
    return found


def claim_words(claim: Claim) -> str:
    """Return whom a claim's epsilon is about, at which delta and on what basis: what must stand beside it."""
    cells = claim_cells(claim)
    who = {"record": "one record", "party": "one party"}.get(str(claim.get("unit")), cells["protects"])
    against = {"server": "the server", "everyone who sees the result": "all but the server"}
    whom = against.get(str(claim.get("adversary")), cells["against"])
    basis = "proven" if claim.get("basis") == "proven" else plain(claim.get("basis", "–"))
    if bounded(claim) and basis != "proven":
        basis = f"NOT proven: {basis}"
    delta = f", delta {bound_text(claim.get('delta'))}" if bounded(claim) else ""
    return f"{who} against {whom}{delta} ({cells['data sets compared']}; {basis})"


def headline(record: RunRecord) -> tuple[str, str]:
    """Return the run's first claim as (figure, what it means); never a bare epsilon."""
    claims = ordered(record.claims)
    if not claims:
        return ("none", "no noise was added") if record.rounds else ("–", "nothing was released")
    first = next((claim for claim in claims if bounded(claim) and public(claim)), claims[0])
    if bounded(first):
        return f"epsilon {bound_text(first.get('epsilon'))}", claim_words(first)
    return "withheld" if first.get("epsilon") == WITHHELD else "no guarantee", claim_words(first)


def noise_effect(record: RunRecord) -> list[str]:
    """Return what the noise did, as far as that is known and may be said here."""
    if not any(bounded(claim) for claim in record.claims):
        return []
    kept = [r.kept_share for r in record.rounds if r.kept_share is not None and is_number(r.kept_share)]
    sides = {side(claim) for claim in record.claims}
    found = []
    if kept:
        low, high = min(1 - k for k in kept), max(1 - k for k in kept)
        span = _percent(high) if high - low < 5e-4 else f"{_percent(low)} to {_percent(high)}"
        if sides == {"party"}:
            bits = any("one-hot" in str(claim.get("mechanism", "")) for claim in record.claims)
            found.append(
                f"Noise replaced {span} of the {'bits (one per row and class)' if bits else 'labels'} a party sent, on "
                "average: the mechanism's own probability, which depends on no data."
            )
        else:
            found.append(
                f"Noise replaced {span} of the server's answers: they are not the class most votes went to. Measured "
                "on the votes as they were cast: for the operator only."
            )
    elif sides == {"party"} and record.rounds:
        found.append("How many answers the noise changed is known to the parties alone.")
    known = [r.consensus_accuracy for r in record.rounds]
    right = [share for share in known if share is not None and is_number(share)]
    if right:
        last = _percent(right[-1])
        when = " in the last round" if len(right) > 1 else ""
        found.append(f"After noise {last} of the server's labels were right{when} (where the truth is known).")
    return found


def _percent(value: float) -> str:
    """Return a share in percent.

    >>> _percent(0.314), _percent(0.0004)
    ('31 %', '0.04 %')
    """
    return f"{100 * value:.0f} %" if value >= 0.1 or value == 0 else f"{100 * value:.2g} %"
