"""Mistakes of somebody who uses our clients and strategies in a project of his own: named, and early."""

import numpy as np
import pytest
from federation import model, party, public_set, rows
from rounds import fedkt_grid

from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.models.zoo import make_model
from fedkd_flwr.strategies import FedKT, FedKTConfig


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(60, 3), r"y of the public set must lie within -1..2, got 3 at row 0 \(60 such rows\)"),
        (np.full(60, "red"), r"y of the public set must hold integers"),
        (np.full(60, np.nan), r"y of the public set must hold integers"),
    ],
)
def test_labels_of_public_rows_are_checked(y, message):
    public = public_set()
    with pytest.raises(DataError, match=message):
        make_public_set(np.zeros((60, 2), np.float32), public.schema, y=y)


@pytest.mark.parametrize(
    ("final", "message"),
    [
        (model(seed=0), r"final_model must be a function that makes a Classifier.*got 'Classifier'"),
        (lambda *, seed: object(), r"final_model must be a function that makes a Classifier.*got 'object'"),
        (lambda *, seed: make_model("knn", num_classes=4, num_features=2, seed=seed), r"have the schema's 3 classes"),
    ],
)
def test_a_final_model_that_cannot_be_used_is_refused_before_anybody_answers(final, message):
    """All parties answer once, and their budgets are spent by then."""
    grid = fedkt_grid([party(name, *rows(20, seed=i)) for i, name in enumerate("ab")])
    strategy = FedKT(min_train_nodes=2, config=FedKTConfig(nodes_stable_s=1e-6), public=public_set(), final_model=final)
    with pytest.raises(ConfigError, match=message):
        strategy.start(grid)
    assert not strategy.roster.times_asked
