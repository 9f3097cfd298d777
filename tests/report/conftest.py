"""Invented run records. Their numbers mean nothing; their structure is that of real results."""

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.notes import Note
from fedkd_flwr.record.run_record import PartyRecord, Rejection, RoundRecord, RunRecord

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> $\\frac{$ \u202e\x1b[31m &lt;"

_MODELS = ("decision-tree", "random-forest", "logistic-regression", "hist-gradient-boosting", "knn")


def _measured(common: float, own: float) -> dict[str, Metrics]:
    return {"common": Metrics(n=2000, accuracy=float(common)), "own": Metrics(n=40, accuracy=float(own))}


def sample(
    parties: int = 10, rounds: int = 5, *, algorithm: str = "fedct", model: str = "", seed: int = 1
) -> RunRecord:
    """Return a completed simulation's record."""
    rng = np.random.default_rng(seed)
    names = [f"party-{i:03d}" for i in range(parties)]
    solo = np.clip(rng.normal(0.62, 0.12, parties), 0.15, 0.9)
    after = np.clip(0.88 + rng.normal(0.0, 0.025, parties), 0.0, 1.0)
    record = RunRecord(
        run_id="7300123456789012345",
        algorithm=algorithm,
        sends="labels",
        one_shot=algorithm in ("fedkt", "pate"),
        started="2026-01-31T09:30:00+00:00",
        status="completed",
        simulation=True,
        seed=seed,
        config={"algorithm": algorithm, "num-parties": parties, "num-rounds": rounds, "quorum": 0.9,
                "data-root": "/home/ann/data/adult.csv", "distrust": "auto"},
        versions={"fedkd-flwr": "0.1.0", "flwr": "1.41.0", "scikit-learn": "1.9.0", "python": "3.11.9"},
        num_public=10_000,
        num_classes=10,
        classes=[str(i) for i in range(10)],
        fingerprint="9f" * 32,
        startup_seconds=4.2,
        seconds=23.4,
        server_model="random-forest /home/ann/.fedkd/runs/7/model.skops" if algorithm == "fedkt" else "",
        server={"common": Metrics(n=2000, accuracy=0.893)} if algorithm == "fedkt" else {},
        centralised={"common": Metrics(n=2000, accuracy=0.934)},
        centralised_model="random-forest",
    )  # fmt: skip
    for i, name in enumerate(names):
        record.parties.append(
            PartyRecord(
                name=name,
                model=model or _MODELS[i % len(_MODELS)],
                solo=_measured(solo[i], min(1.0, solo[i] + 0.2)),
                federated=_measured(after[i], after[i]),
                model_bytes=int(rng.integers(40_000, 900_000)) if not model else 2_600_000,
            )
        )
    for r in range(1, rounds + 1):
        progress = 1.0 - math.exp(-r / 2.0)
        record.rounds.append(
            RoundRecord(
                server_round=r,
                asked=parties,
                answered=list(names),
                agreement=0.55 + 0.4 * progress,
                labelled_share=0.5 + 0.48 * progress,
                changed_share=None if r == 1 else 0.3 * (1 - progress),
                consensus_accuracy=0.75 + 0.15 * progress,
                accuracy={n: float(s + (a - s) * progress) for n, s, a in zip(names, solo, after, strict=True)},
                bytes_down=parties * (0 if r == 1 else 5_040),
                bytes_up=parties * (5_130 if r == 1 else 590),
                seconds=2.1,
            )
        )
    return record


def failed() -> RunRecord:
    """Return the record of a run in which too few parties answered."""
    record = sample(5, 1)
    first = record.rounds[0]
    first.answered = ["party-000"]
    first.bytes_up = 5_130
    codes = ["no-reply", "class-outside-schema", "wrong-public-set", "a-code-of-tomorrow"]
    for i, code in enumerate(codes, 1):
        first.rejected.append(Rejection(party=f"party-{i:03d}", node_id=str(10**18 + i), code=code))
    first.rejected.append(Rejection(party="", node_id="9" * 19, code="bad-payload"))
    record.parties = [PartyRecord(name=f"party-{i:03d}", model="decision-tree") for i in range(5)]
    record.status = "failed"
    record.reason = "min-parties must be reached in round 1, got 1 valid reply of 5: party-001 (no-reply)."
    record.centralised = {}
    return record


_CLAIM = {"unit": "record", "adversary": "server", "epsilon": 1.0, "delta": 1e-5, "publishable": True}
_CLAIM |= {"neighbouring relation": "replace one record", "basis": "proven"}
_PRIVATE = {"unit": "party", "adversary": "everyone who sees the result", "epsilon": 4.73, "publishable": False}
_PRIVATE |= {"neighbouring relation": "replace one party", "basis": "none: seeded"}


@pytest.fixture
def make_record() -> Callable[..., RunRecord]:
    return sample


@pytest.fixture
def failed_record() -> RunRecord:
    return failed()


@pytest.fixture
def claims() -> list[dict[str, Any]]:
    return [dict(_CLAIM), {**_CLAIM, **_PRIVATE}]


@pytest.fixture
def hostile() -> str:
    return HOSTILE


@pytest.fixture
def hostile_record() -> RunRecord:
    """Return a record in which every text, and every key, tries to break out."""
    record = sample(3, 2)
    record.rounds[0].rejected = [Rejection(party=HOSTILE, node_id=HOSTILE, code=HOSTILE)]
    record.rounds[1].rejected = [Rejection(party="", node_id=HOSTILE, code=HOSTILE)]
    for r in record.rounds:
        r.answered = [HOSTILE + name for name in r.answered]
        r.accuracy = {HOSTILE + name: value for name, value in r.accuracy.items()}
    for i, party in enumerate(record.parties):
        party.name, party.model, party.notes = f"{HOSTILE}{i}", HOSTILE, [Note(HOSTILE, {HOSTILE: HOSTILE})]
    record.config = {HOSTILE: HOSTILE, "list": [HOSTILE]}
    record.versions = {HOSTILE: HOSTILE}
    record.classes = [HOSTILE]
    record.claims = [{"unit": HOSTILE, "adversary": HOSTILE, "epsilon": HOSTILE, "basis": HOSTILE, HOSTILE: HOSTILE}]
    record.notes = [Note(HOSTILE, {"text": HOSTILE})]
    for name in ("run_id", "algorithm", "started", "reason", "fingerprint", "server_model", "centralised_model"):
        setattr(record, name, HOSTILE)
    record.server = {"common": Metrics(n=2000, accuracy=0.8)}
    return record


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write pages without pictures, which take most of their time: for tests of what the pages say."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
