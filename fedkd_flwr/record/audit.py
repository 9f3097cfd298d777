"""What a membership audit found, as a run's record holds it."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["AttackFigures", "AuditRecord", "Measured", "ProvenEpsilon"]


@dataclass(kw_only=True)
class Measured:
    """A measured value within its 95 % interval."""

    value: float  # as measured
    low: float  # lower end of the interval
    high: float  # its upper end


@dataclass(kw_only=True)
class AttackFigures:
    """How well an attack told the rows that were trained on (members) from fresh rows of the same law."""

    members: int  # rows that were trained on
    fresh: int  # rows that were not
    auc: Measured  # area under the attack's ROC curve; 0.5 is guessing
    found_at_1_percent: Measured  # share of members found where so many fresh rows are taken for members
    found_at_1_permille: Measured  # the same at one in a thousand


@dataclass(kw_only=True)
class ProvenEpsilon:
    """A claim of the run, and the epsilon that the attack proves against it with 95 % confidence."""

    unit: str  # whom the claim is about: record or party
    neighbouring_relation: str  # which data sets the claim compares
    epsilon: float  # as claimed
    delta: float  # as claimed; the proof is at the same one
    proven: float  # a lower bound of the true epsilon


@dataclass(kw_only=True)
class AuditRecord:
    """What the membership audit (`fedkd_flwr.audit.run`) found about a simulated run."""

    sent: list[str]  # what the attacker saw, by payload name
    shadows: int  # shadow runs
    everybody: AttackFigures  # of all parties together
    parties: dict[str, AttackFigures]  # by party
    without_shadows: Measured  # AUC of an attacker without shadow runs
    claims: list[ProvenEpsilon] = field(default_factory=list)  # claims that the attack tested
    seconds: float = 0.0  # for the run, its shadows and the attack
