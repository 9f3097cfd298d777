"""A user's own torch module: what it is called with, what is refused, and that its file continues it."""

import sys

import numpy as np
import pytest

from fedkd_flwr.errors import Code, ConfigError, ModelBytesError
from fedkd_flwr.models import own_files
from fedkd_flwr.models.serialize import dumps, loads
from fedkd_flwr.models.zoo import make_model

torch = pytest.importorskip("torch")

ROWS = np.random.default_rng(0).normal(size=(33, 6)).astype(np.float32)
LABELS = (ROWS[:, 0] > 0).astype(np.int64) + (ROWS[:, 1] > 1)


class Net(torch.nn.Module):
    def __init__(self, num_features, num_classes, width=8):
        super().__init__()
        self.width = width
        norm = torch.nn.BatchNorm1d(width)  # needs two rows: 33 rows in batches of 16 leave one over
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(num_features, width), norm, torch.nn.Linear(width, num_classes)
        )

    def forward(self, rows):
        return self.layers(rows)


class Image(torch.nn.Module):
    def __init__(self, input_shape, num_classes):
        super().__init__()
        self.convolve = torch.nn.Conv2d(input_shape[0], 2, 2)
        self.last = torch.nn.LazyLinear(num_classes)

    def forward(self, rows):
        rows += 1  # into what it was given
        hidden = self.convolve(rows)
        return self.last(hidden.view(len(hidden), -1))


class Frozen(Net):
    def __init__(self, num_features, num_classes):
        super().__init__(num_features, num_classes)
        self.layers[0].weight.requires_grad_(False)


class Soft(Net):
    def forward(self, rows):
        return self.layers(rows).softmax(dim=1)


class Double(Net):
    def __init__(self, num_features, num_classes):
        super().__init__(num_features, num_classes)
        self.register_buffer("scale", torch.ones(1, dtype=torch.float64))


def imports_torch_when_called(num_features, num_classes):
    sys.modules["torch"] = torch
    return Net(num_features, num_classes)


def one_output(num_features):
    return torch.nn.Linear(num_features, 1)


def wants_sizes(inputs):
    return torch.nn.Linear(inputs, 3)


def _make(factory, **params):
    shape = (1, 2, 3) if factory is Image else None
    spec = f"{__name__}:{factory.__name__}"
    return make_model(spec, num_classes=3, num_features=6, shape=shape, seed=1, params=params)


def test_a_parameter_goes_to_the_factory_that_names_it_and_else_to_training():
    net = _make(Net, width=4, lr=0.5, batch_size=16).initialize().estimator
    assert (net.net_.module_.width, net.lr, net.batch_size) == (4, 0.5, 16)
    with pytest.raises(ConfigError, match=r"A parameter of .*test_own_net:Net must be among batch_size, .*got 'depth'"):
        _make(Net, depth=4)


@pytest.mark.parametrize("factory", [Net, Image, Frozen])
def test_a_file_continues_a_net_exactly_for_those_who_wrote_or_trust_it(factory, monkeypatch, tmp_path):
    model = _make(factory)
    before = ROWS.copy()
    model.fit(ROWS, LABELS)
    data = dumps(model)
    with monkeypatch.context() as patch:
        patch.setattr(own_files, "SECRET", tmp_path / "another user's")
        with pytest.raises(ModelBytesError, match=rf"with {__name__}:{factory.__name__} must be .* runs that code"):
            loads(data)
        again = loads(data, trust=True)
    assert np.array_equal(again.predict_proba(ROWS), model.predict_proba(ROWS))
    for one in (model, again):
        one.update(ROWS, LABELS, steps=2)
    assert np.array_equal(again.predict_proba(ROWS), model.predict_proba(ROWS))
    assert np.array_equal(ROWS, before)


@pytest.mark.parametrize(
    ("factory", "message", "code"),
    [
        (Soft, "got probabilities, which sum to 1. Leave softmax out", Code.WRONG_MODEL_OUTPUT),
        (one_output, r"return logits of shape \(2, 3\).*got shape \(2, 1\)", Code.WRONG_MODEL_OUTPUT),
        (Double, "scale of .* must be a tensor of float32 or of whole numbers, got 'torch.float64'", Code.WRONG_CONFIG),
        (wants_sizes, r"got a parameter 'inputs'.*num_features \(6\)", Code.WRONG_CONFIG),
    ],
)
def test_a_net_that_cannot_work_is_refused_before_it_sees_a_row(factory, message, code):
    with pytest.raises(ConfigError, match=message) as caught:
        _make(factory).initialize()
    assert caught.value.code is code


def test_logits_that_are_not_finite_are_the_model_s_fault():
    model = _make(Net).initialize()
    with torch.no_grad():
        model.estimator.net_.module_.layers[2].bias.fill_(float("nan"))
    with pytest.raises(Exception, match=r"logits of .*test_own_net:Net must be finite") as caught:
        model.predict(ROWS)
    assert caught.value.code is Code.WRONG_MODEL_OUTPUT


def test_a_factory_that_imports_torch_only_when_it_is_called_makes_a_net(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    spec = f"{__name__}:imports_torch_when_called"
    net = make_model(spec, num_classes=3, num_features=6, seed=0, params={"lr": 0.01})
    assert net.template.lr == 0.01
