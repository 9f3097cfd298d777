"""Privacy claims: what is promised to whom, against whom, how far, and on what basis. Never a bare epsilon.

A claim covers what it was computed for and nothing else (docs/understand/privacy.md). The functions here write the
right claim for each place noise is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from fedkd_flwr.checks import check_choice, check_number, check_whole
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.events import check_cost
from fedkd_flwr.privacy.cost.pate import data_dependent_epsilon
from fedkd_flwr.privacy.noise.plan import NoisyVotes

__all__ = ["BASES", "EVERYONE", "NOT_COVERED", "NOT_COVERED_AT_SERVER", "REPLACED_RECORD", "SERVER", "PrivacyClaim"]
__all__ += ["clipped_sum_at_server", "label_privacy", "noisy_max_at_party", "noisy_max_at_server", "noisy_sums"]
__all__ += ["subsampling"]

SERVER = "server"
EVERYONE = "everyone who sees the result"
REPLACED_RECORD = "replace one record, number of records public"
SEEDED = "none: seeded"
_AT_PARTY: dict[str, Any] = {
    "adversary": SERVER,
    "protects_from": "the server and everyone after it; the party adds the noise itself",
}
_WHOLE_PARTY = {**_AT_PARTY, "unit": "party", "neighbouring_relation": "any change of the party's data"}
_AT_SERVER = {"unit": "party", "adversary": EVERYONE, "neighbouring_relation": "replace one party"}
NOT_COVERED = "how long a party takes to answer, but for what reply-every-s hides; and whether its node answers at all"
"""What a claim against the server leaves out, whatever the mechanism: the server cannot know what a node has set."""

NOT_COVERED_AT_SERVER = "when the result comes; and who answered, if the operator tells it (a publishable record does)"
"""What a claim of noise at the server leaves out: what others see besides the result."""

BASES = ("proven", "none")
"""What a claim may rest on."""

_SOME_UNITS = 100  # a delta of 1 in so many or fewer is too large for any federation


@dataclass(frozen=True, kw_only=True)
class PrivacyClaim:
    """One statement: for any two neighbouring data sets, what is seen is (epsilon, delta)-indistinguishable."""

    unit: Literal["record", "party"]  # what is protected: one row of one party, or everything one party holds
    adversary: str  # against whom: `SERVER`, which sees every reply, or `EVERYONE` who sees the result
    # epsilon, delta: the guarantee; a claim without a basis is made infinite
    epsilon: float
    delta: float
    neighbouring_relation: str  # which data sets are compared
    publishable: bool  # whether the numbers were computed without looking at private votes
    basis: str  # ``proven``, or ``none: why``
    mechanism: str  # the noise, in words
    protects_from: str = ""  # who has to be trusted, in words
    notes: tuple[str, ...] = ()  # warnings that belong to the numbers

    def __post_init__(self) -> None:
        check_choice("unit", self.unit, ("record", "party"))
        if self.basis.partition(":")[0] not in BASES:
            raise ConfigError(explain("basis", f"begin with one of {', '.join(BASES)}", repr(self.basis)))
        check_choice("publishable", self.publishable, (True, False))
        check_cost("epsilon", self.epsilon)
        check_number("delta", self.delta, least=0, most=1)
        if self.basis.startswith("none"):
            object.__setattr__(self, "epsilon", math.inf)
        elif not (self.epsilon < math.inf and self.delta < 1):
            # Nothing is promised; say so in the basis too, for readers who look at it alone.
            object.__setattr__(self, "basis", "none: no finite bound")
            object.__setattr__(self, "epsilon", math.inf)

    def as_dict(self) -> dict[str, Any]:
        """Return the claim as plain JSON types under the headings the report reads; no bound is null."""
        bounded = self.epsilon < math.inf
        named: dict[str, Any] = {
            "unit": self.unit,
            "adversary": self.adversary,
            "epsilon": self.epsilon if bounded else None,
            "delta": self.delta if bounded else None,
            "neighbouring relation": self.neighbouring_relation,
            "publishable": self.publishable,
            "basis": self.basis,
            "mechanism": self.mechanism,
        }
        if self.protects_from:
            named["protects from"] = self.protects_from
        if self.notes:
            named["notes"] = " ".join(self.notes)
        if bounded:
            named["not covered"] = NOT_COVERED if self.adversary == SERVER else NOT_COVERED_AT_SERVER
        return named


def _exposure(delta: float, num_units: int | None, unit: str) -> tuple[str, ...]:
    """Return a warning where delta is so large, for so many units (None: `_SOME_UNITS`), that one could be exposed."""
    if not delta >= 1 / max(_SOME_UNITS if num_units is None else num_units, 1):
        return ()
    noun = {"record": "records", "party": "parties"}[unit]
    share = f"{math.ceil(1 / delta):,} {noun}: where there are as many or more, "
    share = share if num_units is None else f"{num_units:,}, the number of {noun}: "
    return (
        f"Warning: delta {delta:.3g} is at least 1 in {share}"
        f"a mechanism that simply exposes one {unit} entirely would satisfy this delta.",
    )


def _composed(
    mechanism: Any, uses: int, words: str, *, delta: float, num_units: int | None, seeded: bool = False, **who: Any
) -> PrivacyClaim:
    """Return the claim of so many uses, composed tightly; at delta 0 if that is as small. ``words`` follow its own."""
    spent = Accountant().compose(mechanism.dp_event(), uses)
    epsilon, delta = min((spent.epsilon(at), at) for at in (0.0, delta))
    return PrivacyClaim(
        epsilon=epsilon,
        delta=delta,
        publishable=True,
        basis=SEEDED if seeded else "proven",
        mechanism=mechanism.words + words,
        notes=_exposure(delta, num_units, who["unit"]),
        **who,
    )


def _noisy_max(
    mechanism: Any, plan: NoisyVotes, times: int = 1, *, delta: float, num_units: int | None = None, **who: Any
) -> PrivacyClaim:
    """Return the publishable claim of noisy max."""
    uses = plan.num_queries * times
    words = f"; {uses:,} queries, {'noisy counts' if plan.release == 'counts' else 'labels'} released"
    return _composed(mechanism, uses, words, delta=delta, num_units=num_units, **who)


def noisy_max_at_server(
    plan: NoisyVotes, *, delta: float, num_parties: int | None = None, counts: Any = None, seeded: bool = False
) -> tuple[PrivacyClaim, ...]:
    """Claim for noisy max at the server (FedKT L1, PATE): one party, against everyone who sees the result.

    ``plan`` is all that is asked, over all rounds, by a mechanism with ``votes`` as many as one party casts (FedKT's
    s); ``num_parties`` is for the warning that delta is not below 1 / parties; where any noise is ``seeded`` nothing is
    claimed. With ``counts``, (num_queries, num_classes), the true votes as the mechanism sees them, a second claim for
    the operator only follows the publishable one, where it is smaller: `data_dependent_epsilon`.
    """
    trusted = "everyone but the server, which sees the votes as they were cast and is trusted to add the noise"
    who: dict[str, Any] = {**_AT_SERVER, "protects_from": trusted, "num_units": num_parties, "seeded": seeded}
    public = _noisy_max(plan.mechanism, plan, delta=delta, **who)
    if counts is None:
        return (public,)
    if plan.release == "counts":
        way_out = "The data-dependent bound holds for labels only: give no votes."
        raise ConfigError(explain("counts", "be None where noisy counts are released", "votes", way_out))
    if len(counts) != plan.num_queries:
        raise DataError(explain("counts", f"have one row for each of the {plan.num_queries} queries", len(counts)))
    found = data_dependent_epsilon(plan.mechanism, counts, delta) if delta > 0 and not seeded else None
    if found is None or not found < public.epsilon:
        return (public,)
    notes = ("Computed from the private votes: for the operator only.", *_exposure(delta, num_parties, "party"))
    return public, replace(public, epsilon=found, delta=delta, publishable=False, notes=notes)


def noisy_max_at_party(
    plan: NoisyVotes, *, delta: float, teachers: int, partitions: int = 1, num_parties: int | None = None
) -> tuple[PrivacyClaim, PrivacyClaim]:
    """Claim for noisy max at a party (FedKT L2): one record against the server, and the whole party beside it.

    Formal guarantees: a record is in one teacher's subset of each partition, so it moves one vote per query, and the
    partitions compose. It holds if rows are cut by position, not by value, and the number of rows is public. The claim
    covers every party's records alike; somebody with records at two parties is covered by the sum of both claims.

    ``plan`` is what is asked of each of the ``partitions`` (FedKT's s), by a mechanism with ``votes = 1``; of the
    ``teachers`` (FedKT's t) in each all votes change where the whole party changes. The rest is as in
    `noisy_max_at_server`.
    """
    check_whole("teachers", teachers, 1)
    check_whole("partitions", partitions, 1)
    if plan.mechanism.votes != 1:
        way_out = "A record moves one vote; the party-level claim scales by itself."
        raise ConfigError(explain("votes", "be 1 for noise at the party", plan.mechanism.votes, way_out))
    record = {**_AT_PARTY, "unit": "record", "neighbouring_relation": REPLACED_RECORD}
    party: dict[str, Any] = {**_WHOLE_PARTY, "num_units": num_parties}
    return (
        _noisy_max(plan.mechanism, plan, partitions, delta=delta, **record),
        _noisy_max(replace(plan.mechanism, votes=teachers), plan, partitions, delta=delta, **party),
    )


def label_privacy(
    mechanism: Any, *, num_labels: int, delta: float, rounds: int = 1, num_parties: int | None = None
) -> PrivacyClaim:
    """Claim for ``num_labels`` labels a round, privatised one by one at the party, against the server.

    ``mechanism`` is that of one label, such as `RandomizedResponse`; ``delta`` and ``num_parties`` are as in
    `noisy_max_at_server`. Formal guarantees: two data sets of the party may differ in every label, in every round: this
    worst case is proven and covers any change of the party's data.
    """
    check_whole("num_labels", num_labels, 1)
    check_whole("rounds", rounds, 1)
    words = f"; {num_labels:,} labels a round, {rounds:,} rounds"
    return _composed(mechanism, num_labels * rounds, words, delta=delta, num_units=num_parties, **_WHOLE_PARTY)


def noisy_sums(*mechanisms: Any, times: int, delta: float) -> PrivacyClaim:
    """Claim for noisy sums (`NoisyCounts`, `NoisyProducts`), against the server: one record of one party.

    Each answer is a release of its own, by one of the ``mechanisms``: the one that protects least counts for all.
    ``times`` is how often the party asked most often was asked. The sums would cover a record more or less too, but
    which rows a party keeps for tests follows from how many it has.
    """
    least = min(mechanisms, key=lambda one: one.dp_event().noise_multiplier)
    others = [f"; {one.words}" for one in mechanisms if one is not least]
    words = "".join(others) + (f"; {times} releases" if times > 1 else "")
    who = {**_AT_PARTY, "unit": "record", "neighbouring_relation": REPLACED_RECORD}
    return _composed(least, times, words, delta=delta, num_units=None, **who)


def clipped_sum_at_server(
    mechanism: Any, *, rounds: int, delta: float, num_parties: int | None = None, seeded: bool = False
) -> PrivacyClaim:
    """Claim for noisy sums of clipped updates at the server (DP-FedAvg): one party, against everyone after the server.

    ``mechanism`` is the `ClippedSum` of one round, ``rounds`` how many the party asked most often was asked in; the
    rest is as in `noisy_max_at_server`. Formal guarantees: a party moves the sum of each round that it is asked in, by
    at most twice the clipping norm, whether it answers or not; these rounds compose, chosen adaptively. It covers the
    weights of all rounds, which parties see, and the final ones. Nothing is gained from a random choice of parties: who
    is asked is not secret.
    """
    check_whole("rounds", rounds, 1)
    words = f"; {rounds:,} round{'s' * (rounds > 1)} of the party asked most often"
    trusted = (
        "everyone but the server, which sees each party's weights as they are and is trusted to clip them and to add "
        "the noise"
    )
    who: dict[str, Any] = {**_AT_SERVER, "protects_from": trusted, "num_units": num_parties, "seeded": seeded}
    return _composed(mechanism, rounds, words, delta=delta, **who)


def subsampling(mechanism: Any) -> PrivacyClaim:
    """Claim for learning from one random subset (NFDP, `Subsampling`): one record, against the server."""
    once = "Holds if the subset is drawn once and kept for ever, and nothing is computed from the other rows."
    return PrivacyClaim(
        unit="record",
        adversary=SERVER,
        epsilon=mechanism.epsilon,
        delta=mechanism.delta,
        neighbouring_relation="add or remove one record",
        publishable=True,
        basis="proven",
        mechanism=mechanism.words,
        protects_from="the server and everyone after it; the party draws the subset itself",
        notes=(once, *_exposure(mechanism.delta, mechanism.num_rows, "record")),
    )
