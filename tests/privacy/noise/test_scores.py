"""Noise on class scores: its law, its grid, its sensitivity, and what it costs."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.noise import sampling
from fedkd_flwr.privacy.noise.scores import NoisyScores

laplace, gaussian = (partial(NoisyScores, noise=noise) for noise in ("laplace", "gaussian"))
CELL = 2.0**-20
ALL = [
    laplace(kind="probs", num_classes=4, scale=0.7),
    laplace(kind="logits", num_classes=4, scale=3.0, bound=2.0),
    gaussian(kind="probs", num_classes=4, scale=0.7),
    gaussian(kind="logits", num_classes=4, scale=3.0, bound=2.0),
]
IDS = [f"{m.noise}-{m.kind}" for m in ALL]


def _rows(count, seed=0, classes=4):
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.3), count)


def test_rows_of_probabilities_keep_their_sum_on_the_grid_so_that_two_differ_by_at_most_two():
    cells = ALL[0]._cells(_rows(3000))
    assert (cells.sum(axis=1) == 2**20).all()
    assert cells.min() >= 0
    distances = np.abs(cells[:1500] - cells[1500:]).sum(axis=1)
    assert distances.max() <= 2 * 2**20
    assert np.abs(cells * CELL - _rows(3000)).max() < 2 * CELL


def test_cells_that_rounding_leaves_over_go_to_the_largest_remainders_first():
    # 48 equal parts of 2^20 cells leave 16 over, of rows that need not have a sum of 1
    mechanism = laplace(kind="probs", num_classes=48, scale=1.0)
    cells = mechanism._cells(np.full((2, 48), 0.5))
    assert cells.dtype == np.int64
    assert (cells == [21846] * 16 + [21845] * 32).all()
    thirds = laplace(kind="probs", num_classes=3, scale=1.0)._cells(np.array([[2.0, 1.0, 1.0], [1.0, 5.0, 1.0]]))
    assert thirds.tolist() == [[2**19, 2**18, 2**18], [149797, 748983, 149796]]
    many = _rows(200)
    for row, exact in zip(ALL[0]._cells(many), many * 2**20, strict=True):
        rounded_up = set(np.flatnonzero(row > np.floor(exact)))
        assert rounded_up == set(np.argsort(np.floor(exact) - exact, kind="stable")[: len(rounded_up)])


@pytest.mark.parametrize("mechanism", ALL, ids=IDS)
def test_what_is_released_is_the_cells_plus_the_seeded_noise(mechanism):
    draw = sampling.laplace_units if mechanism.noise == "laplace" else sampling.gaussian_units
    parameter = 1 / mechanism.scale if mechanism.noise == "laplace" else mechanism.scale
    scores = _rows(6)
    released = mechanism.privatize(scores, rng=np.random.default_rng(4))
    noise = draw(parameter, (6, 4), np.random.default_rng(4))
    assert (released == (2 * mechanism._cells(scores) + noise) / 2**21).all()
    assert mechanism._cells(scores).dtype == np.int64


def test_rounding_never_makes_the_noise_smaller_than_the_event_says(monkeypatch):
    rates = []
    none = lambda rate, shape, rng: rates.append(rate) or np.zeros(shape, dtype=np.int64)  # noqa: E731
    monkeypatch.setattr(sampling, "laplace_units", none)
    for scale in np.random.default_rng(0).uniform(0.01, 50, 300):
        laplace(kind="probs", num_classes=2, scale=scale).privatize(np.eye(2))
        assert Fraction(rates[-1]) <= 1 / Fraction(scale)
        for kind, bound, squared in (("probs", 0.0, 2), ("logits", 2.5, 3 * 25)):
            event = gaussian(kind=kind, num_classes=3, scale=scale, bound=bound).dp_event()
            assert Fraction(event.noise_multiplier) ** 2 * squared <= Fraction(scale) ** 2


def test_logits_are_clipped_to_the_bound_even_where_it_is_no_grid_point_and_the_least_is_one_cell():
    assert laplace(kind="logits", num_classes=2, scale=1.0, bound=CELL).bound == CELL
    with pytest.raises(ConfigError, match="bound must be within"):
        laplace(kind="logits", num_classes=2, scale=1.0, bound=0.99 * CELL)
    mechanism = laplace(kind="logits", num_classes=4, scale=1.0, bound=0.3)
    cells = mechanism._cells(np.array([[5.0, -5.0, 0.1, np.float64(0.3)]]))
    assert np.abs(cells).max() * CELL <= mechanism.bound <= 0.3


@pytest.mark.parametrize("classes", [2, 10])
def test_the_cost_of_a_row_is_that_of_its_sensitivity(classes):
    """By hand: sum over places of distance / scale, and distance / sigma."""
    probs = laplace(kind="probs", num_classes=classes, scale=8.0)
    logits = laplace(kind="logits", num_classes=classes, scale=8.0, bound=3.0)
    for mechanism, worst in ((probs, 2.0), (logits, 2 * 3.0 * classes)):
        assert mechanism.pure_epsilon == worst / 8.0
        assert Accountant().compose(mechanism.dp_event()).epsilon(0.0) == pytest.approx(worst / 8.0)
    far = gaussian(kind="logits", num_classes=classes, scale=8.0, bound=3.0).dp_event().noise_multiplier
    near = gaussian(kind="probs", num_classes=classes, scale=8.0).dp_event().noise_multiplier
    for found, exact in ((far, 8.0 / (6.0 * math.sqrt(classes))), (near, 8.0 / math.sqrt(2))):
        assert exact * (1 - 1e-6) <= found <= exact


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.full((2, 4), np.nan), "probs must be finite"),
        (np.full((2, 4), -1.0), "probs must have a sum above 0"),
        (np.ones((2, 3)), r"probs must be floats of shape \(rows, 4\)"),
        (np.ones((2, 4), dtype=int), "probs must be floats"),
    ],
)
def test_scores_that_are_none_are_refused(scores, message):
    with pytest.raises(DataError, match=message):
        ALL[0].privatize(scores)
