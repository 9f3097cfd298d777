from collections.abc import Callable
from typing import Any

import pytest
from sample_claims import SWEPT

from benchmarks.harness.sweep import Point, Sweep


@pytest.fixture
def sweep_claim() -> dict[str, Any]:
    return dict(SWEPT)


@pytest.fixture
def make_sweep(sweep_claim) -> Callable[..., Sweep]:
    def make(**changes: Any) -> Sweep:
        accuracies = ((8.0, 0.81), (1.0, 0.71), (2.0, 0.76))
        settings = {
            "name": "fedkt-adult",
            "varied": "epsilon",
            "measure": "the server's model",
            "claim": sweep_claim,
            "seeds": [1, 2, 3],
            "points": [Point(value=e, epsilon=e, accuracies=[a - 0.02, a, a + 0.03]) for e, a in accuracies],
            "without_noise": [0.82, 0.83, 0.84],
            "alone": [0.66, 0.67, 0.68],
            "command": "python benchmarks/sweep.py <b>",
        }
        return Sweep(**settings | changes)

    return make
