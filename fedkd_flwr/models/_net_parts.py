"""What torch nets and transformers share: answers, random numbers, state as named tensors, minibatches and losses.

Only imported on use. Minibatches come in an order drawn from torch's current generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import Tensor, nn

from fedkd_flwr.errors import Code, ConfigError, explain

__all__ = ["LOSSES", "Batch", "Loss", "NetEstimator", "as_targets", "check_loss", "check_weights", "epochs_of"]
__all__ += ["halves", "joint_loss", "load_optimizer", "mixed", "proximal_loss", "shifted_loss", "split_weights"]


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
        """Let torch draw from the net's own stream, and put torch's global generator back afterwards.

        On a GPU rows come in the same order as on a CPU, and convolutions are those that repeat themselves.
        """
        devices = [torch.cuda.current_device()] if device.type == "cuda" else []
        repeating = torch.backends.cudnn.flags(enabled=True, deterministic=True)
        with torch.random.fork_rng(devices=devices), repeating:
            torch.set_rng_state(self.rng_state_)
            if devices:
                torch.cuda.manual_seed(int(torch.randint(2**31, ())))
                torch.set_rng_state(self.rng_state_)
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


# ---------------------------------------------------------------------------------------- losses

Loss = Callable[[Tensor, Any], Tensor]
"""A function of logits and what is wanted of them."""


def joint_loss(distance: Loss, weight: float) -> Loss:
    """Return cross-entropy on the first rows, with labels, plus a weighted distance on the others, with targets.

    Source: the joint objective of distributed distillation (Bistritz, Mann and Bambos 2020).
    """

    def loss(logits: Tensor, targets: tuple[Tensor, Tensor]) -> Tensor:
        labels, public = targets
        own = nn.functional.cross_entropy(logits[: len(labels)], labels)
        return own + weight * distance(logits[len(labels) :], public)

    return loss


def proximal_loss(weights: Iterable[Tensor], mu: float) -> Loss:
    """Return cross-entropy plus (mu / 2) ||w - w_t||^2, where w_t are the weights now.

    Source: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, equation (2). The norm is
    squared, so that the gradient is mu (w - w_t); the sample in Flower's own documentation leaves the square out.
    """
    pairs = [(weight, weight.detach().clone()) for weight in weights]
    return _with_term(lambda: mu / 2 * torch.stack([(weight - start).square().sum() for weight, start in pairs]).sum())


def shifted_loss(pairs: Sequence[tuple[Tensor, Tensor]]) -> Loss:
    """Return cross-entropy plus the inner product of weights and shifts: each shift is added to a weight's gradient.

    Source: Karimireddy et al., "SCAFFOLD", ICML 2020, Algorithm 1, whose local step follows g - c_i + c.
    """
    return _with_term(lambda: torch.stack([(weight * shift).sum() for weight, shift in pairs]).sum())


def _with_term(term: Callable[[], Tensor]) -> Loss:
    return lambda logits, labels: nn.functional.cross_entropy(logits, labels) + term()


LOSSES: dict[str, Loss] = {
    "cross-entropy": nn.functional.cross_entropy,  # targets are labels or probabilities
    "l1-logits": nn.functional.l1_loss,  # mean over rows and classes, as FedMD's published code compares logits
    "mse-probs": lambda logits, probs: nn.functional.mse_loss(logits.softmax(dim=1), probs),
}


def check_loss(loss: Tensor, lr: float, way_out: str) -> None:
    """Raise ConfigError if the loss is not finite."""
    if not bool(torch.isfinite(loss)):
        message = explain("Training", "keep the loss finite", f"lr={lr} with loss {float(loss)}", way_out)
        raise ConfigError(message, code=Code.WRONG_MODEL_OUTPUT)


Batch = tuple[Tensor, Tensor]


def as_targets(y: NDArray[Any]) -> Tensor:
    """Return labels as int64 and probabilities or logits as float32."""
    return torch.from_numpy(np.array(y, dtype=np.int64 if np.asarray(y).dtype.kind in "iu" else np.float32))


def epochs_of(
    X: Tensor, y: Tensor, *, epochs: int, batch_size: int, max_steps: int | None = None, least: int = 1
) -> Iterator[Batch]:
    """Yield the batches of whole shuffled passes, at most ``max_steps`` of them.

    The last batch of a pass is left out where it has fewer than ``least`` rows and is not the only one.
    """
    left = max_steps
    for _ in range(epochs):
        order = torch.randperm(len(y)).to(y.device)
        for start in range(0, len(y), batch_size):
            if start and len(y) - start < least:
                break
            if left is not None:
                if left <= 0:
                    return
                left -= 1
            rows = order[start : start + batch_size]
            yield X.index_select(0, rows), y.index_select(0, rows)  # twice as fast as X[rows]


def mixed(parts: list[Batch], sizes: list[int], steps: int) -> Iterator[list[Batch]]:
    """Yield ``steps`` times ``sizes[i]`` rows of each part i, in shuffled passes that leave no labelled row out."""
    streams = [_rows_of(y, size) for (_, y), size in zip(parts, sizes, strict=True)]
    for _ in range(steps):
        rows = [next(stream) for stream in streams]
        yield [(X.index_select(0, r), y.index_select(0, r)) for (X, y), r in zip(parts, rows, strict=True)]


def halves(parts: list[Batch], *, batch_size: int, steps: int | None) -> Iterator[Batch]:
    """Yield batches of one part, or half (rounded up) of the first part and half of the second; by default one pass."""
    sizes = [batch_size] if len(parts) == 1 else [batch_size - batch_size // 2, batch_size // 2]
    if steps is None:
        steps = -(-sum(len(_labelled(y)) for _, y in parts) // batch_size)
    for batch in mixed(parts, sizes, steps):
        yield torch.cat([X for X, _ in batch]), torch.cat([y for _, y in batch])


def _rows_of(y: Tensor, size: int) -> Iterator[Tensor]:
    known = _labelled(y)
    order = torch.randperm(len(known))
    while True:
        while len(order) < size:
            order = torch.cat((order, torch.randperm(len(known))))
        yield known[order[:size]].to(y.device)
        order = order[size:]


def _labelled(y: Tensor) -> Tensor:
    """Return the numbers of the rows with a label, or with a target of floats."""
    return torch.arange(len(y)) if y.is_floating_point() else torch.nonzero(y.cpu() >= 0).ravel()
