"""What torch nets and transformers share: random numbers of their own, and state as named tensors."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fedkd_flwr.models import make_model  # noqa: E402  # after the skip
from fedkd_flwr.models._net_state import check_weights, load_optimizer, split_weights  # noqa: E402


def mlp(**params):
    params = {"hidden": [32], **params}
    return make_model("mlp", num_classes=10, num_features=64, seed=0, params=params)


def test_the_same_seed_gives_the_same_net_whatever_else_drew_from_torch(digits):
    X, y, X_test, _ = digits
    torch.manual_seed(1)
    first = mlp(epochs=2, dropout=0.3).fit(X, y).predict_proba(X_test)
    torch.rand(17)
    assert np.array_equal(first, mlp(epochs=2, dropout=0.3).fit(X, y).predict_proba(X_test))


def test_weights_stand_under_their_own_names_beside_all_other_tensors():
    one, other = torch.ones(1), torch.zeros(2)
    assert split_weights({"model.a.b": one, "rng": other}) == ({"a.b": one}, {"rng": other})


@pytest.mark.parametrize(
    "weights",
    [
        {},
        {"weight": torch.ones(2, 3)},
        {"weight": torch.ones(2, 3), "bias": torch.ones(3)},
        {"weight": torch.ones(2, 3), "bias": torch.ones(2, dtype=torch.float64)},
        {"weight": torch.ones(2, 3), "bias": torch.ones(2), "more": torch.ones(1)},
    ],
)
def test_weights_of_another_architecture_are_refused_and_building_it_takes_no_memory(weights):
    check_weights({"weight": torch.ones(2, 3), "bias": torch.ones(2)}, lambda: torch.nn.Linear(3, 2))
    with pytest.raises(ValueError, match="other names or shapes"):
        check_weights(weights, lambda: torch.nn.Linear(3, 2))
    with pytest.raises(ValueError, match="other names or shapes"):
        check_weights(weights, lambda: torch.nn.Linear(2**24, 2**24))  # a million gigabytes


def test_an_optimiser_goes_on_from_its_named_tensors():
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    states = optimizer.state_dict()["state"]
    named = {f"optimizer.{i}.{name}": value for i, one in states.items() for name, value in one.items()}
    fresh = torch.optim.Adam(torch.nn.Linear(3, 2).parameters())
    load_optimizer(fresh, named)
    again = fresh.state_dict()["state"]
    assert all(torch.equal(again[i][name], value) for i, one in states.items() for name, value in one.items())
