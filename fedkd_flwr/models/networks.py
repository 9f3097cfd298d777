"""Torch nets as scikit-learn style estimators: the papers' MLP and CNNs.

Only imported on use. Batches are slices of tensors in memory, because on nets of this size a DataLoader's work per row
costs more than the step itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedkd_flwr.errors import Code, DataError, explain
from fedkd_flwr.models._architectures import NETS, check_params, own_module, row_shape
from fedkd_flwr.models._net_parts import (
    LOSSES,
    Batch,
    Loss,
    NetEstimator,
    as_targets,
    check_loss,
    check_weights,
    epochs_of,
    halves,
    joint_loss,
    load_optimizer,
    mixed,
    proximal_loss,
    shifted_loss,
    split_weights,
)

__all__ = ["TorchNet"]

INFERENCE_ROWS = 2048  # rows that are labelled at once, to bound memory
GRADIENT_ROWS = 1024  # rows at once of a gradient over all rows, to bound memory


@dataclass(kw_only=True, eq=False, repr=False)
class TorchNet(NetEstimator):
    """A neural net over a fixed label space, with ``num_classes`` outputs.

    ``cnn-fedkt``: conv5x5 of 6 and 16 channels, each ReLU and 2x2 pooling, dense 120 and 84. ``cnn-privatekt``: conv5x5
    of 32 and 128 channels, each 2x2 pooling, three dense layers of 512 with ReLU, dropout after each of these five,
    Glorot's initial weights; as in its published code, which has no ReLU after the convolutions. ``cnn-fedmd``: two or
    three convolutions with batch normalisation, ReLU, dropout and average pooling, then one dense layer without bias;
    as in FedMD's published code, but without its L2 penalty of 1e-3 on the last layer and without Keras' slower batch
    statistics. Torch's global generator is neither used nor changed.
    """

    leaves_unlabelled_out: ClassVar[bool] = True  # `update_steps` never draws public rows whose label is below 0

    # mlp, cnn-fedkt, cnn-privatekt, cnn-fedmd, or "package.module:factory": a user's own ``torch.nn.Module`` class, or
    # a function that returns a module (`fedkd_flwr.models._architectures`)
    net: str = field(default="mlp", kw_only=False)
    net_params: Any = None  # what the factory is called with besides the sizes and the seed that its signature names
    num_classes: int = 2  # outputs
    num_features: int = 1  # inputs
    shape: tuple[int, ...] | None = None  # (channels, height, width) of a row, for the CNNs
    hidden: Any = (100, 100)  # widths of the MLP's hidden layers (ReLU), or one width
    channels: Any = (128, 256)  # of the two or three convolutions of ``cnn-fedmd``
    dropout: float = 0.0  # share of hidden units dropped while training, within [0, 1)
    optimizer: str = "adam"  # or sgd
    lr: float = 1e-3
    weight_decay: float = 0.0  # L2
    momentum: float = 0.0  # of sgd
    batch_size: int = 64  # rows per minibatch
    epochs: int = 20  # passes of `fit`
    max_steps: int | None = None  # upper bound of the minibatch steps of `fit`
    device: str = "cpu"  # "auto" uses a GPU if there is one
    # With bfloat16, training computes layers in it and keeps weights, losses and the optimiser in float32 (torch's
    # autocast): faster for wide layers on processors with bfloat16 instructions, slower on others. Answers are float32.
    precision: str = "float32"
    # Whether batch normalisation uses the running averages that the net started with, in training too, and not those
    # of each minibatch: for a pre-trained net that gets few rows, or two kinds of rows in turn. An untrained net's are
    # means 0 and variances 1. Scales and shifts are still trained.
    freeze_norm: bool = False
    seed: int = 0  # of initial weights, batches and dropout

    def validate(self) -> None:
        """Check every parameter; raise ConfigError naming the first wrong one."""
        check_params(self)

    @property
    def is_own(self) -> bool:
        """Whether the module is a user's own, by import string."""
        return ":" in self.net

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Start from fresh weights and train for ``epochs`` passes, or ``max_steps`` steps if that is less.

        ``y`` holds labels of shape (num_rows,) or probabilities of shape (num_rows, num_classes).
        """
        self.initialize()
        rows, wanted = self._to_batch(X, y)
        self._train(self._passes(rows, wanted, self.epochs, max_steps=self.max_steps))
        return self

    def steps_of_fit(self, num_rows: int) -> int:
        """Return the minibatch steps that `fit` takes over so many rows."""
        steps = self.epochs * max(-(-num_rows // self.batch_size), 1)
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def update_steps(
        self,
        X: NDArray[Any],
        y: NDArray[Any],
        X_public: NDArray[Any] | None,
        y_public: NDArray[Any] | None,
        steps: int | None,
    ) -> Self:
        """Take ``steps`` minibatch steps from the present state, the first time from fresh weights.

        Half of each batch (rounded up) are own rows, the others public rows with a label; without any, all are own.
        """
        if not hasattr(self, "module_"):
            self.initialize()
        parts = [self._to_batch(X, y)]
        if X_public is not None and y_public is not None and len(X_public):
            parts.append(self._to_batch(X_public, y_public))
        self._train(halves(parts, batch_size=self.batch_size, steps=steps))
        return self

    def passes(
        self,
        X: NDArray[Any],
        targets: NDArray[Any],
        *,
        epochs: int,
        loss: str = "cross-entropy",
        batch_size: int | None = None,
        mu: float = 0.0,
        shifts: Sequence[NDArray[Any]] | None = None,
    ) -> int:
        """Continue for ``epochs`` passes over labels, probabilities or logits; return the number of steps.

        With ``mu`` or ``shifts`` the loss is `proximal_loss` around the present weights, or `shifted_loss`.
        """
        criterion = LOSSES[loss]
        if mu:
            criterion = proximal_loss(self.module_.parameters(), mu)
        if shifts is not None:
            known = dict(zip(self._names(), shifts, strict=True))
            weights = self.module_.named_parameters()
            criterion = shifted_loss([(w, torch.tensor(known[name], device=self.device_)) for name, w in weights])
        return self._train(self._passes(*self._to_batch(X, targets), epochs, batch_size), criterion)

    def are_trained(self) -> list[bool]:
        """Return which of the `arrays` training moves by gradient: weights that are not frozen, and no buffers."""
        trained = {name for name, weight in self.module_.named_parameters() if weight.requires_grad}
        return [name in trained for name in self._names()]

    def joint_steps(
        self,
        X: NDArray[Any],
        y: NDArray[Any],
        X_public: NDArray[Any],
        targets: NDArray[Any],
        *,
        steps: int,
        weight: float,
        loss: str,
    ) -> Self:
        """Take ``steps`` minibatch steps with `joint_loss`, half of each batch own and half public rows."""
        sizes = [max(1, self.batch_size - self.batch_size // 2), max(1, self.batch_size // 2)]
        batches = mixed([self._to_batch(X, y), self._to_batch(X_public, targets)], sizes, steps)
        joined = ((torch.cat((own[0], public[0])), (own[1], public[1])) for own, public in batches)
        self._train(joined, joint_loss(LOSSES[loss], weight))
        return self

    def full_batch_steps(self, X: NDArray[Any], targets: NDArray[Any], *, steps: int) -> Self:
        """Take ``steps`` steps along the gradient over all rows, summed over parts of them."""
        rows, wanted = self._to_batch(X, targets)
        self._start_training()
        optimizer, criterion = self.optimizer_, LOSSES["cross-entropy"]
        total = torch.zeros(())
        with self._own_generator(self.device_):
            for _ in range(steps):
                optimizer.zero_grad()
                total = torch.zeros((), device=rows.device)
                for start in range(0, len(rows), GRADIENT_ROWS):
                    part = slice(start, start + GRADIENT_ROWS)
                    loss = criterion(self._outputs(rows[part]), wanted[part]) * (len(rows[part]) / len(rows))
                    loss.backward()
                    total += loss.detach()
                optimizer.step()
        check_loss(total, self.lr, "Lower lr, or scale the columns.")
        return self

    def arrays(self) -> list[NDArray[np.float32]]:
        """Return copies of weights and buffers in the order of ``state_dict``, without batch normalisation's counts."""
        state = self.module_.state_dict().values()
        return [value.detach().cpu().numpy().copy() for value in state if value.is_floating_point()]

    def set_arrays(self, arrays: Sequence[NDArray[Any]]) -> Self:
        """Set what `arrays` returned; raise DataError naming the first array that does not fit."""
        if not hasattr(self, "module_"):
            self.initialize()
        state, names = self.module_.state_dict(), self._names()
        way_out = "Do both sides build the same net?"
        if len(arrays) != len(names):
            rule = f"be {len(names)} arrays, as {self.net} has"
            raise DataError(explain("arrays", rule, f"{len(arrays)} arrays", way_out))
        for name, array in zip(names, arrays, strict=True):
            title, shape = f"Array {name} of {self.net}", tuple(state[name].shape)
            seen = str(array.dtype) if isinstance(array, np.ndarray) else type(array).__name__
            if seen != "float32":
                raise DataError(explain(title, "be float32", seen))
            if array.shape != shape:
                raise DataError(explain(title, f"have shape {shape}", str(array.shape), way_out))
            if not np.isfinite(array).all():
                raise DataError(explain(title, "be finite", "NaN or infinity"))
            if name.endswith("running_var") and not (array >= 0).all():
                raise DataError(explain(title, "be >= 0, being variances", float(array.min())))
        # copies, because the arrays may be read-only and must not change with the net
        new = {name: torch.tensor(array) for name, array in zip(names, arrays, strict=True)}
        self.module_.load_state_dict({**state, **new})
        return self

    def _names(self) -> list[str]:
        return [name for name, value in self.module_.state_dict().items() if value.is_floating_point()]

    def logits(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Return the outputs for each row, (num_rows, num_classes), float32."""
        module = self.module_.eval()
        rows, logits = self._to_tensor(X), np.zeros((len(X), self.num_classes), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(rows), INFERENCE_ROWS):
                part = slice(start, start + INFERENCE_ROWS)
                found = module(rows[part].to(self.device_)).cpu().numpy()
                if found.shape != logits[part].shape:
                    rule = f"have shape {logits[part].shape}"
                    message = explain(f"The logits of {self.net}", rule, str(found.shape))
                    raise DataError(message, code=Code.WRONG_MODEL_OUTPUT)
                logits[part] = found
        if not np.isfinite(logits).all():
            row = int(np.flatnonzero(~np.isfinite(logits).all(axis=1))[0])
            seen = f"{logits[row, :5].tolist()} at row {row}"
            raise DataError(explain(f"The logits of {self.net}", "be finite", seen), code=Code.WRONG_MODEL_OUTPUT)
        return logits

    def state_tensors(self, *, training_state: bool = True) -> dict[str, Tensor]:
        """Return the weights and, to continue exactly, the states of optimiser and generator, by name."""
        return self._named_state(self.module_, self.optimizer_, training_state)

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> Self:
        """Restore what `state_tensors` returned; raise ValueError if it is of another architecture."""
        weights, rest = split_weights(tensors)
        if not self.is_own:  # whoever trusts a module's code may build it to compare
            check_weights(weights, self.build)
        self.initialize()
        if self.is_own:
            check_weights(weights, lambda: self.module_)
        rng_state = rest.pop("rng", self.rng_state_)
        torch.Generator().set_state(rng_state)  # raises unless it is a generator's state
        load_optimizer(self.optimizer_, rest)
        self.rng_state_ = rng_state.clone()
        self.module_.load_state_dict(weights)
        return self

    def build(self) -> nn.Module:
        """Return the architecture with fresh weights from torch's current generator."""
        self.validate()
        return own_module(self) if self.is_own else NETS[self.net](self)

    def initialize(self) -> Self:
        """Start from fresh weights and a fresh optimiser."""
        self.device_ = torch.device("cuda" if self.device == "auto" and torch.cuda.is_available() else "cpu")
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(self.seed))
            module = self.build()
            if not self.is_own:  # faster for convolutions on CPUs, but a user's ``view`` may need rows as they are
                module = module.to(memory_format=torch.channels_last)
            self.rng_state_ = torch.get_rng_state()
        self.module_ = module.to(self.device_)
        # fused saves a quarter of the step's time on nets of this size
        how: dict[str, Any] = {"lr": self.lr, "weight_decay": self.weight_decay, "fused": True}
        if self.optimizer == "sgd":
            how["momentum"] = self.momentum
        kind = torch.optim.Adam if self.optimizer == "adam" else torch.optim.SGD
        self.optimizer_ = kind(self.module_.parameters(), **how)
        self.classes_ = np.arange(self.num_classes)
        self.n_features_in_ = self.num_features
        return self

    def _start_training(self) -> None:
        self.module_.train()
        for layer in self.module_.modules() if self.freeze_norm else ():
            if isinstance(layer, nn.BatchNorm2d):
                layer.eval()  # its weights are still trained

    def _outputs(self, rows: Tensor) -> Tensor:
        """Return the module's outputs while it trains, as float32, so that losses are computed in float32."""
        with torch.autocast(self.device_.type, dtype=torch.bfloat16, enabled=self.precision == "bfloat16"):
            outputs: Tensor = self.module_(rows)
        return outputs.float()

    def _train(self, batches: Iterator[tuple[Tensor, Any]], criterion: Loss = LOSSES["cross-entropy"]) -> int:
        """Take a step on each batch; return how many these were."""
        loss, steps = torch.zeros(()), 0
        self._start_training()
        with self._own_generator(self.device_):
            for rows, wanted in batches:
                self.optimizer_.zero_grad()
                loss = criterion(self._outputs(rows), wanted)
                loss.backward()
                self.optimizer_.step()
                steps += 1
        check_loss(loss.detach(), self.lr, "Lower lr, or scale the columns.")
        return steps

    def _passes(
        self, X: Tensor, y: Tensor, epochs: int, batch_size: int | None = None, max_steps: int | None = None
    ) -> Iterator[Batch]:
        least = 2 if self.is_own else 1  # batch normalisation in a user's net may need two rows
        size = batch_size or self.batch_size
        return epochs_of(X, y, epochs=epochs, batch_size=size, max_steps=max_steps, least=least)

    def _to_batch(self, X: NDArray[Any], y: NDArray[Any]) -> Batch:
        return self._to_tensor(X).to(self.device_), as_targets(y).to(self.device_)

    def _to_tensor(self, X: NDArray[Any]) -> Tensor:
        if X.ndim != 2 or X.shape[1] != self.num_features:
            raise DataError(explain("X", f"have {self.num_features} columns", str(X.shape)))
        with warnings.catch_warnings():
            # a read-only array is fine, because rows are never written to
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            rows = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))
        # a user's own module may write into what it is given
        return rows.clone().reshape(len(rows), *row_shape(self)) if self.is_own else rows
