"""What the torch nets and the transformers share: answers, a stream of random numbers, and state as named tensors.

Only imported on use. Whatever comes from outside is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import Tensor, nn

__all__ = ["NetEstimator", "check_weights", "load_optimizer", "split_weights"]


class NetEstimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """A net over a fixed label space, with ``fit``, ``logits`` and random numbers of its own."""

    keeps_label_space = True
    net_: Any  # the module with what belongs to it
    rng_state_: Tensor

    def fit_soft(self, X: NDArray[Any], weights: NDArray[np.floating]) -> Self:
        """Do `fit` with cross-entropy on weights of the classes, which sum to 1 in each row."""
        return self.fit(X, weights)  # type: ignore[no-any-return]

    def predict(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """Return the most probable class of each row."""
        return np.asarray(self.logits(X).argmax(axis=1))

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the probability of each class for each row, float32."""
        return np.asarray(torch.from_numpy(self.logits(X)).softmax(dim=1))

    @contextmanager
    def _own_generator(self, device: torch.device) -> Iterator[None]:
        """Let torch draw from the net's own stream, and put torch's global generator back afterwards."""
        devices = [torch.cuda.current_device()] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.set_rng_state(self.rng_state_)
            if devices:
                torch.cuda.manual_seed(int(torch.randint(2**31, ())))
            yield
            self.rng_state_ = torch.get_rng_state()

    def _named_state(self, module: nn.Module, optimizer: Any, training_state: bool) -> dict[str, Tensor]:
        """Return copies of the weights and, to continue exactly, of the states of optimiser and generator, by name."""
        tensors = {f"model.{name}": value for name, value in module.state_dict().items()}
        if training_state:
            tensors["rng"] = self.rng_state_
            for index, state in optimizer.state_dict()["state"].items():
                kept = {name: value for name, value in state.items() if isinstance(value, Tensor)}
                tensors |= {f"optimizer.{index}.{name}": value for name, value in kept.items()}
        # clones, because safetensors refuses tied weights, which share memory
        return {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}


def split_weights(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the weights under their own names, and all other tensors."""
    weights = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    return weights, {name: value for name, value in tensors.items() if not name.startswith("model.")}


def check_weights(weights: Mapping[str, Tensor], build: Callable[[], nn.Module]) -> None:
    """Raise ValueError unless the weights have the names, shapes and types of the module that ``build`` returns."""
    with torch.device("meta"):  # shapes only, without memory, because the architecture may come from hostile bytes
        expected = {name: (value.shape, value.dtype) for name, value in build().state_dict().items()}
    if {name: (value.shape, value.dtype) for name, value in weights.items()} != expected:
        raise ValueError("the weights have other names or shapes than this architecture")


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore an optimiser's state from tensors named ``optimizer.<parameter>.<name>``."""
    states: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        _, index, name = key.split(".", 2)
        states.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
