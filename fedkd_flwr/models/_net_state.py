"""A net's weights as plain arrays, its whole state as named tensors, and its own stream of random numbers.

Only imported on use. Whatever comes from outside is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedkd_flwr.errors import DataError, explain

__all__ = ["get_arrays", "load_state_tensors", "optimizer_states", "own_generator", "set_arrays", "state_tensors"]


class HasGenerator(Protocol):
    """A net that keeps the state of its own random numbers."""

    rng_state_: Tensor


class Net(HasGenerator, Protocol):
    """The part of `fedkd_flwr.models.networks.TorchNet` that these functions use."""

    net: str
    optimizer: str
    net_: Any

    def build(self) -> nn.Module:
        """Return the architecture with fresh weights."""

    def initialize(self) -> Any:
        """Start from fresh weights and a fresh optimiser."""


@contextmanager
def own_generator(net: HasGenerator, device: torch.device) -> Iterator[None]:
    """Let torch draw from the net's own stream, and put torch's global generator back afterwards."""
    devices = [torch.cuda.current_device()] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.set_rng_state(net.rng_state_)
        if devices:
            torch.cuda.manual_seed(int(torch.randint(2**31, ())))
        yield
        net.rng_state_ = torch.get_rng_state()


def get_arrays(net: Net) -> list[NDArray[np.float32]]:
    """Return copies of weights and buffers in the order of torch's ``state_dict``.

    Batch normalisation's counts of batches, which nothing reads, are left out.
    """
    state = net.net_.module_.state_dict().values()
    return [value.detach().cpu().numpy().copy() for value in state if value.is_floating_point()]


def set_arrays(net: Net, arrays: Sequence[NDArray[Any]]) -> None:
    """Set what `get_arrays` returned; see `fedkd_flwr.models.training.SoftTraining.set_arrays`."""
    state = net.net_.module_.state_dict()
    names = [name for name, value in state.items() if value.is_floating_point()]
    if len(arrays) != len(names):
        rule = f"be {len(names)} arrays, as {net.net} has"
        raise DataError(explain("arrays", rule, f"{len(arrays)} arrays", "Do both sides build the same net?"))
    for name, array in zip(names, arrays, strict=True):
        title, shape = f"Array {name} of {net.net}", tuple(state[name].shape)
        if not isinstance(array, np.ndarray) or array.dtype != np.float32:
            seen = str(array.dtype) if isinstance(array, np.ndarray) else type(array).__name__
            raise DataError(explain(title, "be float32", seen))
        if array.shape != shape:
            raise DataError(
                explain(title, f"have shape {shape}", str(array.shape), "Do both sides build the same net?")
            )
        if not np.isfinite(array).all():
            raise DataError(explain(title, "be finite", "NaN or infinity"))
        if name.endswith("running_var") and not (array >= 0).all():
            raise DataError(explain(title, "be >= 0, being variances", float(array.min())))
    # copies, because the arrays may be read-only and must not change with the net
    new = {name: torch.tensor(array) for name, array in zip(names, arrays, strict=True)}
    net.net_.module_.load_state_dict({**state, **new})


def state_tensors(net: Net, *, training_state: bool) -> dict[str, Tensor]:
    """Return the weights and, to continue exactly, the states of optimiser and generator, by name."""
    tensors = {f"model.{name}": value for name, value in net.net_.module_.state_dict().items()}
    if training_state:
        tensors["rng"] = net.rng_state_
        for index, state in net.net_.optimizer_.state_dict()["state"].items():
            for name, value in state.items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{index}.{name}"] = value
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}


def load_state_tensors(net: Net, tensors: Mapping[str, Tensor]) -> None:
    """Restore what `state_tensors` returned, after checking every name, shape and type.

    Raises
    ------
    ValueError
        If the tensors are of another architecture.
    """
    with torch.device("meta"):  # shapes only, without memory, because the architecture may come from hostile bytes
        expected = {name: (value.shape, value.dtype) for name, value in net.build().state_dict().items()}
    weights = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
    if {name: (value.shape, value.dtype) for name, value in weights.items()} != expected:
        raise ValueError("the weights have other names or shapes than this architecture")
    net.initialize()
    parameters = list(net.net_.module_.parameters())
    names = {"step", "exp_avg", "exp_avg_sq"} if net.optimizer == "adam" else {"momentum_buffer"}
    rest = {name: value for name, value in tensors.items() if not name.startswith("model.") and name != "rng"}
    states = optimizer_states(rest, parameters, names)
    if states and len(states) != len(parameters):
        raise ValueError("the optimiser's state is incomplete")
    if "rng" in tensors:
        torch.Generator().set_state(tensors["rng"])  # raises unless it is a generator's state
        net.rng_state_ = tensors["rng"].clone()
    net.net_.module_.load_state_dict(weights)
    groups = net.net_.optimizer_.state_dict()["param_groups"]
    net.net_.optimizer_.load_state_dict({"state": states, "param_groups": groups})


def optimizer_states(
    tensors: Mapping[str, Tensor], parameters: Sequence[Tensor], names: set[str]
) -> dict[int, dict[str, Tensor]]:
    """Return an optimiser's state by parameter, from tensors named ``optimizer.<parameter>.<name>``.

    Parameters
    ----------
    tensors : mapping of str to Tensor
        The optimiser's tensors and no others.
    parameters : sequence of Tensor
        What it optimises, in its order.
    names : set of str
        What it keeps for each parameter.

    Raises
    ------
    ValueError
        If a tensor is another, of another type or shape, or one of a parameter's is missing.
    """
    states: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, _, key = name.removeprefix("optimizer.").partition(".")
        known = name.startswith("optimizer.") and key in names and index.isdecimal() and int(index) < len(parameters)
        if not known or value.dtype != torch.float32:
            raise ValueError(f"tensor {name!r} is not part of the optimiser's state")
        if value.shape != (() if key == "step" else parameters[int(index)].shape):
            raise ValueError(f"tensor {name!r} has shape {tuple(value.shape)}")
        states.setdefault(int(index), {})[key] = value
    if any(set(state) != names for state in states.values()):
        raise ValueError("the optimiser's state is incomplete")
    return states
