"""The nets of the papers are those of the papers; a user's own is called with what it names, checked, and saved."""

import sys

import numpy as np
import pytest

from fedkd_flwr.errors import Code, ConfigError, ModelBytesError
from fedkd_flwr.models import make_model, serialize
from fedkd_flwr.models.serialize import dumps, loads

torch = pytest.importorskip("torch")


def _layers(name, **params):
    net = make_model(name, num_classes=6, num_features=784, seed=0, params=params).template.build()
    return [part for part in net.modules() if not list(part.children())][1:]


def test_privatekt_net_is_the_published_one():
    """The published code: https://github.com/taoqi98/PrivateKT, Code/model.py (Keras)."""
    layers = _layers("cnn-privatekt")
    dense = ["Linear", "ReLU", "Dropout"]
    expected = [*["Conv2d", "MaxPool2d", "Dropout"] * 2, "Flatten", *dense * 3, "Linear"]
    assert [type(layer).__name__ for layer in layers] == expected
    assert {layer.p for layer in layers if hasattr(layer, "p")} == {0.2}
    weights = [layer.weight for layer in layers if hasattr(layer, "weight")]
    assert [tuple(w.shape) for w in weights] == [
        *((32, 1, 5, 5), (128, 32, 5, 5)),
        *((512, 128 * 4 * 4), (512, 512), (512, 512), (6, 512)),
    ]
    # Glorot's law: uniform within sqrt(6 / (inputs + outputs))
    assert abs(float(weights[3].detach().abs().max()) / (6 / 1024) ** 0.5 - 1) < 1e-3
    assert all(float(layer.bias.detach().abs().max()) == 0 for layer in layers if hasattr(layer, "bias"))


@pytest.mark.parametrize(
    ("number", "channels", "dropout"),
    [(0, [128, 256], 0.2), (4, [256, 512], 0.4), (5, [64, 128, 256], 0.2), (9, [128, 128, 192], 0.3)],
)
def test_fedmd_nets_are_the_published_ten(number, channels, dropout):
    """FedMD_clean, conf/EMNIST_balance_conf.json and Neural_Networks.py (Keras)."""
    layers = _layers(f"cnn-fedmd-{number}")
    block = ["Conv2d", "BatchNorm2d", "ReLU", "Dropout"]
    middle = [*block, "AvgPool2d"] if len(channels) == 3 else []
    expected = [*block, "ReplicationPad2d", "AvgPool2d", *middle, *block, "Flatten", "Linear"]
    assert [type(layer).__name__ for layer in layers] == expected
    assert [layer.out_channels for layer in layers if hasattr(layer, "out_channels")] == channels
    assert {layer.p for layer in layers if hasattr(layer, "p")} == {dropout}
    pixels = 13 * 13 if len(channels) == 2 else 3 * 3
    assert tuple(layers[-1].weight.shape) == (6, channels[-1] * pixels)
    assert layers[-1].bias is None


def test_fedmd_smoothing_leaves_the_edge_out_as_keras_does():
    pad, pool = _layers("cnn-fedmd", channels=[1, 1], dropout=0)[3:5]
    pixels = torch.arange(9.0).reshape(1, 1, 3, 3)
    # Keras, pool_size=2, strides=1, padding="same": windows at the lower and right edge average what there is
    assert pool(pad(pixels)).ravel().tolist() == [2, 3, 3.5, 5, 6, 6.5, 6.5, 7.5, 8]


ROWS = np.random.default_rng(0).normal(size=(33, 6)).astype(np.float32)
LABELS = (ROWS[:, 0] > 0).astype(np.int64) + (ROWS[:, 1] > 1)


class Net(torch.nn.Module):
    def __init__(self, num_features, num_classes, width=8):
        super().__init__()
        self.width = width
        norm = torch.nn.BatchNorm1d(width)  # needs two rows: 33 rows in batches of 16 leave one over
        first, last = torch.nn.Linear(num_features, width), torch.nn.Linear(width, num_classes)
        self.layers = torch.nn.Sequential(first, norm, last)

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
    assert (net.module_.width, net.lr, net.batch_size) == (4, 0.5, 16)
    with pytest.raises(ConfigError, match=r"A parameter of .*:Net must be among batch_size, .*got 'depth'"):
        _make(Net, depth=4)


@pytest.mark.parametrize("factory", [Net, Image, Frozen])
def test_a_file_continues_a_net_exactly_for_those_who_wrote_or_trust_it(factory, monkeypatch, tmp_path):
    model = _make(factory)
    before = ROWS.copy()
    model.fit(ROWS, LABELS)
    data = dumps(model)
    with monkeypatch.context() as patch:
        patch.setattr(serialize, "SECRET", tmp_path / "another user's")
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
        model.estimator.module_.layers[2].bias.fill_(float("nan"))
    with pytest.raises(Exception, match=r"logits of .*test_architectures:Net must be finite") as caught:
        model.predict(ROWS)
    assert caught.value.code is Code.WRONG_MODEL_OUTPUT


def test_a_factory_that_imports_torch_only_when_it_is_called_makes_a_net(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    spec = f"{__name__}:imports_torch_when_called"
    net = make_model(spec, num_classes=3, num_features=6, seed=0, params={"lr": 0.01})
    assert net.template.lr == 0.01
