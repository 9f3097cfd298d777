"""What a budget that holds against adaptive servers costs: its filter against tight composition.

For each kind of release: the tight epsilon of many, the least budget whose filter covers them, and the price. Run:

    python benchmarks/ledger_filter.py
    python benchmarks/ledger_filter.py --scan

``--scan`` looks for the worst: three mechanisms, seventeen strengths, twelve numbers of releases.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from scipy.optimize import brentq

from fedkd_flwr.privacy import dp
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.events import ApproximateEvent, Event
from fedkd_flwr.privacy.ledger.entry import Entry, plain_events
from fedkd_flwr.privacy.ledger.ledger import Budget, Ledger
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse

DIGEST = "0" * 64


def _labels(epsilon: float, num_classes: int) -> Event:
    return RandomizedResponse(epsilon=epsilon, num_classes=num_classes).dp_event()


RELEASES: dict[str, tuple[Event, int]] = {
    "labels, epsilon 1, C = 10": (_labels(1.0, 10), 100),
    "labels, epsilon 1, C = 10, few": (_labels(1.0, 10), 10),
    "labels, epsilon 0.1, C = 10": (_labels(0.1, 10), 500),
    "labels, epsilon 0.01, C = 10": (_labels(0.01, 10), 5000),
    "labels, epsilon 0.1, C = 2": (_labels(0.1, 2), 500),
    "bit flips, epsilon 0.5, C = 10": (BitFlip(epsilon=0.5, num_classes=10).dp_event(), 200),
    "Laplace votes, gamma 0.04": (dp.LaplaceDpEvent(12.5), 162),
    "Laplace votes, gamma 0.25": (dp.LaplaceDpEvent(2.0), 40),
    "Gaussian, noise 40": (dp.GaussianDpEvent(40.0), 1),
    "Gaussian, noise 3.73": (dp.GaussianDpEvent(3.73), 1),
    "Gaussian, noise 3.73, many": (dp.GaussianDpEvent(3.73), 100),
}


def price(event: Event, count: int, delta: float) -> tuple[float, float]:
    """Return the tight epsilon, and the least budget that covers so many releases."""
    entry = Entry(
        run_id="1",
        server_round=1,
        algorithm="-",
        mechanism="-",
        unit="record",
        adversary="server",
        neighbouring_relation="-",
        events=plain_events([(event, count)]),
        when="2026-01-01T00:00:00+00:00",
        reply_digest=DIGEST,
        data=DIGEST,
    )
    ledger = Ledger(party="-", data_digest=DIGEST, entries=(entry,))
    tight = Accountant().compose(event, count).epsilon(delta)

    def lacks(epsilon: float) -> float:
        return float(ledger.counted(Budget(epsilon=epsilon, delta=delta)).max()) - epsilon

    return tight, float(brentq(lacks, tight / 2, 4 * tight, rtol=1e-4))


KINDS: dict[str, Event] = {
    **{f"labels, epsilon {e}, C = {c}": _labels(e, c) for e in (0.01, 0.1, 0.5, 1.0, 2.0, 4.0) for c in (2, 10)},
    **{f"Laplace votes, gamma {g}": dp.LaplaceDpEvent(1 / g) for g in (0.02, 0.08, 0.5, 2.0)},
    **{f"Gaussian, noise {noise}": dp.GaussianDpEvent(noise) for noise in (1, 2, 5, 10, 20, 40, 100)},
}
COUNTS = (1, 2, 3, 5, 8, 13, 20, 40, 100, 300, 1000, 3000)
RANGES = ((0.0, 0.1), (0.1, 0.5), (0.5, 1.0), (1.0, 10.0), (10.0, 100.0))


def of_best_order(event: Event, count: int, delta: float) -> float:
    """Return the price under the Renyi order that is best for these releases, which no filter can know beforehand."""
    account = Accountant().compose(event, count)
    tilts = np.geomspace(0.05, 2000, 400)
    epsilons = [(account.cumulant(t) - math.log1p(t) - t * math.log1p(1 / t) - math.log(delta)) / t for t in tilts]
    return min(epsilons) / account.epsilon(delta) - 1


def scan(delta: float) -> None:
    """Print the prices by the size of the tight epsilon, and the worst of each."""
    found = [(*price(event, count, delta), f"{count} x {name}") for name, event in KINDS.items() for count in COUNTS]
    for low, high in RANGES:
        prices = sorted((budget / tight - 1, name) for tight, budget, name in found if low < tight <= high)
        above = sum(extra > 0.1 for extra, _ in prices)
        median, (worst, which) = prices[len(prices) // 2][0], prices[-1]
        count, name = which.split(" x ", 1)
        print(
            f"delta {delta:g}  tight epsilon {low:g} to {high:g}: {len(prices)} cases, median {median:.1%}, "
            f"{above} above 10 %, worst {worst:.1%} ({which}; {of_best_order(KINDS[name], int(count), delta):.1%} by "
            "the order that suits it best)"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--delta", type=float, action="append", help="where epsilon is measured (1e-5, 1e-3)")
    parser.add_argument("--scan", action="store_true", help="look for the worst prices, by the size of epsilon")
    arguments = parser.parse_args()
    for delta in arguments.delta or [1e-5, 1e-3]:
        if arguments.scan:
            scan(delta)
            continue
        subset = {"one subset for ever": (ApproximateEvent(0.11, 0.8 * delta), 1)}
        for name, (event, count) in (RELEASES | subset).items():
            tight, budget = price(event, count, delta)
            extra = budget / tight - 1 if tight < math.inf else 0.0
            print(f"delta {delta:g}  {name:32} x {count:5,}  tight {tight:8.4f}  filter {budget:8.4f}  {extra:6.1%}")


if __name__ == "__main__":
    main()
