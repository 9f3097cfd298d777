"""The papers' nets as torch modules, from flat rows to one output per class."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from torch import nn

from fedkd_flwr.errors import ConfigError, explain

__all__ = ["NETS", "check_params", "image_shape", "widths"]

LEAST_SIDE = {"cnn-fedmd": 20}  # pixels that leave 2 x 2 before the last layer, so that one row still has a variance
MAX_LAYERS = 64
KNOWN_SHAPES = {28 * 28: (1, 28, 28), 3 * 32 * 32: (3, 32, 32)}


class Params(Protocol):
    """What an architecture is made from; see `fedkd_flwr.models.networks.TorchNet`."""

    net: str
    num_classes: int
    num_features: int
    shape: tuple[int, ...] | None
    hidden: Any
    channels: Any
    dropout: float


def widths(net: Params) -> tuple[Any, ...]:
    """Return the widths of the MLP's hidden layers, one given alone included."""
    return tuple(net.hidden) if isinstance(net.hidden, list | tuple) else (net.hidden,)


def image_shape(net: Params) -> tuple[int, int, int]:
    """Return (channels, height, width) of one row.

    Raises
    ------
    ConfigError
        If the columns do not fill that shape, or none is known for their number.
    """
    shape = net.shape or KNOWN_SHAPES.get(net.num_features)
    if shape is not None and len(shape) == 2:
        shape = (1, *shape)
    if shape is None or len(shape) != 3 or math.prod(shape) != net.num_features:
        rule = f"be (channels, height, width) of {net.num_features} columns"
        raise ConfigError(explain("shape", rule, str(net.shape), f"{net.net} takes images only."))
    return (int(shape[0]), int(shape[1]), int(shape[2]))


def _mlp(net: Params) -> nn.Module:
    return _dense(net.num_features, widths(net), net)


def _dense(inputs: int, widths: tuple[int, ...], net: Params) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.ReLU(), *_dropout(net)]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, net.num_classes))


def _dropout(net: Params) -> list[nn.Module]:
    return [nn.Dropout(net.dropout)] if net.dropout > 0 else []


def _cnn_fedkt(net: Params) -> nn.Module:
    depth, height, width = image_shape(net)
    left = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
    return nn.Sequential(
        nn.Unflatten(1, (depth, height, width)),
        nn.Conv2d(depth, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        _dense(16 * left[0] * left[1], (120, 84), net),
    )


def _cnn_privatekt(net: Params) -> nn.Module:
    # as the published code has it: pooling is the convolutions' only nonlinearity, dropout follows every layer but the
    # last, and weights start from Glorot's uniform law with zero biases: few large SGD steps make the start matter
    depth, height, width = image_shape(net)
    left = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
    module = nn.Sequential(
        nn.Unflatten(1, (depth, height, width)),
        nn.Conv2d(depth, 32, 5),
        nn.MaxPool2d(2),
        *_dropout(net),
        nn.Conv2d(32, 128, 5),
        nn.MaxPool2d(2),
        *_dropout(net),
        nn.Flatten(),
        _dense(128 * left[0] * left[1], (512, 512, 512), net),
    )
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.constant_(part.get_parameter("bias"), 0.0)
    return module


def _cnn_fedmd(net: Params) -> nn.Module:
    depth, height, width = image_shape(net)
    first, *others = net.channels
    # averages over 2 x 2 pixels at every pixel; what would reach over the edge repeats the edge, which leaves it out
    smooth = [nn.ReplicationPad2d((0, 1, 0, 1)), nn.AvgPool2d(2, stride=1)]
    layers = [nn.Unflatten(1, (depth, height, width)), *_block(depth, first, 3, 1, net, padding=1), *smooth]
    sides, inputs = [height, width], first
    if len(others) == 2:
        layers += [*_block(inputs, others[0], 2, 2, net), nn.AvgPool2d(2)]
        sides, inputs = [side // 2 // 2 for side in sides], others[0]
    layers += _block(inputs, others[-1], 3, 2, net)
    pixels = math.prod((side - 3) // 2 + 1 for side in sides)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(others[-1] * pixels, net.num_classes, bias=False))


def _block(inputs: int, outputs: int, size: int, stride: int, net: Params, *, padding: int = 0) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, size, stride=stride, padding=padding)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(), *_dropout(net)]


NETS: dict[str, Callable[[Any], nn.Module]] = {
    "mlp": _mlp,
    "cnn-fedkt": _cnn_fedkt,
    "cnn-privatekt": _cnn_privatekt,
    "cnn-fedmd": _cnn_fedmd,
}


def check_params(net: Any) -> None:
    """Check every parameter of a `TorchNet`.

    Raises
    ------
    ConfigError
        Naming the first that breaks its rule.
    """

    def number(value: Any, low: float, high: float, *, whole: bool) -> bool:
        kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
        return not isinstance(value, bool) and isinstance(value, kinds) and bool(low <= value < high)

    inf = math.inf
    rules: list[tuple[str, str, bool]] = [
        ("net", f"be one of {', '.join(NETS)}", net.net in NETS),
        ("num_classes", "be an integer >= 2", number(net.num_classes, 2, 2**15, whole=True)),
        ("num_features", "be an integer >= 1", number(net.num_features, 1, 2**31, whole=True)),
        ("dropout", "be within [0, 1)", number(net.dropout, 0, 1, whole=False)),
        ("optimizer", "be adam or sgd", net.optimizer in ("adam", "sgd")),
        ("lr", "be > 0", number(net.lr, 0, inf, whole=False) and net.lr > 0),
        ("weight_decay", "be >= 0", number(net.weight_decay, 0, inf, whole=False)),
        ("momentum", "be within [0, 1)", number(net.momentum, 0, 1, whole=False)),
        ("batch_size", "be an integer >= 1", number(net.batch_size, 1, inf, whole=True)),
        ("epochs", "be an integer >= 1", number(net.epochs, 1, inf, whole=True)),
        ("max_steps", "be an integer >= 1", net.max_steps is None or number(net.max_steps, 1, inf, whole=True)),
        ("device", "be cpu or auto", net.device in ("cpu", "auto")),
        ("precision", "be float32 or bfloat16", net.precision in ("float32", "bfloat16")),
        ("freeze_norm", "be true or false", isinstance(net.freeze_norm, bool)),
        ("seed", "be an integer >= 0", number(net.seed, 0, 2**63, whole=True)),
    ]
    fits = len(widths(net)) <= MAX_LAYERS and all(number(w, 1, 2**20, whole=True) for w in widths(net))
    rules.append(("hidden", "list widths >= 1", fits))
    listed = isinstance(net.channels, list | tuple) and len(net.channels) in (2, 3)
    fits = listed and all(number(c, 1, 2**15, whole=True) for c in net.channels)
    rules.append(("channels", "list two or three numbers >= 1", fits))
    for name, rule, holds in rules:
        if not holds:
            raise ConfigError(explain(name, rule, getattr(net, name)))
    if net.net != "mlp":
        depth, height, width = image_shape(net)
        least = LEAST_SIDE.get(net.net, 16)
        if not (depth >= 1 and height >= least and width >= least):
            rule = f"be at least {least} x {least} pixels for {net.net}"
            raise ConfigError(explain("shape", rule, str((depth, height, width))))
