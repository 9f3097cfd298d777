"""What PATE's bounds share: the conversion to epsilon, and queries cut into pieces that join without a seam."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pate_truth import ORDERS

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.cost import pate_bounds
from fedkd_flwr.privacy.cost.pate_bounds import rdp_epsilon
from fedkd_flwr.privacy.cost.pate_laplace import laplace_moments


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01, 0.5])
@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e-4, 0.1, 5.0])
def test_the_conversion_is_dp_accountings(delta, scale):
    from dp_accounting.rdp import compute_epsilon

    orders = np.array([1.1, 1.5, 2.0, 4.0, 16.0, 64.0, 512.0])
    expected, _ = compute_epsilon(orders, scale * orders, delta)
    assert math.isclose(rdp_epsilon(scale * orders, orders=orders, delta=delta), expected, rel_tol=1e-12, abs_tol=1e-15)


def test_many_rows_are_cut_into_chunks_that_join_without_a_seam(monkeypatch):
    counts = np.random.default_rng(0).multinomial(90, [0.8, 0.1, 0.1], size=500)
    whole = laplace_moments(counts, gamma=0.1, orders=ORDERS)
    monkeypatch.setattr(pate_bounds, "_CELLS", 35)
    np.testing.assert_allclose(laplace_moments(counts, gamma=0.1, orders=ORDERS), whole, rtol=1e-12)


@pytest.mark.parametrize("rdp", [[1.0], [-1.0, 1.0], [math.nan, 1.0]])
def test_divergences_that_do_not_fit_their_orders_are_refused(rdp):
    with pytest.raises(DataError, match="rdp must hold a number >= 0 per order"):
        rdp_epsilon(rdp, orders=[2.0, 3.0], delta=1e-5)


@pytest.mark.parametrize("delta", [0, 1, 1.5, -0.1, math.nan, True])
def test_delta_outside_0_to_1_is_refused(delta):
    with pytest.raises(ConfigError, match=r"delta must be within \(0, 1\), got"):
        rdp_epsilon([1.0], orders=[2.0], delta=delta)
