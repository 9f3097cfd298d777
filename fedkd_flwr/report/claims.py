"""One privacy claim in words that a data-protection officer can read.

A claim is what `PrivacyClaim.as_dict` wrote (docs/understand/privacy.md), possibly to a file: any key may be missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedkd_flwr.privacy.rounding import bound_text
from fedkd_flwr.record.run_record import WITHHELD, RunRecord
from fedkd_flwr.report.formatting import is_number, plain

__all__ = [
    "Claim",
    "bound_text",
    "bounded",
    "claim_cells",
    "claim_meaning",
    "claim_of",
    "claim_words",
    "ordered",
    "public",
    "side",
]

Claim = dict[str, Any]

_WHO = {"record": "one record (one row) of one party", "party": "everything one party holds"}
_WATCHERS = {
    "server": "the server, which sees every reply, and everyone who receives something from it",
    "everyone who sees the result": "everyone who sees the result, the other parties too; but not the server",
}
_TRUSTED = {
    "server": "the party's own software alone, which adds the noise before anything leaves; not the server",
    "everyone who sees the result": "the server, which sees what parties send without noise, and adds it",
}
_NOBODY = "nobody: nothing is promised"


def bounded(claim: Claim) -> bool:
    """Tell whether a claim promises anything: it states a finite epsilon, and is proven."""
    return is_number(claim.get("epsilon")) and claim.get("basis") == "proven"


def public(claim: Claim) -> bool:
    """Tell whether a claim's numbers may be passed on."""
    return claim.get("publishable") is True


def side(claim: Claim) -> str:
    """Return where the noise is added: ``"party"`` if the claim holds against the server, else ``"server"``."""
    return "party" if claim.get("adversary") == "server" else "server"


def ordered(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims sorted for reading.

    Publishable claims come first; among these, claims about one record; among these, the smallest epsilon.
    """

    def place(claim: Claim) -> tuple[bool, bool, float]:
        return not public(claim), claim.get("unit") != "record", _number(claim.get("epsilon"), math.inf)

    return sorted(claims, key=place)


def claim_cells(claim: Claim) -> dict[str, str]:
    """Return one claim as heading -> text. Keys without a heading of their own are kept, at the end.

    >>> claim_cells({"unit": "party", "epsilon": None})["epsilon"]
    'no bound'
    """
    rest = dict(claim)
    unit, adversary, basis = (str(rest.pop(key, "–")) for key in ("unit", "adversary", "basis"))
    trusted = str(rest.pop("protects from", "–"))
    epsilon, delta = rest.pop("epsilon", None), rest.pop("delta", None)
    cells = {
        "protects": _WHO.get(unit, unit),
        "against": _WATCHERS.get(adversary, adversary),
        "trusted for it": _TRUSTED.get(adversary, trusted) if bounded(claim) or epsilon == WITHHELD else _NOBODY,
        "epsilon": bound_text(epsilon),
        "delta": bound_text(delta) + (f" ({_small(rare)})" if 0 < (rare := _number(delta)) < 0.1 else ""),
        "data sets compared": str(rest.pop("neighbouring relation", "–")),
        "basis": "proven: follows from the noise that was added" if basis == "proven" else basis,
        "may be passed on": "yes: computed without looking at private data"
        if rest.pop("publishable", None) is True
        else "no: for the operator only",
        "noise": str(rest.pop("mechanism", "–")),
    }
    return {key: plain(value) for key, value in (cells | {str(k): str(v) for k, v in rest.items()}).items()}


def _number(value: Any, otherwise: float = 0.0) -> float:
    return float(value) if is_number(value) else otherwise


def _small(probability: float) -> str:
    return f"1 in {math.floor((1 + 1e-9) / probability):,}" if probability < 0.1 else bound_text(probability)


def _factor(odds: float) -> str:
    if odds < 10:
        return f"{math.ceil(odds * 100 - 1e-9) / 100:.2f}"
    return f"{math.ceil(odds):,}" if odds < 1e6 else "more than a million"


def _question(claim: Claim) -> str:
    """Return the question that the adversary asks: which of the claim's two data sets is the real one."""
    compared = plain(claim.get("neighbouring relation", ""))
    unit = claim.get("unit")
    if unit == "record":
        return "whether one record is in the data" + (", or another in its place" if "replace" in compared else "")
    if compared.startswith("a change") and "at most" in compared:
        changed = compared.split("changes ", 1)[-1].partition(" (")[0]
        return f"whether a party holds its data, or other data that changes {changed}"
    if unit == "party":
        return "whether one party takes part with what it holds, or with any other data"
    return f"whether one {plain(unit)} is in the data"


def claim_meaning(claim: Claim) -> str:
    """Return one claim as sentences for a reader who does not know differential privacy.

    An (epsilon, delta) guarantee is at least as strong as a mechanism that reveals everything with probability delta,
    and otherwise shifts the odds by a factor of at most ``exp(epsilon)`` (Kairouz, Oh and Viswanath 2015, Theorem
    3.1). A guess between two cases that are equally likely beforehand is therefore right with a probability of at most
    ``(exp(epsilon) + delta) / (exp(epsilon) + 1)``.
    """
    epsilon, delta = claim.get("epsilon"), claim.get("delta")
    watcher = {
        "server": "the server, and everyone who receives something from it,",
        "everyone who sees the result": "everyone who sees the result, except the server,",
    }.get(str(claim.get("adversary")), plain(claim.get("adversary", "anybody")))
    if epsilon == WITHHELD:
        return "The numbers of this claim depend on private data. The operator knows them; they are not published."
    if not bounded(claim):
        return f"No guarantee: nothing is proven about what {watcher} learns on the question {_question(claim)}."
    odds = math.exp(min(_number(epsilon), 700.0))
    text = (
        f"What {watcher} learns from this run shifts the odds on the question {_question(claim)}, "
        f"by a factor of at most {_factor(odds)}"
    )
    failing = _number(delta)
    if failing > 0:
        text += f"; with a probability of {_small(failing)} it may reveal the answer outright"
    right = (odds + failing) / (odds + 1)
    sure = f"at most {math.ceil(1000 * right - 1e-9) / 10:.1f} %" if right < 0.999 else "more than 99.9 %"
    text += (
        f". Somebody who finds both answers equally likely beforehand can guess right in {sure} of cases afterwards."
    )
    if odds > 100:
        text += " A factor this large protects hardly at all."
    if not public(claim):
        text += " The numbers were computed from private data: do not pass them on."
    return text


def claim_words(claim: Claim) -> str:
    """Return what must stand beside a claim's epsilon: whom it protects, against whom, the delta and the basis."""
    cells = claim_cells(claim)
    who = {"record": "one record", "party": "one party"}.get(str(claim.get("unit")), cells["protects"])
    against = {"server": "the server", "everyone who sees the result": "all but the server"}
    whom = against.get(str(claim.get("adversary")), cells["against"])
    delta = f", delta {bound_text(claim.get('delta'))}" if bounded(claim) else ""
    return f"{who} against {whom}{delta} ({cells['data sets compared']}; {plain(claim.get('basis', '–'))})"


def claim_of(record: RunRecord) -> dict[str, Any] | None:
    """Return a run's first publishable claim with a finite epsilon, None if there is none."""
    return next((one for one in ordered(record.claims) if public(one) and is_number(one.get("epsilon"))), None)
