"""What a release of noisy counts may claim."""

from __future__ import annotations

from fedkd_flwr.privacy.claims.claim import SERVER, PrivacyClaim, _exposure
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.noise.sums import NoisyCounts

__all__ = ["RELATION", "noisy_sums"]

RELATION = "replace one record, number of records public"
"""What a run claims. The counts themselves would cover a record more or less too, but which rows a party keeps for
tests follows from how many it has."""


def noisy_sums(mechanism: NoisyCounts, *, times: int, delta: float) -> PrivacyClaim:
    """Claim for noisy counts (noisy-sums): one record of one party.

    Parameters
    ----------
    mechanism : NoisyCounts
        Of one release.
    times : int
        How often the party asked most often was asked: each answer is a release of its own.
    delta : float
        Within (0, 1).
    """
    return PrivacyClaim(
        unit="record",
        adversary=SERVER,
        epsilon=Accountant().compose(mechanism.dp_event(), times).epsilon(delta),
        delta=delta,
        neighbouring_relation=RELATION,
        publishable=True,
        basis="proven",
        mechanism=mechanism.words + (f"; {times} releases" if times > 1 else ""),
        protects_from="the server and everyone after it; the party adds the noise itself",
        notes=_exposure(delta, None, "record"),
    )
