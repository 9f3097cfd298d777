"""Every privacy figure that the documentation's arguments rest on, computed again, rounded up, found in the text."""

from __future__ import annotations

import importlib.util
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.calibration import calibrate_votes
from fedkd_flwr.privacy.cost.events import event_to_json
from fedkd_flwr.privacy.ledger.filter import cost_of, order, spent, spent_text
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.privacy.noise.votes import GaussianMax, LaplaceMax
from fedkd_flwr.report.claims import bound_text

ROOT = Path(__file__).parents[2]
DELTA = 1e-5


def _fedct(loss=1.0):
    """FedCT at epsilon 0.1 for 3,000 bits: the noise of one label, two bits; the paper loses a factor sqrt(C)."""
    return BitFlip(epsilon=2 * 0.1 / 3000 / loss, num_classes=10)


def _privatekt(participations):
    label = RandomizedResponse(epsilon=2.5, num_classes=10)
    return Accountant().compose(label.dp_event(), 2 * participations).epsilon(DELTA)


def _signal(parties):
    flip = _fedct().flip_probability
    return parties * (1 - 2 * flip) / (parties * flip * (1 - flip)) ** 0.5


def _votes(winner_of_two):
    return Accountant().compose(LaplaceMax(gamma=0.04, winner_of_two=winner_of_two).dp_event(), 81).epsilon(DELTA)


def _confident():
    """The expected cost of one query, and its exact epsilon: no answer, class 0, class 1, before and after."""
    answered = [stats.norm.cdf((highest - 6) / 3) for highest in (1, 2)]
    right = [stats.norm.cdf(gap / (0.5 * math.sqrt(2))) for gap in (0, 2)]
    p, q = (np.array([1 - a, a * r, a * (1 - r)]) for a, r in zip(answered, right, strict=True))
    exact = optimize.brentq(lambda e: np.maximum(p - np.exp(e) * q, 0).sum() - DELTA, 0, 20)
    orders = np.linspace(1.01, 100, 20_000)
    cost = orders / (2 * 3**2) + answered[0] * orders / 0.5**2
    return (cost + math.log(1 / DELTA) / (orders - 1)).min(), exact


def _right(ahead=20):
    """How often a winner so far ahead of all others wins, at equal epsilon."""
    target = {"num_queries": 100, "epsilon": 4.0, "delta": DELTA}
    laws = (
        stats.norm(scale=calibrate_votes("gaussian", **target).sigma),
        stats.laplace(scale=1 / calibrate_votes("laplace", **target).gamma),
    )
    x = np.linspace(-400, 500, 90_001)
    return [np.trapezoid(law.pdf(x - ahead) * law.cdf(x) ** (classes - 1), x) for classes in (3, 10) for law in laws]


def _three_and_two_classes(gamma=0.1, epsilon=0.165):
    """Delta of the label of three classes, votes (0, 40, 16) and (1, 39, 16); and of the worst label of two."""

    def odds(votes):
        def density(x, i):
            return stats.laplace.pdf(x - gamma * votes[i]) * math.prod(
                stats.laplace.cdf(x - gamma * other) for j, other in enumerate(votes) if j != i
            )

        edges = [-30.0, *sorted(gamma * v for v in votes), 40.0]
        return np.array(
            [sum(integrate.quad(density, *ends, args=(i,))[0] for ends in pairwise(edges)) for i in range(3)]
        )

    before, after = odds((0, 40, 16)), odds((1, 39, 16))
    three = np.maximum(after - math.exp(epsilon) * before, 0).sum()
    return three, Accountant().compose(LaplaceMax(gamma=gamma, winner_of_two=True).dp_event()).delta(epsilon)


def _hundred_labels():
    """The tight epsilon of 100 labels of epsilon 1, ten classes, and the least budget that covers them."""
    spec = importlib.util.spec_from_file_location("ledger_filter", ROOT / "benchmarks" / "ledger_filter.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script.price(RandomizedResponse(epsilon=1.0, num_classes=10).dp_event(), 100, DELTA)


NFDP, SMALL = (Subsampling(num_rows=2880, subset_rows=k, replacement=True) for k in (2880, 300))
FIGURES = {
    "FedCT's bits, exactly": ("0.4999917", lambda: f"{_fedct().flip_probability:.7f}"),
    "FedCT's bits, as published": ("0.4999974", lambda: f"{_fedct(10**0.5).flip_probability:.7f}"),
    "their signal in a vote of five": ("0.000075 standard deviations", lambda: f"{_signal(5):.6f} standard deviations"),
    "their proven cost": (
        "400 rounds is 0.77",
        lambda: (
            f"400 rounds is {bound_text(Accountant().compose(_fedct().dp_event(), 400 * 50_000).epsilon(DELTA), 2)}"
        ),
    ),
    "PrivateKT, 50 times": (
        "50 participations cost 190",
        lambda: f"50 participations cost {bound_text(_privatekt(50), 3)}",
    ),
    "PrivateKT, 250 times": ("cost 795", lambda: f"cost {bound_text(_privatekt(250), 3)}"),
    "NFDP, epsilon": ("0.9999", lambda: bound_text(NFDP.epsilon)),
    "NFDP, delta": ("delta = 0.633", lambda: f"delta = {bound_text(NFDP.delta, 3)}"),
    "NFDP, k = 300": (
        "epsilon 0.105, delta 0.099",
        lambda: f"epsilon {bound_text(SMALL.epsilon, 3)}, delta {bound_text(SMALL.delta, 3)}",
    ),
    "a budget's filter": (
        "37.3 tight and 39.5 by the filter",
        lambda: "{} tight and {} by the filter".format(*(bound_text(epsilon, 3) for epsilon in _hundred_labels())),
    ),
    "FedKT, gamma 0.04, 81 queries": (
        "we claim 1.38 for labels and 2.01 for counts",
        lambda: f"we claim {bound_text(_votes(True), 3)} for labels and {bound_text(_votes(False), 3)} for counts",
    ),
    "Confident-GNMax": (
        "the formula gives 3.617, the exact epsilon is 4.718",
        lambda: f"the formula gives {_confident()[0]:.3f}, the exact epsilon is {_confident()[1]:.3f}",
    ),
    "more classes, noise": (
        "72 % of cases with Gaussian and 66 % with Laplace noise at 3 classes, and in 44 % against 33 % at 10",
        lambda: (
            "{:.0%} of cases with Gaussian and {:.0%} with Laplace noise at 3 classes, "
            "and in {:.0%} against {:.0%} at 10".format(*_right()).replace("%", " %")
        ),
    ),
    "three classes": (
        "at epsilon 0.165 than any step between two classes (0.00015 against 0.00009)",
        lambda: "at epsilon 0.165 than any step between two classes ({:.5f} against {:.5f})".format(
            *_three_and_two_classes()
        ),
    ),
}


def _sigma(queries):
    return calibrate_votes("gaussian", num_queries=queries, epsilon=2.0, delta=DELTA).sigma


def _spent(queries, runs=1, votes=1):
    """Runs that ask for epsilon 2 each, composed, where one change moves so many votes."""
    return (
        Accountant().compose(GaussianMax(sigma=_sigma(queries), votes=votes).dp_event(), queries * runs).epsilon(DELTA)
    )


def _counted(queries, runs):
    """The same by the filter of a budget of 3.3."""
    cost = cost_of([(event_to_json(GaussianMax(sigma=_sigma(queries)).dp_event()), queries * runs)], order(3.3, DELTA))
    return spent([(0, cost)], np.ones((1, 1), dtype=bool), epsilon=3.3, delta=DELTA)[0]


PAGES = {"a budget's filter": "ledger", "more classes, noise": "accounting", "three classes": "accounting"}
FIGURES = {
    f"docs/understand/{PAGES.get(name, 'published-claims')}.md, {name}": figure for name, figure in FIGURES.items()
} | {
    "docs/howto/private-run.md, noise of 200 queries": (
        "standard deviation 39.8763 votes",
        lambda: f"standard deviation {_sigma(200):.4f} votes",
    ),
    "docs/howto/budget.md, two runs in words": (
        "compose to 2.96, which",
        lambda: f"compose to {bound_text(_spent(50, 2), 3)}, which",
    ),
    "docs/howto/budget.md, what its budget counts": (
        "counts as 3.21",
        lambda: f"counts as {bound_text(_counted(50, 2), 3)}",
    ),
    "docs/howto/budget.md, two runs": (
        "spent epsilon 2.95359 at",
        lambda: f"spent epsilon {spent_text(_spent(50, 2))} at",
    ),
    "docs/howto/budget.md, what a budget counts": (
        "epsilon 3.20137 spent before, 2.32206 asked, 4.08067 together",
        lambda: "epsilon {} spent before, {} asked, {} together".format(
            *(spent_text(_counted(50, n)) for n in (2, 1, 3))
        ),
    ),
    "docs/howto/budget.md, what is left": (
        "left epsilon 0.09863 of 3.3",
        lambda: f"left epsilon {3.3 - float(spent_text(_counted(50, 2))):.5f} of 3.3",
    ),
    "docs/howto/private-run.md, all of a party's 25 teachers": (
        "everything a party holds at epsilon 131.3",
        lambda: f"everything a party holds at epsilon {bound_text(_spent(50, votes=25))}",
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_privacy_figure_of_a_page_is_what_the_code_computes(name):
    written, compute = FIGURES[name]
    assert written in _words(name.split(",")[0])
    assert compute() == written


def _words(page):
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())
