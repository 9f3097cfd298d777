"""Every privacy figure that the documentation's arguments rest on, computed again and found in the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.calibration import calibrate_gaussian
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.privacy.noise.votes import GaussianMax, LaplaceMax
from fedkd_flwr.report.claims import bound_text

ROOT = Path(__file__).parents[2]
DELTA = 1e-5


def _fedct(calibration="exact"):
    """FedCT at epsilon 0.1 for 3,000 bits: the noise of one label, two bits."""
    return BitFlip(epsilon=2 * 0.1 / 3000, num_classes=10, calibration=calibration)


def _privatekt(participations):
    label = RandomizedResponse(epsilon=2.5, num_classes=10)
    return Accountant().compose(label.dp_event(), 2 * participations).epsilon(DELTA)


def _signal(parties):
    flip = _fedct().flip_probability
    return parties * (1 - 2 * flip) / (parties * flip * (1 - flip)) ** 0.5


NFDP, SMALL = (Subsampling(num_rows=2880, subset_rows=k, replacement=True) for k in (2880, 300))
FIGURES = {
    "FedCT's bits, exactly": ("0.4999917", f"{_fedct().flip_probability:.7f}"),
    "FedCT's bits, as published": ("0.4999974", f"{_fedct('paper').flip_probability:.7f}"),
    "their signal in a vote of five": ("0.00007 standard deviations", f"{_signal(5):.5f} standard deviations"),
    "their proven cost": (
        "400 rounds is 0.77",
        f"400 rounds is {Accountant().compose(_fedct().dp_event(), 400 * 50_000).epsilon(DELTA):.2f}",
    ),
    "PrivateKT, 50 times": ("50 participations cost 190", f"50 participations cost {_privatekt(50):.0f}"),
    "PrivateKT, 250 times": ("cost 795", f"cost {_privatekt(250):.0f}"),
    "NFDP, epsilon": ("0.9998", f"{NFDP.epsilon:.4f}"),
    "NFDP, delta": ("delta = 0.632", f"delta = {NFDP.delta:.3f}"),
    "NFDP, k = 300": ("epsilon 0.104, delta 0.099", f"epsilon {SMALL.epsilon:.3f}, delta {SMALL.delta:.3f}"),
    "FedKT, gamma 0.04, 81 queries": (
        "we claim 2.00",
        f"we claim {Accountant().compose(LaplaceMax(gamma=0.04).dp_event(), 81).epsilon(DELTA):.2f}",
    ),
}


def _spent(queries, runs=1, votes=1):
    """Runs that ask for epsilon 2 each, composed, where one change moves so many votes."""
    noise = calibrate_gaussian(num_queries=queries, epsilon=2.0, delta=DELTA).sigma
    return Accountant().compose(GaussianMax(sigma=noise, votes=votes).dp_event(), queries * runs).epsilon(DELTA)


FIGURES = {f"docs/privacy.md, {name}": figure for name, figure in FIGURES.items()} | {
    "README.md, noise of 200 queries": (
        "standard deviation 39.8763 votes",
        f"standard deviation {calibrate_gaussian(num_queries=200, epsilon=2.0, delta=DELTA).sigma:.4f} votes",
    ),
    "docs/deploy.md, two runs": ("epsilon 2.95358 spent before", f"epsilon {_spent(50, 2):.6g} spent before"),
    "docs/deploy.md, three runs": ("3.72184 together", f"{_spent(50, 3):.6g} together"),
    "docs/deploy.md, what is left": ("left epsilon 0.0464167 of 3", f"left epsilon {3 - _spent(50, 2):.6g} of 3"),
    "docs/quickstart.md, all of a party's 25 teachers": (
        "everything a party holds at epsilon 131.3",
        f"everything a party holds at epsilon {bound_text(_spent(50, votes=25))}",
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_privacy_figure_of_a_page_is_what_the_code_computes(name):
    written, computed = FIGURES[name]
    assert written in _words(name.split(",")[0])
    assert computed == written


def _words(page):
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())
