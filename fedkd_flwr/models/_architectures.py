"""The papers' nets as torch modules, from flat rows to one output per class, and users' own modules, checked.

``net`` is a `fedkd_flwr.models.networks.TorchNet`, which holds the parameters of an architecture. A user's module gets
rows as float32 of shape (num_rows, num_features), or (num_rows, *input_shape) where its factory names ``input_shape``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fedkd_flwr.checks import check_choice, check_number, check_whole
from fedkd_flwr.errors import Code, ConfigError, cause, explain
from fedkd_flwr.models._factory import arguments, import_factory, input_shape, named_by

__all__ = ["NETS", "check_params", "own_module", "row_shape"]

LEAST_SIDE = {"cnn-fedmd": 20}  # leaves 2 x 2 pixels before the last layer, so that a single row has a variance
MAX_LAYERS = 64
KNOWN_SHAPES = {28 * 28: (1, 28, 28), 3 * 32 * 32: (3, 32, 32)}


def _widths(net: Any) -> tuple[Any, ...]:
    """Return the widths of the MLP's hidden layers; a single number is one layer."""
    return tuple(net.hidden) if isinstance(net.hidden, list | tuple) else (net.hidden,)


def _image_shape(net: Any) -> tuple[int, int, int]:
    """Return (channels, height, width) of one row; raise ConfigError if they are unknown or do not fit the columns."""
    shape = net.shape or KNOWN_SHAPES.get(net.num_features)
    if shape is not None and len(shape) == 2:
        shape = (1, *shape)
    if shape is None or len(shape) != 3 or math.prod(shape) != net.num_features:
        rule = f"be (channels, height, width) of {net.num_features} columns"
        raise ConfigError(explain("shape", rule, str(net.shape), f"{net.net} takes images only."))
    return (int(shape[0]), int(shape[1]), int(shape[2]))


def _dense(inputs: int, widths: tuple[int, ...], net: Any) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.ReLU(), *_dropout(net)]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, net.num_classes))


def _dropout(net: Any) -> list[nn.Module]:
    return [nn.Dropout(net.dropout)] if net.dropout > 0 else []


def _two_convolutions(
    net: Any, channels: tuple[int, int], widths: tuple[int, ...], after: Callable[[], list[nn.Module]]
) -> nn.Sequential:
    """Return 5 x 5 convolutions, each followed by the layers of ``after``, and dense layers of these widths."""
    depth, height, width = _image_shape(net)
    left = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
    return nn.Sequential(
        nn.Unflatten(1, (depth, height, width)),
        nn.Conv2d(depth, channels[0], 5),
        *after(),
        nn.Conv2d(*channels, 5),
        *after(),
        nn.Flatten(),
        _dense(channels[1] * left[0] * left[1], widths, net),
    )


def _cnn_privatekt(net: Any) -> nn.Module:
    # as in the published code: pooling is the only nonlinearity of the convolutions, dropout follows every layer but
    # the last, weights start from Glorot's uniform distribution and biases at zero; the start matters, because training
    # takes few and large SGD steps
    module = _two_convolutions(net, (32, 128), (512, 512, 512), lambda: [nn.MaxPool2d(2), *_dropout(net)])
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            nn.init.constant_(part.get_parameter("bias"), 0.0)
    return module


def _cnn_fedmd(net: Any) -> nn.Module:
    depth, height, width = _image_shape(net)
    first, *others = net.channels
    # averages over 2 x 2 pixels at every pixel; repeating the edge gives the average of the pixels inside
    smooth = [nn.ReplicationPad2d((0, 1, 0, 1)), nn.AvgPool2d(2, stride=1)]
    layers = [nn.Unflatten(1, (depth, height, width)), *_block(depth, first, 3, 1, net, padding=1), *smooth]
    sides, inputs = [height, width], first
    if len(others) == 2:
        layers += [*_block(inputs, others[0], 2, 2, net), nn.AvgPool2d(2)]
        sides, inputs = [side // 2 // 2 for side in sides], others[0]
    layers += _block(inputs, others[-1], 3, 2, net)
    pixels = math.prod((side - 3) // 2 + 1 for side in sides)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(others[-1] * pixels, net.num_classes, bias=False))


def _block(inputs: int, outputs: int, size: int, stride: int, net: Any, *, padding: int = 0) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, size, stride=stride, padding=padding)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU(), *_dropout(net)]


NETS: dict[str, Callable[[Any], nn.Module]] = {
    "mlp": lambda net: _dense(net.num_features, _widths(net), net),
    "cnn-fedkt": lambda net: _two_convolutions(net, (6, 16), (120, 84), lambda: [nn.ReLU(), nn.MaxPool2d(2)]),
    "cnn-privatekt": _cnn_privatekt,
    "cnn-fedmd": _cnn_fedmd,
}


def check_params(net: Any) -> None:
    """Raise `ConfigError` naming the first wrong parameter; upper ends bound the memory that foreign bytes can take."""
    if ":" not in net.net:
        check_choice("net", net.net, tuple(NETS))
    check_whole("num_classes", net.num_classes, 2, 2**15 - 1)
    check_whole("num_features", net.num_features, 1, 2**31 - 1)
    check_number("dropout", net.dropout, least=0, below=1)
    check_choice("optimizer", net.optimizer, ("adam", "sgd"))
    check_number("lr", net.lr, above=0)
    check_number("weight_decay", net.weight_decay, least=0)
    check_number("momentum", net.momentum, least=0, below=1)
    check_whole("batch_size", net.batch_size, 1)
    check_whole("epochs", net.epochs, 1)
    if net.max_steps is not None:
        check_whole("max_steps", net.max_steps, 1)
    check_choice("device", net.device, ("cpu", "auto"))
    check_choice("precision", net.precision, ("float32", "bfloat16"))
    check_choice("freeze_norm", net.freeze_norm, (True, False))
    check_whole("seed", net.seed, 0, 2**63 - 1)
    if not len(_widths(net)) <= MAX_LAYERS:
        raise ConfigError(explain("hidden", f"list at most {MAX_LAYERS} widths", len(_widths(net))))
    for width in _widths(net):
        check_whole("a width of hidden", width, 1, 2**20 - 1)
    if not (isinstance(net.channels, list | tuple) and len(net.channels) in (2, 3)):
        raise ConfigError(explain("channels", "list two or three numbers", net.channels))
    for channels in net.channels:
        check_whole("a number of channels", channels, 1, 2**15 - 1)
    if net.net in NETS and net.net != "mlp":
        depth, height, width = _image_shape(net)
        least = LEAST_SIDE.get(net.net, 16)
        if not (depth >= 1 and height >= least and width >= least):
            rule = f"be at least {least} x {least} pixels for {net.net}"
            raise ConfigError(explain("shape", rule, str((depth, height, width))))


# ------------------------------------------------------------------------------ a user's own module

_TRIED_ROWS = 2


def row_shape(net: Any) -> tuple[int, ...]:
    """Return the shape in which a net's own module takes one row."""
    if "input_shape" in named_by(import_factory(net.net)):
        return input_shape(net.num_features, net.shape)
    return (net.num_features,)


def own_module(net: Any) -> nn.Module:
    """Return a fresh module of a net with an import string, after one look at its answers to rows within [0, 1).

    Lazy layers get their sizes by that. Weights are drawn from torch's current generator. `ConfigError` if the factory
    fails or returns no module, its weights are no float32 tensors, or its answers are no logits.
    """
    context = {name: getattr(net, name) for name in ("num_features", "num_classes", "shape", "seed")}
    context["input_shape"] = input_shape(net.num_features, net.shape)
    factory = import_factory(net.net)
    called, rest = arguments(net.net, factory, context, net.net_params or {})
    if rest:
        raise ConfigError(explain(f"net_params of {net.net}", f"be among {named_by(factory)}", sorted(rest)[0]))
    try:  # not `call_factory`, which would put the generator back that these weights come from
        module = factory(**called)
    except Exception as error:
        raise ConfigError(explain(net.net, "return a torch module", cause(error))) from error
    if not isinstance(module, nn.Module):
        raise ConfigError(explain(net.net, "return a torch module", type(module).__name__))
    _check_answers(module, net)
    for name, value in module.state_dict().items():
        kind = str(value.dtype) if isinstance(value, Tensor) else type(value).__name__
        whole = isinstance(value, Tensor) and not (value.is_floating_point() or value.is_complex())
        if not whole and kind != "torch.float32":
            rule = "be a tensor of float32 or of whole numbers"
            way_out = "Drop .double(), .half() and get_extra_state()."
            raise ConfigError(explain(f"{name} of {net.net}", rule, kind, way_out))
    return module


def _check_answers(module: nn.Module, net: Any) -> None:
    shape = (_TRIED_ROWS, *row_shape(net))
    wanted = (_TRIED_ROWS, net.num_classes)
    try:
        with torch.no_grad():
            # without draws from the generator of the weights; whole parts of 0, so that embeddings find a token
            answers = module.eval()(torch.rand(shape, generator=torch.Generator().manual_seed(0)))
    except Exception as error:
        rule = f"take float32 rows of shape {shape}"
        way_out = 'For images as (channels, height, width) let the factory name "input_shape".'
        raise ConfigError(explain(net.net, rule, cause(error), way_out)) from error
    code = Code.WRONG_MODEL_OUTPUT
    rule = f"return logits of shape {wanted} (rows, num_classes) for {_TRIED_ROWS} rows"
    if not isinstance(answers, Tensor) or answers.shape != wanted:
        seen = f"shape {tuple(answers.shape)}" if isinstance(answers, Tensor) else f"a {type(answers).__name__}"
        way_out = "Two classes need two outputs." if net.num_classes == 2 else ""
        raise ConfigError(explain(net.net, rule, seen, way_out), code=code)
    if not answers.is_floating_point() or not bool(torch.isfinite(answers).all()):
        raise ConfigError(explain(net.net, rule, f"{answers[0, :5].tolist()}"), code=code)
    if bool((answers >= 0).all()) and torch.allclose(answers.sum(dim=1), torch.ones(_TRIED_ROWS), atol=1e-6):
        way_out = "Leave softmax out of forward: the loss applies it."
        raise ConfigError(explain(net.net, rule, "probabilities, which sum to 1", way_out), code=code)
