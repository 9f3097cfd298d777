"""Each loss is the formula of its name, and rows are shown in whole passes."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fedkd_flwr.models import make_model  # noqa: E402  # after the skip
from fedkd_flwr.models._steps import LOSSES, joint_loss, mixed  # noqa: E402
from fedkd_flwr.models.training import LOSS_NAMES  # noqa: E402


def test_each_loss_is_the_named_formula(digits):
    X, y, _, _ = digits
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(10), size=400).astype(np.float32)
    model = make_model("mlp", num_classes=10, num_features=64, seed=0, params={"hidden": [32]}).initialize()
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
