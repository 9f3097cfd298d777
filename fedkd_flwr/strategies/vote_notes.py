"""What the operator must know of a vote: who cast less than a full vote, and which classes the vote lost.

A note says what happened in this vote. Advice follows only where the algorithm offers it and it can help.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import get_args

import numpy as np

from fedkd_flwr.algorithms.exchange import VotersConfig
from fedkd_flwr.labels import ABSTAIN, Labels, is_informative
from fedkd_flwr.labels.known import KNOWN_ROWS, OWN_FOREST, JudgedConsensus, KnownVote
from fedkd_flwr.labels.trust import DOUBTED, MOST_DOUBTED, NEARLY_ALL, nearly_alike
from fedkd_flwr.record.run_record import PartyRecord

__all__ = [
    "DISAGREES",
    "advice",
    "compared_rules",
    "disagreeing_parties",
    "idle_parties",
    "lost_classes",
    "nearly_uninformative_parties",
    "swapping_parties",
    "uninformative_parties",
]

DISAGREES = "agrees with the "
"""How a note on a party begins whose answers the others, or known rows, do not confirm."""

_WORDS = {KNOWN_ROWS: "the vote judged by them", OWN_FOREST: "a forest taught by them alone"}
_NAMED = 5  # more parties or classes than this are counted, not named


def uninformative_parties(
    labels: Mapping[str, Labels], *, config: VotersConfig, classes: Sequence[str], weighed: bool = False
) -> str:
    """Return a note on the parties that give every public row one class; "" where their votes count like all others.

    Parameters
    ----------
    labels : mapping of str to ndarray of shape (num_arrays, num_public), int16
        Each party's label arrays.
    config : VotersConfig
        Says what such votes count.
    classes : sequence of str
        The schema's class names.
    weighed : bool
        Whether trust weighed this vote: then all such parties together have a bound.

    Examples
    --------
    >>> labels = {"a": np.array([[0, 1]], np.int16), "b": np.array([[1, 1]], np.int16)}
    >>> uninformative_parties(labels, config=VotersConfig(), classes=["no", "yes"])
    "1 of 2 parties gives every public row one class, and casts half a vote: b ('yes')."
    """
    blind = {name: int(arrays.max()) for name, arrays in labels.items() if not is_informative(arrays)}
    if config.voters_rule == "count" or not blind:
        return ""
    who = _list([f"{name} ({classes[c]!r})" if c != ABSTAIN else name for name, c in blind.items()])
    if len(blind) == len(labels) and config.privacy != "server":
        return f"Every party gives all public rows one class: {who}. Their votes count alike: none tells classes apart."
    one = len(blind) == 1
    gives, casts = ("gives", "casts") if one else ("give", "cast")
    cast = "no vote" if config.voters_rule == "leave-out" else "half a vote" if one else "half a vote each"
    if weighed and config.voters_rule != "leave-out":
        cast += ", and all such parties together a tenth of the others' votes at most"
    return f"{len(blind)} of {len(labels)} parties {gives} every public row one class, and {casts} {cast}: {who}."


def nearly_uninformative_parties(labels: Mapping[str, Labels], *, classes: Sequence[str]) -> str:
    """Return a note on the parties that give nearly all rows one class, where they therefore cast less together.

    Parameters
    ----------
    labels : mapping of str to ndarray of shape (num_arrays, num_public), int16
        Each party's label arrays.
    classes : sequence of str
        The schema's class names.

    Examples
    --------
    >>> labels = {"a": np.tile(np.array([0, 1], np.int16), 20), "b": np.array([1] * 39 + [0], np.int16)}
    >>> nearly_uninformative_parties(labels, classes=["no", "yes"])
    "1 of 2 parties gives at least 94 % of the public rows one class, and casts half of the others' votes at most: b ('yes'). Agreement cannot tell whether its labels are wrong."
    """  # noqa: E501 - a doctest's output is one line
    found = {name: arrays[arrays != ABSTAIN] for name, arrays in labels.items() if nearly_alike(arrays)}
    commonest = {name: int(np.bincount(cast).argmax()) for name, cast in found.items() if cast.size}
    who = _list([f"{name} ({classes[commonest[name]]!r})" if name in commonest else name for name in found])
    gives, casts, whose = ("gives", "casts", "its") if len(found) == 1 else ("give", "together cast", "their")
    return (
        f"{len(found)} of {len(labels)} parties {gives} at least {100 * NEARLY_ALL:.0f} % of the public rows one "
        f"class, and {casts} half of the others' votes at most: {who}. Agreement cannot tell whether {whose} labels "
        "are wrong."
    )


def disagreeing_parties(parties: Sequence[PartyRecord], *, passed_over: Collection[str] = ()) -> dict[str, str]:
    """Return, by party, a note on each whose answers the others do not confirm.

    Parameters
    ----------
    parties : sequence of PartyRecord
        Those that answered, with their ``agreement`` and ``trust``. Nobody is named where trust is not known: there
        is no telling who is wrong; nor where it is low for more than a third of the parties, which then know too few
        classes to judge each other.
    passed_over : collection of str
        Parties that are not named.

    Examples
    --------
    >>> parties = [PartyRecord(name=n, agreement=a, trust=t) for n, a, t in [("a", 0.9, 1.0), ("b", 0.12, 0.0), ("c", 0.81, 1.0)]]
    >>> print(disagreeing_parties(parties)["b"])
    agrees with the consensus on 12 % of the rows (others: 81 to 90 %), with a trust of 0.00: its labels are wrong, swapped, nearly all of one class, or from other data.
    """  # noqa: E501 - a doctest's output is one line
    doubted = [p for p in parties if p.trust is not None and p.trust < DOUBTED and p.agreement is not None]
    doubted = [p for p in doubted if p.name not in passed_over]
    others = [100 * p.agreement for p in parties if p not in doubted and p.agreement is not None]
    if not others or len(doubted) / len(parties) > MOST_DOUBTED:
        return {}
    return {
        p.name: f"{DISAGREES}consensus on {100 * (p.agreement or 0.0):.0f} % of the rows (others: {min(others):.0f} to"
        f" {max(others):.0f} %), with a trust of {p.trust:.2f}: its labels are wrong, swapped,"
        " nearly all of one class, or from other data."
        for p in doubted
    }


def swapping_parties(names: Sequence[str], found: KnownVote, *, num_known: int) -> dict[str, str]:
    """Return, by party, a note on each whose labels of the known rows are right less often than by chance.

    Parameters
    ----------
    names : sequence of str
        The parties, in the order of ``found``.
    found : KnownVote
        The vote by known rows.
    num_known : int
        How many they are.

    Examples
    --------
    >>> found = KnownVote(np.zeros(4), np.array([0.4, 0.4]), np.array([0.9, 0.1]), np.array([0.5, 0.6]))
    >>> print(swapping_parties(["a", "b"], found, num_known=200)["b"])
    agrees with the known labels of 200 public rows on 10 % of them, where chance makes 60 %: its labels are wrong, or swapped. The vote judged by these rows allows for that.
    """  # noqa: E501 - a doctest's output is one line
    return {
        name: f"{DISAGREES}known labels of {num_known:,} public rows on {100 * right:.0f} % of them, where chance makes"
        f" {100 * chance:.0f} %: its labels are wrong, or swapped. The vote judged by these rows allows for that."
        for name, right, chance, swapped in zip(
            names, found.right, found.by_chance, found.swapped(num_known), strict=True
        )
        if swapped
    }


def compared_rules(best: JudgedConsensus, *, num_known: int) -> str:
    """Return by which figure known rows compared the rules, with that figure of each, and what one fixed answer has.

    Parameters
    ----------
    best : JudgedConsensus
        The consensus that they find best.
    num_known : int
        How many known rows there are.

    Examples
    --------
    >>> nobody, vote = np.zeros(2), np.zeros(2, np.int16)
    >>> plain = {"majority": 0.9, "known-rows": 0.92}
    >>> found = JudgedConsensus(vote, "known-rows", plain, None, 0.6, KnownVote(vote, nobody, nobody, nobody))
    >>> print(compared_rules(found, num_known=200))
    Right on 200 public rows whose labels the server knows: majority 90.0 %, the vote judged by them 92.0 %, always the commonest class 60.0 %.
    >>> rare = found._replace(rule="majority", class_shares={"majority": 0.75, "known-rows": 0.5}, commonest=0.92)
    >>> print(compared_rules(rare, num_known=200))
    Right in each class, averaged over the classes, of 200 public rows whose labels the server knows (this is compared, for a class is rare): majority 75.0 %, the vote judged by them 50.0 %. Right on all of these rows: majority 90.0 %, the vote judged by them 92.0 %, always the commonest class 92.0 %.
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


def idle_parties(names: Sequence[str], found: KnownVote, *, num_known: int) -> str:
    """Return a note on the parties of whose labels known rows do not show that they tell anything; "" for none.

    Parameters
    ----------
    names, found, num_known
        As in `swapping_parties`.

    Examples
    --------
    >>> found = KnownVote(np.zeros(4), np.array([0.4, 0.0]), np.array([0.9, 0.5]), np.array([0.5, 0.5]))
    >>> print(idle_parties(["a", "b"], found, num_known=200))
    200 known rows do not show that the labels of 1 of 2 parties tell classes apart (b): the vote judged by them passes these over.
    """  # noqa: E501 - a doctest's output is one line
    idle = [name for name, gain in zip(names, found.gains, strict=True) if gain <= 0]
    if not idle:
        return ""
    return (
        f"{num_known:,} known rows do not show that the labels of {len(idle)} of {len(names)} parties tell classes"
        f" apart ({_list(idle)}): the vote judged by them passes these over."
    )


def lost_classes(labels: Mapping[str, Labels], vote: Labels, *, classes: Sequence[str]) -> Iterator[str]:
    """Yield notes on the classes that no party predicts, that the vote gives no row, or that one party alone predicts.

    Parameters
    ----------
    labels : mapping of str to ndarray of shape (num_arrays, num_public), int16
        Each party's label arrays, as it sent them.
    vote : ndarray of shape (num_public,), int16
        What the vote made of them; ``ABSTAIN`` where a row stays unlabelled.
    classes : sequence of str
        The schema's class names.

    Examples
    --------
    >>> labels = {"a": np.array([[0, 0, 1]], np.int16)} | {name: np.zeros((1, 3), np.int16) for name in "bc"}
    >>> list(lost_classes(labels, np.zeros(3, np.int16), classes=["flu", "sepsis"]))
    ["Only a ever predicts 'sepsis' (1 public row): the vote loses it."]
    """
    unknown, notes = [], []
    for c, name in enumerate(classes):
        gave = {party: rows for party, arrays in labels.items() if (rows := (arrays == c).any(axis=0)).any()}
        won = vote == c
        if not gave and not won.any():
            unknown.append(repr(name))
            continue
        rows = np.any(list(gave.values()), axis=0) if gave else won
        count, kept = int(rows.sum()), int((rows & won).sum())
        on = f"{count} public {'row' if count == 1 else 'rows'}"
        becomes = f"the vote keeps {kept} of them." if won.any() else "the vote loses it."
        if len(gave) == 1 and kept < count / 2:
            notes.append(f"Only {next(iter(gave))} ever predicts {name!r} ({on}): {becomes}")
        elif not won.any():
            notes.append(f"{len(gave)} of {len(labels)} parties predict {name!r} ({on}): {becomes}")
    if unknown:
        yield f"No party predicts {_list(unknown)} on any public row: nothing learnt from this vote can know it."
    yield from notes[:_NAMED]
    if len(notes) > _NAMED:
        yield f"{len(notes) - _NAMED} more classes are lost in the vote, or are known to one party that it outvotes."


def advice(config: VotersConfig, num_classes: int) -> str:
    """Return what may help where a vote loses classes, as far as this algorithm offers it; "" if nothing does.

    Examples
    --------
    >>> advice(VotersConfig(), 10)
    ''
    """
    field = type(config).model_fields.get("consensus")
    if field is None or config.privacy != "none":
        return ""
    offered, chosen = get_args(field.annotation), getattr(config, "consensus", "")
    if chosen in ("auto", "density-ratio"):
        return ""
    key = type(config).keys()["consensus"]
    if "density-ratio" in offered:
        return f'{key}="density-ratio" asks each party how well it knows each class, and may keep them.'
    if num_classes > 2 and "dawid-skene" in offered and chosen != "dawid-skene":
        return f'{key}="dawid-skene" learns which party tells which classes apart, and may keep them.'
    return ""


def _list(names: Sequence[str]) -> str:
    """Return the names with commas; of many the first ones, and how many there are more.

    >>> _list(["a", "b"]), _list(list("abcdefg"))
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
