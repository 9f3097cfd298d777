import numpy as np
import pytest
from models.model_files import mlp
from sklearn.dummy import DummyClassifier

torch = pytest.importorskip("torch")

from fedkd_flwr.errors import ConfigError, DataError  # noqa: E402  # after the skip
from fedkd_flwr.models import Classifier  # noqa: E402
from fedkd_flwr.models.networks import TorchNet  # noqa: E402


def test_one_adam_step_is_torchs_own_to_rounding(digits):
    X, y, _, _ = digits
    net = TorchNet(num_classes=10, num_features=64, hidden=[32], batch_size=400, weight_decay=1e-3, max_steps=1)
    net.initialize()
    module = net.build()
    module.load_state_dict(net.module_.state_dict())
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, weight_decay=1e-3, fused=False)
    torch.nn.functional.cross_entropy(module(torch.from_numpy(X)), torch.from_numpy(y)).backward()
    optimizer.step()
    net.fit(X, y)
    for expected, got in zip(module.parameters(), net.module_.parameters(), strict=True):
        assert torch.allclose(expected, got, atol=1e-5)


def test_bfloat16_computes_layers_so_and_keeps_weights_losses_and_answers_in_float32(digits):
    X, y, X_test, y_test = digits
    exact, mixed_ = (mlp(precision=p, epochs=10).fit(X, y) for p in ("float32", "bfloat16"))
    net = mixed_.estimator
    assert net._outputs(torch.from_numpy(X[:3])).dtype == torch.float32
    assert {str(p.dtype) for p in net.module_.parameters()} == {"torch.float32"}
    difference = np.abs(exact.logits(X_test) - mixed_.logits(X_test)).max()
    assert 1e-4 < difference < 2.0
    assert abs((exact.predict(X_test) == y_test).mean() - (mixed_.predict(X_test) == y_test).mean()) < 0.02
    rounded = mixed_.logits(X_test)
    assert (rounded != torch.from_numpy(rounded).bfloat16().float().numpy()).any()  # answered in float32


def test_a_step_sees_half_own_and_half_public_rows(monkeypatch):
    net, batches = TorchNet(num_classes=2, num_features=1, batch_size=8), []
    monkeypatch.setattr(TorchNet, "_train", lambda self, chosen: batches.extend(chosen))
    own, public = (np.zeros((3, 1)), np.zeros(3, dtype=int)), (np.ones((20, 1)), np.ones(20, dtype=int))
    net.update_steps(*own, *public, 5)
    assert [y.tolist() for _, y in batches] == [[0] * 4 + [1] * 4] * 5
    batches.clear()
    net.update_steps(*own, None, None, 2)
    assert [y.tolist() for _, y in batches] == [[0] * 8] * 2


def test_update_continues_where_fit_starts_afresh(digits):
    X, y, X_test, _ = digits
    model = mlp()
    assert model.continues
    first = model.update(X, y, steps=30).predict_proba(X_test)
    second = model.update(X, y, steps=30).predict_proba(X_test)
    assert not np.array_equal(first, second)
    assert model.estimator.optimizer_.state_dict()["state"][0]["step"] == 60  # the optimiser went on
    fitted = mlp(epochs=1).fit(X, y).predict_proba(X_test)
    model = mlp(epochs=1).update(X, y, steps=30)
    assert np.array_equal(fitted, model.fit(X, y).predict_proba(X_test))


def test_a_party_with_one_class_starts_training_when_public_rows_bring_more(digits):
    X, y, X_test, _ = digits
    model = mlp().update(X[y == 3], y[y == 3], steps=5)
    assert model.is_constant
    model.update(X[y == 3], y[y == 3], X, y, steps=100)
    assert not model.is_constant
    assert len(set(model.predict(X_test))) > 5


def test_labelling_in_batches_is_labelling_at_once(digits, monkeypatch):
    X, y, X_test, _ = digits
    X = X.copy()
    X.flags.writeable = False  # which is taken without a warning
    model = mlp(epochs=1, dropout=0.5).fit(X, y)
    whole = model.predict_proba(X_test)
    assert np.array_equal(whole, model.predict_proba(X_test))  # in evaluation mode
    with pytest.raises(DataError, match="X must have 64 columns"):
        mlp().fit(np.zeros((4, 3), dtype=np.float32), np.array([0, 1, 0, 1]))
    monkeypatch.setattr("fedkd_flwr.models.networks.INFERENCE_ROWS", 100)
    assert np.allclose(whole, model.predict_proba(X_test), atol=1e-6)


def test_a_net_wrapped_by_skorch_is_refused_with_the_way_out():
    kind = type("NeuralNetClassifier", (DummyClassifier,), {"__module__": "skorch.classifier"})
    with pytest.raises(ConfigError, match=r"be a torch module, not a skorch net, got .*Give the module"):
        Classifier(kind(), num_classes=2)
