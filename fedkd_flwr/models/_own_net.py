"""A user's own torch module by import string, made and checked.

Only imported on use. A module gets rows as float32 of shape (num_rows, num_features), or (num_rows, *input_shape) where
its factory names ``input_shape``, and returns one logit per row and class.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fedkd_flwr.errors import Code, ConfigError, cause, explain
from fedkd_flwr.models._factory import arguments, import_factory, input_shape, named_by

__all__ = ["own_module", "row_shape"]

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
