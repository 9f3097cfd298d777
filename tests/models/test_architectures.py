"""The nets of the papers are those of the papers."""

import pytest

from fedkd_flwr.models import make_model


def _layers(name, **params):
    pytest.importorskip("torch")
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
    torch = pytest.importorskip("torch")
    pad, pool = _layers("cnn-fedmd", channels=[1, 1], dropout=0)[3:5]
    pixels = torch.arange(9.0).reshape(1, 1, 3, 3)
    # Keras, pool_size=2, strides=1, padding="same": windows at the lower and right edge average what there is
    assert pool(pad(pixels)).ravel().tolist() == [2, 3, 3.5, 5, 6, 6.5, 6.5, 7.5, 8]
