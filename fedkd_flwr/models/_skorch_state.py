"""The state of a user's own skorch net as named tensors: the weights and, to continue, its optimiser's.

Only imported on use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from sklearn.base import clone
from torch import Tensor

from fedkd_flwr.models._net_state import check_weights, load_optimizer, split_weights

__all__ = ["restored", "state_tensors"]


def state_tensors(net: Any, *, training_state: bool) -> dict[str, Tensor]:
    """Return copies of a net's weights and of its optimiser's state, by name.

    An optimiser that keeps anything but tensors starts afresh when the net is read.
    """
    tensors = {f"model.{name}": value for name, value in net.module_.state_dict().items()}
    states = net.optimizer_.state_dict()["state"] if training_state else {}
    kept = {f"optimizer.{i}.{name}": v for i, state in states.items() for name, v in state.items() if v is not None}
    if all(isinstance(value, Tensor) for value in kept.values()):
        tensors |= kept
    # clones, because safetensors refuses tied weights, which share memory
    return {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}


def restored(template: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Return a copy of an unfitted net with what `state_tensors` returned; raise ValueError if it does not fit."""
    weights, rest = split_weights(tensors)
    with torch.random.fork_rng(devices=[]):
        net = clone(template).initialize()
    check_weights(weights, lambda: net.module_)
    net.module_.load_state_dict(weights)
    load_optimizer(net.optimizer_, rest)
    return net
