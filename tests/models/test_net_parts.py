"""What torch nets and transformers share: each loss is the formula of its name, rows are shown in whole passes."""

import numpy as np
import pytest
from models.model_files import mlp

torch = pytest.importorskip("torch")

from fedkd_flwr.models._net_parts import (  # noqa: E402
    LOSSES,
    check_weights,
    joint_loss,
    load_optimizer,
    mixed,
    split_weights,
)
from fedkd_flwr.models.training import LOSS_NAMES  # noqa: E402


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


def test_each_loss_is_the_named_formula(digits):
    X, y, _, _ = digits
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(10), size=400).astype(np.float32)
    model = mlp().initialize()
    z, p = model.logits(X).astype(float), model.predict_proba(X)
    expected = {
        "cross-entropy": -(probs * np.log(p)).sum(axis=1).mean(),
        "l1-logits": np.abs(z - probs).mean(),
        "mse-probs": ((p - probs) ** 2).mean(),
    }
    logits, targets = torch.from_numpy(model.logits(X)), torch.from_numpy(probs)
    assert tuple(LOSSES) == LOSS_NAMES
    for name, value in expected.items():
        assert np.isclose(float(LOSSES[name](logits, targets)), value, rtol=1e-4)
        joint = joint_loss(LOSSES[name], 0.3)(torch.cat((logits, logits)), (torch.from_numpy(y), targets))
        own = -np.log(p[np.arange(400), y]).mean()
        assert np.isclose(float(joint), own + 0.3 * value, rtol=1e-4)


def test_public_rows_are_all_used_before_one_returns():
    own = torch.full((2, 1), -1.0), torch.zeros(2)
    public = torch.arange(20.0).reshape(20, 1), torch.zeros(20)
    seen = torch.cat([public[0] for _, public in mixed([own, public], [4, 4], 5)]).ravel()
    assert sorted(seen.tolist()) == list(range(20))
