"""What the operator must know of a vote: whom the others or known rows do not confirm, and what may help."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import get_args

from fedkd_flwr.algorithms.exchange import VotersConfig
from fedkd_flwr.labels.known import KNOWN_ROWS, OWN_FOREST, JudgedConsensus, KnownVote
from fedkd_flwr.labels.trust import DOUBTED, MOST_DOUBTED
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import PartyRecord

__all__ = ["advice", "compared_rules", "disagreeing_parties", "idle_parties", "swapping_parties"]

_WORDS = {KNOWN_ROWS: "the vote judged by them", OWN_FOREST: "a forest taught by them alone"}


def disagreeing_parties(parties: Sequence[PartyRecord], *, passed_over: Collection[str] = ()) -> dict[str, Note]:
    """Return, by party, a note on each whose answers the others do not confirm, but for those ``passed_over``.

    ``parties`` are those that answered, with their ``agreement`` and ``trust``. Nobody is named where trust is not
    known: there is no telling who is wrong; nor where it is low for more than a third of the parties, which then know
    too few classes to judge each other.
    """
    doubted = [p for p in parties if p.trust is not None and p.trust < DOUBTED and p.agreement is not None]
    doubted = [p for p in doubted if p.name not in passed_over]
    others = [p.agreement for p in parties if p not in doubted and p.agreement is not None]
    if not others or len(doubted) / len(parties) > MOST_DOUBTED:
        return {}
    beside = {"lowest": min(others), "highest": max(others)}
    return {p.name: Note(NoteCode.DISAGREES, {"agreement": p.agreement, **beside, "trust": p.trust}) for p in doubted}


def swapping_parties(names: Sequence[str], found: KnownVote, *, num_known: int) -> dict[str, Note]:
    """Return, by party, a note on each whose labels of the known rows are right less often than by chance.

    >>> import numpy as np
    >>> found = KnownVote(np.zeros(4), np.array([0.4, 0.4]), np.array([0.9, 0.1]), np.array([0.5, 0.6]))
    >>> print(swapping_parties(["a", "b"], found, num_known=200)["b"])
    below-chance: known 200, right 0.1, by_chance 0.6
    """
    told = zip(names, found.right.tolist(), found.by_chance.tolist(), found.swapped(num_known), strict=True)
    return {
        name: Note(NoteCode.BELOW_CHANCE, {"known": num_known, "right": right, "by_chance": chance})
        for name, right, chance, swapped in told
        if swapped
    }


def compared_rules(best: JudgedConsensus, *, num_known: int) -> str:
    """Return by which figure ``num_known`` known rows compared the rules, with that figure of each rule.

    >>> import numpy as np
    >>> nobody, vote = np.zeros(2), np.zeros(2, np.int16)
    >>> plain = {"majority": 0.9, "known-rows": 0.92}
    >>> found = JudgedConsensus(vote, "known-rows", plain, None, 0.6, KnownVote(vote, nobody, nobody, nobody))
    >>> print(compared_rules(found, num_known=200))
    Right on 200 public rows whose labels the server knows: majority 90.0 %, the vote judged by them 92.0 %, always the commonest class 60.0 %.
    """  # noqa: E501 - a doctest's output is one line
    plain = f"{_shares(best.shares)}, always the commonest class {100 * best.commonest:.1f} %."
    rows = f"{num_known:,} public rows whose labels the server knows"
    if best.class_shares is None:
        return f"Right on {rows}: {plain}"
    return (
        f"Right in each class, averaged over the classes, of {rows} (this is compared, for a class is rare):"
        f" {_shares(best.class_shares)}. Right on all of these rows: {plain}"
    )


def _shares(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{_WORDS.get(rule, rule)} {100 * share:.1f} %" for rule, share in shares.items())


def idle_parties(names: Sequence[str], best: JudgedConsensus, *, num_known: int) -> Iterator[Note]:
    """Yield a note on the parties of whose labels known rows do not show that they tell anything, if there are any.

    Another note where a forest of the known rows alone was best. ``names`` and ``num_known`` as in `swapping_parties`.

    >>> import numpy as np
    >>> found = KnownVote(np.zeros(4), np.array([0.4, 0.0]), np.array([0.9, 0.5]), np.array([0.5, 0.5]))
    >>> print(*idle_parties(["a", "b"], JudgedConsensus(np.zeros(4), "majority", {}, None, 0.6, found), num_known=200))
    no-gain: known 200, parties ['b'], of 2
    """
    if idle := [name for name, gain in zip(names, best.vote.gains, strict=True) if gain <= 0]:
        yield Note(NoteCode.NO_GAIN, {"known": num_known, "parties": idle, "of": len(names)})
    if best.rule == OWN_FOREST:
        yield Note(NoteCode.OWN_FOREST, {"known": num_known, "by_class": best.class_shares is not None})


def advice(config: VotersConfig) -> Iterator[Note]:
    """Yield what may help where a vote loses classes, as far as this algorithm offers it."""
    field = type(config).model_fields.get("consensus")
    if field is None or config.privacy != "none":
        return
    chosen = getattr(config, "consensus", "")
    if "density-ratio" in get_args(field.annotation) and chosen not in ("auto", "density-ratio"):
        key = type(config).keys()["consensus"]
        yield Note(NoteCode.TRY_CONSENSUS, {"key": key, "consensus": "density-ratio"})
