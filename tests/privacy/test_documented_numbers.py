"""Every privacy figure that the documentation's arguments rest on, computed again, rounded up, found in the text."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from scripts import ROOT, script

from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.calibration import calibrate_votes
from fedkd_flwr.privacy.cost.events import event_to_json
from fedkd_flwr.privacy.ledger.filter import cost_of, order, spent, spent_text
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.privacy.noise.votes import GaussianMax, LaplaceMax
from fedkd_flwr.report.claims import bound_text

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
        pieces = [[integrate.quad(density, *ends, args=(i,))[0] for ends in pairwise(edges)] for i in range(3)]
        return np.sum(pieces, axis=1)

    before, after = odds((0, 40, 16)), odds((1, 39, 16))
    three = np.maximum(after - math.exp(epsilon) * before, 0).sum()
    return three, Accountant().compose(LaplaceMax(gamma=gamma, winner_of_two=True).dp_event()).delta(epsilon)


def _hundred_labels():
    """The tight epsilon of 100 labels of epsilon 1, ten classes, and the least budget that covers them."""
    label = RandomizedResponse(epsilon=1.0, num_classes=10).dp_event()
    return script("benchmarks/ledger_filter.py").price(label, 100, DELTA)


NFDP, SMALL = (Subsampling(num_rows=2880, subset_rows=k, replacement=True) for k in (2880, 300))


def _sigma(queries):
    return calibrate_votes("gaussian", num_queries=queries, epsilon=2.0, delta=DELTA).sigma


def _spent(queries, runs=1, votes=1):
    """Runs that ask for epsilon 2 each, composed, where one change moves so many votes."""
    event = GaussianMax(sigma=_sigma(queries), votes=votes).dp_event()
    return Accountant().compose(event, queries * runs).epsilon(DELTA)


def _counted(queries, runs):
    """The same by the filter of a budget of 3.3."""
    cost = cost_of([(event_to_json(GaussianMax(sigma=_sigma(queries)).dp_event()), queries * runs)], order(3.3, DELTA))
    return spent([(0, cost)], np.ones((1, 1), dtype=bool), epsilon=3.3, delta=DELTA)[0]


def _bound(template, *values, digits=3):
    return template.format(*(bound_text(value, digits) for value in values))


LEDGER, CLAIMS, ACCOUNTING = (f"docs/understand/{page}.md" for page in ("ledger", "published-claims", "accounting"))
RUN, BUDGET = (f"docs/howto/{page}.md" for page in ("private-run", "budget"))
FIGURES = {
    f"{CLAIMS}, FedCT's bits, exactly": lambda: f"p = {_fedct().flip_probability:.7f} (",
    f"{CLAIMS}, FedCT's bits, as published": lambda: f"({_fedct(10**0.5).flip_probability:.7f} under",
    f"{CLAIMS}, their signal in a vote of five": lambda: f"{_signal(5):.6f} standard deviations",
    f"{CLAIMS}, their proven cost": lambda: _bound(
        "400 rounds is {}", Accountant().compose(_fedct().dp_event(), 400 * 50_000).epsilon(DELTA), digits=2
    ),
    f"{CLAIMS}, PrivateKT, 50 times": lambda: _bound("50 participations cost {}", _privatekt(50)),
    f"{CLAIMS}, PrivateKT, 250 times": lambda: _bound("cost {} (", _privatekt(250)),
    f"{CLAIMS}, NFDP": lambda: _bound("base 10 it is {},", NFDP.epsilon, digits=4),
    f"{CLAIMS}, NFDP, delta": lambda: _bound("delta = {}", NFDP.delta),
    f"{CLAIMS}, NFDP, k = 300": lambda: _bound("epsilon {}, delta {}", SMALL.epsilon, SMALL.delta),
    f"{LEDGER}, a budget's filter": lambda: _bound("{} tight and {} by the filter", *_hundred_labels()),
    f"{CLAIMS}, FedKT, gamma 0.04, 81 queries": lambda: _bound(
        "we claim {} for labels and {} for counts", _votes(True), _votes(False)
    ),
    f"{CLAIMS}, Confident-GNMax": lambda: "the formula gives {:.3f}, the exact epsilon is {:.3f}".format(*_confident()),
    f"{ACCOUNTING}, more classes, noise": lambda: (
        "{:.0%} of cases with Gaussian and {:.0%} with Laplace noise at 3 classes, "
        "and in {:.0%} against {:.0%} at 10".format(*_right()).replace("%", " %")
    ),
    f"{ACCOUNTING}, three classes": lambda: (
        "at epsilon 0.165 than any step between two classes ({:.5f} against {:.5f})".format(*_three_and_two_classes())
    ),
    f"{RUN}, noise of 200 queries": lambda: f"standard deviation {_sigma(200):.4f} votes",
    f"{BUDGET}, two runs in words": lambda: _bound("compose to {}, which", _spent(50, 2)),
    f"{BUDGET}, what its budget counts": lambda: _bound("counts as {}", _counted(50, 2)),
    f"{BUDGET}, two runs": lambda: f"spent epsilon {spent_text(_spent(50, 2))} at",
    f"{BUDGET}, what a budget counts": lambda: "epsilon {} spent before, {} asked, {} together".format(
        *(spent_text(_counted(50, n)) for n in (2, 1, 3))
    ),
    f"{BUDGET}, what is left": lambda: f"left epsilon {3.3 - float(spent_text(_counted(50, 2))):.5f} of 3.3",
    f"{RUN}, all of a party's 25 teachers": lambda: _bound(
        "everything a party holds at epsilon {}", _spent(50, votes=25), digits=4
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_privacy_figure_of_a_page_is_what_the_code_computes(name):
    page = (ROOT / name.split(",")[0]).read_text(encoding="utf-8")
    assert FIGURES[name]() in " ".join(page.split())
