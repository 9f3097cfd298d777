"""The papers' nets as torch modules, from flat rows to one output per class."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from torch import nn

from fedkd_flwr.errors import ConfigError, explain

__all__ = ["NETS", "image_shape", "widths"]

KNOWN_SHAPES = {28 * 28: (1, 28, 28), 3 * 32 * 32: (3, 32, 32)}


class Params(Protocol):
    """What an architecture is made from; see `fedkd_flwr.models.networks.TorchNet`."""

    net: str
    num_classes: int
    num_features: int
    shape: tuple[int, ...] | None
    hidden: Any
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
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        if net.dropout > 0:
            layers.append(nn.Dropout(net.dropout))
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, net.num_classes))


def _cnn(channels: tuple[int, int], widths: tuple[int, ...], net: Params) -> nn.Module:
    depth, height, width = image_shape(net)
    first, second = channels
    left = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
    return nn.Sequential(
        nn.Unflatten(1, (depth, height, width)),
        nn.Conv2d(depth, first, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        _dense(second * left[0] * left[1], widths, net),
    )


NETS: dict[str, Callable[[Any], nn.Module]] = {
    "mlp": _mlp,
    "cnn-fedkt": lambda net: _cnn((6, 16), (120, 84), net),
    "cnn-privatekt": lambda net: _cnn((32, 128), (512, 512, 512), net),
}
