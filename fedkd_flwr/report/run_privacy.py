"""What a whole run says about privacy: warnings, whom to trust, what is shared without noise."""

from __future__ import annotations

from collections.abc import Sequence

from fedkd_flwr.record.run_record import WITHHELD, RunRecord
from fedkd_flwr.report.claims import Claim, bound_text, bounded, claim_words, ordered, public, side
from fedkd_flwr.report.formatting import plain
from fedkd_flwr.report.status import moment

__all__ = ["explanations", "headline", "no_claim", "trust", "unprotected", "unproven"]


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
    sides, proven = {side(claim) for claim in claims}, all(claim.get("basis") == "proven" for claim in claims)
    found = []
    if "server" in sides:
        what = "weights" if any("updates" in str(claim.get("mechanism", "")) for claim in claims) else "labels"
        found.append(
            f"The server itself sees {what} without noise: each party's {what} reach it as they are, and it adds the "
            f"noise afterwards. It must be trusted to do so and to keep the {what}; the claims are about everybody "
            "else."
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
        kind, sent = more
        short = kind.rpartition(" ")[2]
        what += f", class counts and {kind}" if sent else f" (and class counts and {short}, of who allows it)"
    return f"{what} are shared as they are (no noise)"


def _more(record: RunRecord) -> tuple[str, int] | None:
    """Return what goes with class counts, and how many parties sent it; 0: not known, None: nobody was asked.

    A record for publication does not say it, nor that of a party whose reply was turned away.
    """
    if record.claims:
        return None
    if "probabilities" in record.settings("send") or "probabilities" in record.consensus_reason:  # by auto
        chosen = record.consensus_rule == "probabilities"
        return "probabilities", sum(bool(p.class_counts) for p in record.parties) if chosen else 0
    asked = {"auto", "density-ratio"}.intersection(map(str, record.settings("consensus")))
    return ("density ratios", sum(p.public_fit is not None for p in record.parties)) if asked else None


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
        kind, sent = asked
        rule, told = _TOLD[kind]
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
        "Whether this is acceptable depends on how sensitive the private labels are. Parties for whom it is not "
        "acceptable should not take part in a run without noise: require-privacy in their node config refuses it.",
    ]
