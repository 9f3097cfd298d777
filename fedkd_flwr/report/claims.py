"""What a run says about privacy, in words that a data-protection officer can read: its claims, or what it shares.

A claim is what `PrivacyClaim.as_dict` wrote (docs/understand/privacy.md), possibly to a file: any key may be missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedkd_flwr.privacy.rounding import bound_text
from fedkd_flwr.record.run_record import WITHHELD, RunRecord
from fedkd_flwr.report.formatting import is_number, plain
from fedkd_flwr.report.status import moment

__all__ = ["Claim", "bound_text", "bounded", "claim_cells", "claim_meaning", "claim_of", "claim_words", "explanations"]
__all__ += ["headline", "no_claim", "ordered", "public", "trust", "unprotected", "unproven"]

Claim = dict[str, Any]

_WHO = {"record": "one record (one row) of one party", "party": "everything one party holds"}
_WATCHERS = {
    "server": "the server, which sees every reply, and everyone who receives something from it",
    "everyone who sees the result": "everyone who sees the result, the other parties too, but not the server",
}
_TRUSTED = {
    "server": "the party's own software alone, which {does} before anything leaves; not the server",
    "everyone who sees the result": "the server, which sees what parties send without noise, and adds it",
}
_DOES = {True: ("draws the subset", "subset that was drawn"), False: ("adds the noise", "noise that was added")}
_PASSED = {True: "yes: computed without looking at private data", False: "no: for the operator only"}
_NOBODY = "nobody: nothing is promised"


def bounded(claim: Claim) -> bool:
    """Tell whether a claim promises anything: it states a finite epsilon, and is proven."""
    return is_number(claim.get("epsilon")) and claim.get("basis") == "proven"


def public(claim: Claim) -> bool:
    """Tell whether a claim's numbers may be passed on."""
    return claim.get("publishable") is True


def ordered(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims: publishable ones first, of these those about one record, of these the smallest epsilon."""

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
    who, (does, done) = _TRUSTED.get(adversary, trusted), _DOES["draws the subset" in trusted]
    cells = {
        "protects": _WHO.get(unit, unit),
        "against": _WATCHERS.get(adversary, adversary),
        "trusted for it": who.format(does=does) if bounded(claim) or epsilon == WITHHELD else _NOBODY,
        "epsilon": bound_text(epsilon),
        "delta": bound_text(delta) + (f" ({_small(rare)})" if 0 < (rare := _number(delta)) < 0.1 else ""),
        "data sets compared": str(rest.pop("neighbouring relation", "–")),
        "basis": f"proven: follows from the {done}" if basis == "proven" else basis,
        "may be passed on": _PASSED[rest.pop("publishable", None) is True],
        "mechanism": str(rest.pop("mechanism", "–")),
    }
    return {key: plain(value) for key, value in (cells | {str(k): str(v) for k, v in rest.items()}).items()}


def _number(value: Any, otherwise: float = 0.0) -> float:
    return float(value) if is_number(value) else otherwise


def _small(probability: float) -> str:
    return f"1 in {math.floor((1 + 1e-9) / probability):,}" if probability < 0.1 else bound_text(probability)


def _factor(odds: float) -> str:
    if odds < 10:
        return f"of at most {math.ceil(odds * 100 - 1e-9) / 100:.2f}"
    return f"of at most {math.ceil(odds):,}" if odds < 1e6 else "that may exceed a million"


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
    adversary = str(claim.get("adversary"))
    watcher = _WATCHERS.get(adversary, plain(claim.get("adversary", "anybody")))
    if epsilon == WITHHELD:
        return "The numbers of this claim depend on private data. The operator knows them; they are not published."
    if not bounded(claim):
        return f"No guarantee: nothing is proven about what {watcher} can learn on the question {_question(claim)}."
    odds = math.exp(min(_number(epsilon), 700.0))
    text = (
        f"What {watcher} can learn from this run shifts the odds on the question {_question(claim)}, "
        f"by a factor {_factor(odds)}"
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


# ------------------------------------------------------------------------------------------ what a whole run says


def unproven(claims: Sequence[Claim]) -> list[str]:
    """Return a warning for each claim that promises nothing."""
    found = []
    for claim in claims:
        basis = str(claim.get("basis", "none"))
        if "seeded" in basis:
            found.append(
                "NO GUARANTEE: the noise of this run came from a seed. Whoever knows the seed can remove the noise."
            )
        elif basis != "proven":
            found.append(f"NO GUARANTEE: the basis of a claim of this run is “{plain(basis)}”.")
    return list(dict.fromkeys(found))


def trust(claims: Sequence[Claim]) -> list[str]:
    """Return, for each side that adds noise, what the server sees and whether it has to be trusted."""
    sides = {"party" if claim.get("adversary") == "server" else "server" for claim in claims}
    proven = all(claim.get("basis") == "proven" for claim in claims)
    found = []
    if "server" in sides:
        what = "weights" if any("updates" in str(claim.get("mechanism", "")) for claim in claims) else "labels"
        found.append(
            f"The server itself sees {what} without noise: each party's {what} reach it as they are, and it adds the "
            f"noise afterwards. It must be trusted to do so and to keep the {what}; the claims are about everybody "
            "else."
        )
    if "party" in sides:
        does = _DOES[all("draws the subset" in str(claim.get("protects from")) for claim in claims)][0]
        text = f"Each party {does} itself, before anything leaves it. "
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
            "The claims are about the same release and differ in what they protect. One record changes little, so its "
            "epsilon is smaller; everything a party holds can change every vote, so the same noise hides it less."
        )
    if any(claim.get("unit") == "record" for claim in claims):
        found.append(
            "A record is one row. Somebody with several rows, or with rows at several parties, is protected less: the "
            "epsilons of the rows add up."
        )
    if any(not public(claim) and claim.get("basis") == "proven" for claim in claims) and shown:
        found.append(
            "An epsilon marked for the operator only is a bound on the same release, computed from the votes without "
            "noise. It holds as well, but the number itself would reveal something about the votes. Budgets and "
            "calibration never use it."
        )
    return found


def headline(record: RunRecord) -> tuple[str, str]:
    """Return the run's first claim as (figure, what the figure is about), so that no epsilon stands alone."""
    claims = ordered(record.claims)
    if not claims:
        if not record.rounds:
            if record.continues:
                return "–", f"nothing new was released; see {plain(record.continues, 40)}, which this run continues"
            return "–", "nothing was released"
        return "none", "no noise is added" if record.status in ("running", "waiting") else "no noise was added"
    first = next((claim for claim in claims if bounded(claim) and public(claim)), claims[0])
    if bounded(first):
        return f"epsilon {bound_text(first.get('epsilon'))}", claim_words(first)
    return "withheld" if first.get("epsilon") == WITHHELD else "no guarantee", claim_words(first)


def no_claim(record: RunRecord) -> str:
    """Return what a run without privacy claims does: and what some rules of the vote ask for besides.

    >>> no_claim(RunRecord(run_id="7", algorithm="fedct", sends="labels"))
    'labels are shared as they are (no noise)'
    """
    what = record.sends or "answers"
    if (more := _more(record)) is not None:
        kinds, sent = more
        listed = f"{', '.join(['class counts', *kinds[:-1]])} and {kinds[-1]}"
        what += f", {listed}" if sent else f" (and {listed}, of who allows it)"
    return f"{what} are shared as they are (no noise)"


def _more(record: RunRecord) -> tuple[list[str], int] | None:
    """Return what goes with class counts, and how many parties sent it; 0: not known, None: nobody was asked.

    The last names the rule. Who sends probabilities sends density ratios too where its node allows them.
    """
    if record.claims:
        return None
    ratios = sum(p.public_fit is not None for p in record.parties)
    if "probabilities" in record.settings("send") or "probabilities" in record.consensus_reason:  # by auto
        chosen = record.consensus_rule == "probabilities"
        sent = sum(bool(p.class_counts) for p in record.parties) if chosen else 0
        return [*(["density ratios"] if ratios or not sent else []), "probabilities"], sent
    asked = {"auto", "density-ratio"}.intersection(map(str, record.settings("consensus")))
    return (["density ratios"], ratios) if asked else None


_TOLD = {
    "density ratios": ("density-ratio", "how much each public row looks like their rows of each class"),
    "probabilities": ("probabilities", "how likely their models find each class in each public row"),
}


def unprotected(record: RunRecord) -> list[str]:
    """Return, for a run without privacy claims, what was shared and what that may reveal.

    The list is empty for a run that makes claims, whatever they say.
    """
    if record.claims:
        return []
    if not record.rounds:
        when = f" until {moment(record.last_word)}" if record.status == "running" else ""
        if earlier := plain(record.continues, 40):
            return [
                f"This run asked no party for anything{when}, so it released nothing new. It was started to continue "
                f"{earlier}: what the parties were asked for there may have left them, and what the page of {earlier} "
                "says and claims about it stays as it is."
            ]
        return [f"No party was asked for anything{when}, so nothing was released and there is nothing to claim."]
    # a round that has not ended counts as if all its answers had left
    may = "" if record.rounds[0].ended else " may have"
    rows = f"{record.num_public:,} public rows" if record.num_public else "the public rows"
    classes = f"one of {record.num_classes} classes" if record.num_classes else "a class"
    if record.sends != "labels":
        return [
            f"This run makes no privacy claim. The {record.sends or 'answers'} that the parties{may} sent carry no "
            "noise, and no bound is known on what it reveals about their private rows. The algorithm's "
            "documentation lists what it sends."
        ]
    measured = any(p.solo or p.federated for p in record.parties) or any(r.accuracy for r in record.rounds)
    also = " Besides, parties reported how accurate their models are." if measured else ""
    more = ""
    if (asked := _more(record)) is not None:
        kinds, sent = asked
        rule, told = _TOLD[kinds[-1]][0], ", and ".join(_TOLD[kind][1] for kind in kinds)
        who = f"{sent} of {len(record.parties)} parties" if sent else f"parties whose allow-vote-rules names {rule}"
        did = "may also have sent" if may and not sent else "also sent"
        more = (
            f" For {rule} votes {who} {did} how many rows of each class they hold, and {told}. This tells more than "
            "labels."
        )
    returned = record.status == "completed" or record.final_asked or len(record.rounds) > 1
    back = " The server combined them and sent the combined labels back." if returned else ""
    return [
        f"Each party {'sent' if not may else 'may have sent'} the server labels for {rows}: for every row, {classes} "
        "that a model trained on its private rows gave to it. The labels are shared as they are, without noise."
        f"{back} Private rows, their features, and models did not leave the parties.{more}{also}",
        "There is no differential privacy in this run, so there is no bound on what the labels reveal. They reflect "
        "the private rows: which classes a party knows, where its model errs, and, where a public row resembles a "
        "private one, possibly that this row was trained on (membership inference) or how it was labelled. The "
        "server sees each party's labels; every party sees the combined ones.",
        "A party for whom this is not acceptable refuses it by require-privacy in its node config.",
    ]
