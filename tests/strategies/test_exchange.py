"""What every exchange refuses before anybody answers."""

import numpy as np
import pytest
from federation import model, public_set, rows
from flwr.app import Array, ArrayRecord
from grid import InProcessGrid

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.models.zoo import make_model
from fedkd_flwr.strategies import FedCT, FedCTConfig, FedKT, FedKTConfig, PrivateKT, PrivateKTConfig


def _net(*, seed):
    return make_model("mlp", num_classes=3, num_features=2, seed=seed)


def test_the_server_s_test_rows_are_checked_before_anybody_answers():
    X, y = rows(9, seed=2)
    with pytest.raises(DataError, match=r"test must have 2 features, got 1"):
        FedKT(public=public_set(), final_model=model, test=(X[:, :1], y))
    with pytest.raises(DataError, match=r"y of test must lie within 0..2, got 4"):
        FedKT(public=public_set(), final_model=model, test=(X, np.full(9, 4)))


def test_weights_to_start_from_are_taken_or_refused_never_ignored():
    given = ArrayRecord([np.zeros(2, np.float32)])
    with pytest.raises(ConfigError, match=r"initial_arrays must be left out with fedct, got 1 arrays"):
        FedCT(config=FedCTConfig(), public=public_set()).start(InProcessGrid(lambda *_: None, []), given)

    strategy = PrivateKT(config=PrivateKTConfig(), public=public_set(), global_model=_net)
    weights = [np.full_like(array, 0.5) for array in strategy.exchange.model.arrays()]
    strategy.prepare = lambda *_: (_ for _ in ()).throw(RuntimeError("far enough"))
    with pytest.raises(RuntimeError, match="far enough"):
        strategy.start(
            InProcessGrid(lambda *_: None, []), ArrayRecord({f"{i}": Array(w) for i, w in enumerate(weights)})
        )
    assert all((array == 0.5).all() for array in strategy.exchange.model.arrays())


def test_another_algorithm_s_settings_are_refused():
    with pytest.raises(ConfigError, match="config must be a FedCTConfig for FedCT, got 'FedKTConfig'"):
        FedCT(config=FedKTConfig(), public=public_set())
