"""Privacy claims joined: those of parties side by side, those about the same units one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.privacy.claims.claim import BASES, PrivacyClaim

__all__ = ["parallel", "sequential"]


def _joined(claims: Sequence[PrivacyClaim], epsilon: float, delta: float) -> PrivacyClaim:
    """Return the weakest wording of ``claims`` with the given numbers."""
    first = claims[0]
    for field in ("unit", "adversary", "neighbouring_relation"):
        seen = sorted({getattr(claim, field) for claim in claims})
        if len(seen) > 1:
            way_out = "Join only claims that speak of the same thing."
            raise ConfigError(explain(f"{field} of the claims", "be the same", ", ".join(seen) + " ", way_out))
    weakest = max(claims, key=lambda claim: BASES.index(claim.basis.partition(":")[0]))
    return replace(
        first,
        epsilon=epsilon,
        delta=min(1.0, delta),
        basis=weakest.basis,
        publishable=all(claim.publishable for claim in claims),
        mechanism=" + ".join(dict.fromkeys(claim.mechanism for claim in claims)),
        notes=tuple(dict.fromkeys(note for claim in claims for note in claim.notes)),
    )


def parallel(claims: Sequence[PrivacyClaim]) -> PrivacyClaim:
    """Join the claims of parties that each hold *other* units: the worst of them covers every unit.

    Valid where a neighbouring change touches one party's data only; somebody with records at two parties is covered by
    `sequential` of these two. One unit, adversary and neighbouring relation for all.

    >>> from fedkd_flwr.privacy.claims.claim import no_privacy
    >>> one = no_privacy()
    >>> parallel([one, one]).basis
    'none: no noise'
    """
    _check_some(claims)
    return _joined(claims, max(claim.epsilon for claim in claims), max(claim.delta for claim in claims))


def sequential(claims: Sequence[PrivacyClaim]) -> PrivacyClaim:
    """Join claims about the *same* units by basic composition: epsilons and deltas add.

    Events composed in one `fedkd_flwr.privacy.cost.accountant.Accountant` give less; this is for claims whose
    events are not at hand.
    """
    _check_some(claims)
    return _joined(claims, math.fsum(claim.epsilon for claim in claims), math.fsum(claim.delta for claim in claims))


def _check_some(claims: Sequence[PrivacyClaim]) -> None:
    if not claims:
        raise ConfigError(explain("claims", "hold at least one claim", "none at all"))
