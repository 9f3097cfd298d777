"""What a release of noisy counts may claim."""

from __future__ import annotations

from fedkd_flwr.privacy.claims.claim import EVERYONE, SEEDED, SERVER, PrivacyClaim, _exposure
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.noise.sums import NoisyCounts

__all__ = ["READABLE", "RELATION", "noisy_sums"]

RELATION = "replace one record, number of records public"
"""What a run claims. The counts themselves would cover a record more or less too, but which rows a party keeps for
tests follows from how many it has."""

READABLE = "replace one record by another that its party can read, number of records public"
"""With noise at the server: a party that refuses because of a record takes all of its counts away."""


def noisy_sums(mechanism: NoisyCounts, *, at: str, times: int, delta: float, seeded: bool = False) -> PrivacyClaim:
    """Claim for noisy counts (noisy-sums): one record of one party.

    Parameters
    ----------
    mechanism : NoisyCounts
        Of one release.
    at : {"party", "server"}
        Who adds the noise: against the server, or against everyone who sees the result.
    times : int
        How often the party asked most often was asked: each answer is a release of its own.
    delta : float
        Within (0, 1).
    seeded : bool
        Whether any of the noise came from a seed: then nothing is claimed.
    """
    own = "the server and everyone after it; the party adds the noise itself"
    central = "everyone but the server, which sees each party's counts as they are and is trusted to add the noise"
    return PrivacyClaim(
        unit="record",
        adversary=SERVER if at == "party" else EVERYONE,
        epsilon=Accountant().compose(mechanism.dp_event(), times).epsilon(delta),
        delta=delta,
        neighbouring_relation=RELATION if at == "party" else READABLE,
        publishable=True,
        basis=SEEDED if seeded else "proven",
        mechanism=mechanism.words + (f"; {times} releases" if times > 1 else ""),
        protects_from=own if at == "party" else central,
        notes=_exposure(delta, None, "record"),
    )
