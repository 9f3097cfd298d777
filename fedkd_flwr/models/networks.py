"""Torch nets as scikit-learn style estimators: the papers' MLP and CNNs, trained by skorch, step by step.

Only imported on use. skorch owns module, criterion, optimiser and the training step; batches are slices of tensors
already in memory, because a DataLoader's work per row costs more than the step itself on nets of this size.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from skorch import NeuralNetClassifier
from torch import Tensor, nn

from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.models._architectures import NETS, image_shape, widths

__all__ = ["TorchNet"]

INFERENCE_ROWS = 2048  # rows at once when labelling: bounded memory, full speed
MAX_LAYERS = 64
Batch = tuple[Tensor, Tensor]


class TorchNet(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """A neural net over a fixed label space, with ``num_classes`` outputs.

    Parameters
    ----------
    net : {"mlp", "cnn-fedkt", "cnn-privatekt"}
        The architecture. ``cnn-fedkt``: conv5x5 of 6 and 16 channels, each ReLU and 2x2 pooling, dense 120 and 84.
        ``cnn-privatekt``: conv5x5 of 32 and 128 channels likewise, three dense layers of 512 with dropout.
    num_classes, num_features : int
        Outputs and inputs.
    shape : tuple of int, optional
        (channels, height, width) of a row, for the CNNs.
    hidden : int or sequence of int
        Widths of the MLP's hidden layers (ReLU).
    dropout : float
        Share of hidden units dropped while training, within [0, 1).
    optimizer : {"adam", "sgd"}
        With ``lr``, ``weight_decay`` (L2) and, for sgd, ``momentum``.
    batch_size, epochs : int
        Of `fit`.
    max_steps : int, optional
        Ends a `fit` early, after so many minibatch steps.
    device : {"cpu", "auto"}
        ``auto`` takes a GPU if there is one.
    seed : int
        Source of initial weights, batches and dropout. Torch's global generator is neither used nor changed.
    """

    keeps_label_space = True
    net_: NeuralNetClassifier
    rng_state_: Tensor

    def __init__(
        self,
        net: str = "mlp",
        *,
        num_classes: int = 2,
        num_features: int = 1,
        shape: tuple[int, ...] | None = None,
        hidden: Any = (100, 100),
        dropout: float = 0.0,
        optimizer: str = "adam",
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        batch_size: int = 64,
        epochs: int = 20,
        max_steps: int | None = None,
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        self.net = net
        self.num_classes = num_classes
        self.num_features = num_features
        self.shape = shape
        self.hidden = hidden
        self.dropout = dropout
        self.optimizer = optimizer
        self.lr = lr
        self.weight_decay = weight_decay
        self.momentum = momentum
        self.batch_size = batch_size
        self.epochs = epochs
        self.max_steps = max_steps
        self.device = device
        self.seed = seed

    def validate(self) -> None:
        """Check every parameter.

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
            ("net", f"be one of {', '.join(NETS)}", self.net in NETS),
            ("num_classes", "be an integer >= 2", number(self.num_classes, 2, 2**15, whole=True)),
            ("num_features", "be an integer >= 1", number(self.num_features, 1, 2**31, whole=True)),
            ("dropout", "be within [0, 1)", number(self.dropout, 0, 1, whole=False)),
            ("optimizer", "be adam or sgd", self.optimizer in ("adam", "sgd")),
            ("lr", "be > 0", number(self.lr, 0, inf, whole=False) and self.lr > 0),
            ("weight_decay", "be >= 0", number(self.weight_decay, 0, inf, whole=False)),
            ("momentum", "be within [0, 1)", number(self.momentum, 0, 1, whole=False)),
            ("batch_size", "be an integer >= 1", number(self.batch_size, 1, inf, whole=True)),
            ("epochs", "be an integer >= 1", number(self.epochs, 1, inf, whole=True)),
            ("device", "be cpu or auto", self.device in ("cpu", "auto")),
            ("seed", "be an integer >= 0", number(self.seed, 0, 2**63, whole=True)),
        ]
        if self.max_steps is not None:
            steps = number(self.max_steps, 1, inf, whole=True)
            rules.append(("max_steps", "be an integer >= 1", steps))
        fits = len(widths(self)) <= MAX_LAYERS and all(number(w, 1, 2**20, whole=True) for w in widths(self))
        rules.append(("hidden", "list widths >= 1", fits))
        for name, rule, holds in rules:
            if not holds:
                raise ConfigError(explain(name, rule, getattr(self, name)))
        if self.net != "mlp":
            channels, height, width = image_shape(self)
            if not (channels >= 1 and height >= 16 and width >= 16):
                raise ConfigError(explain("shape", f"be at least 16 x 16 pixels for {self.net}", self.shape))

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Start from fresh weights and train for ``epochs`` passes, or ``max_steps`` steps if that is less."""
        self._initialize()
        self._train(self._epochs(*self._to_batch(X, y)))
        return self

    def update_steps(
        self,
        X: NDArray[Any],
        y: NDArray[Any],
        X_public: NDArray[Any] | None,
        y_public: NDArray[Any] | None,
        steps: int | None,
    ) -> Self:
        """Take ``steps`` minibatch steps from the present state, or from fresh weights at first.

        Half of each batch (rounded up) are own rows, the rest public rows; all are own where there are none.
        """
        if not hasattr(self, "net_"):
            self._initialize()
        parts = [self._to_batch(X, y)]
        if X_public is not None and y_public is not None:
            parts.append(self._to_batch(X_public, y_public))
        if steps is None:
            steps = -(-sum(len(part[1]) for part in parts) // self.batch_size)
        self._train(self._mixed(parts, steps))
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """Return the most probable class of each row."""
        return self._logits(X).argmax(dim=1).numpy()

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the probability of each class for each row, float32."""
        return self._logits(X).softmax(dim=1).numpy()

    def state_tensors(self, *, training_state: bool = True) -> dict[str, Tensor]:
        """Return the weights and, for exact continuation, the optimiser's and generator's states, by name."""
        tensors = {f"model.{name}": value for name, value in self.net_.module_.state_dict().items()}
        if training_state:
            tensors["rng"] = self.rng_state_
            for index, state in self.net_.optimizer_.state_dict()["state"].items():
                for name, value in state.items():
                    if isinstance(value, Tensor):
                        tensors[f"optimizer.{index}.{name}"] = value
        return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}

    def load_state_tensors(self, tensors: Mapping[str, Tensor]) -> Self:
        """Take over what `state_tensors` returned, after checking every name, shape and type.

        Raises
        ------
        ValueError
            If the tensors are not those of this architecture.
        """
        with torch.device("meta"):  # shapes without memory: the architecture may come from hostile bytes
            expected = {name: value.shape for name, value in self._build().state_dict().items()}
        weights = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        if {name: value.shape for name, value in weights.items()} != expected:
            raise ValueError("the weights have other names or shapes than this architecture")
        self._initialize()
        parameters = list(self.net_.module_.parameters())
        states: dict[int, dict[str, Tensor]] = {}
        allowed = {"step", "exp_avg", "exp_avg_sq"} if self.optimizer == "adam" else {"momentum_buffer"}
        for name, value in tensors.items():
            if value.dtype != (torch.uint8 if name == "rng" else torch.float32):
                raise ValueError(f"tensor {name!r} has dtype {value.dtype}")
            if not name.startswith("optimizer."):
                continue
            index, _, key = name.removeprefix("optimizer.").partition(".")
            if key not in allowed or not index.isdecimal() or not int(index) < len(parameters):
                raise ValueError(f"tensor {name!r} is not part of the optimiser's state")
            if value.shape != (() if key == "step" else parameters[int(index)].shape):
                raise ValueError(f"tensor {name!r} has shape {tuple(value.shape)}")
            states.setdefault(int(index), {})[key] = value
        complete = not states or len(states) == len(parameters)
        if not complete or any(set(state) != allowed for state in states.values()):
            raise ValueError("the optimiser's state is incomplete")
        self.net_.module_.load_state_dict(weights)
        groups = self.net_.optimizer_.state_dict()["param_groups"]
        self.net_.optimizer_.load_state_dict({"state": states, "param_groups": groups})
        if "rng" in tensors:
            torch.Generator().set_state(tensors["rng"])  # raises unless it is a generator's state
            self.rng_state_ = tensors["rng"].clone()
        return self

    def _build(self) -> nn.Module:
        self.validate()
        return NETS[self.net](self)

    def _initialize(self) -> None:
        device = "cuda" if self.device == "auto" and torch.cuda.is_available() else "cpu"
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(self.seed))
            module = self._build()
            self.rng_state_ = torch.get_rng_state()
        extra = {"optimizer__momentum": self.momentum} if self.optimizer == "sgd" else {}
        self.net_ = NeuralNetClassifier(
            module,
            criterion=nn.CrossEntropyLoss,
            optimizer=torch.optim.Adam if self.optimizer == "adam" else torch.optim.SGD,
            lr=self.lr,
            optimizer__weight_decay=self.weight_decay,
            optimizer__fused=True,  # one pass over each weight: a quarter of the step's time on nets of this size
            train_split=None,
            callbacks="disable",
            verbose=0,
            device=device,
            **extra,
        ).initialize()
        self.classes_ = np.arange(self.num_classes)
        self.n_features_in_ = self.num_features

    def _train(self, batches: Iterator[Batch]) -> None:
        loss = torch.zeros(())
        with self._own_generator():
            for batch in batches:
                loss = self.net_.train_step(batch)["loss"].detach()
        if not bool(torch.isfinite(loss)):
            seen = f"lr={self.lr} with loss {float(loss)}"
            raise ConfigError(explain("Training", "keep the loss finite", seen, "Lower lr, or scale the columns."))

    @contextmanager
    def _own_generator(self) -> Iterator[None]:
        """Let torch draw from this net's own stream, and put the global one back afterwards."""
        devices = [torch.cuda.current_device()] if self.net_.device == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.set_rng_state(self.rng_state_)
            if devices:
                torch.cuda.manual_seed(int(torch.randint(2**31, ())))
            yield
            self.rng_state_ = torch.get_rng_state()

    def _epochs(self, X: Tensor, y: Tensor) -> Iterator[Batch]:
        left = self.max_steps if self.max_steps is not None else math.inf
        for _ in range(self.epochs):
            order = torch.randperm(len(y)).to(y.device)
            for start in range(0, len(y), self.batch_size):
                if left <= 0:
                    return
                left -= 1
                rows = order[start : start + self.batch_size]
                yield X[rows], y[rows]

    def _mixed(self, parts: list[Batch], steps: int) -> Iterator[Batch]:
        public = self.batch_size // 2 if len(parts) == 2 else 0
        streams = [_rows_of(y, size) for (_, y), size in zip(parts, (self.batch_size - public, public), strict=False)]
        for _ in range(steps):
            rows = [next(stream) for stream in streams]
            batch = [(X[r], y[r]) for (X, y), r in zip(parts, rows, strict=True)]
            yield batch[0] if len(batch) == 1 else (torch.cat([b[0] for b in batch]), torch.cat([b[1] for b in batch]))

    def _to_batch(self, X: NDArray[Any], y: NDArray[Any]) -> Batch:
        labels = torch.from_numpy(np.asarray(y, dtype=np.int64)).to(self.net_.device)
        return self._to_tensor(X).to(self.net_.device), labels

    def _to_tensor(self, X: NDArray[Any]) -> Tensor:
        if X.ndim != 2 or X.shape[1] != self.num_features:
            raise DataError(explain("X", f"have {self.num_features} columns", str(X.shape)))
        with warnings.catch_warnings():
            # rows from a read-only file or message are never written to
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))

    def _logits(self, X: NDArray[Any]) -> Tensor:
        module = self.net_.module_.eval()
        with torch.inference_mode():
            rows = self._to_tensor(X)
            starts = range(0, len(rows), INFERENCE_ROWS)
            parts = (rows[start : start + INFERENCE_ROWS].to(self.net_.device) for start in starts)
            return torch.cat([module(part).cpu() for part in parts])


def _rows_of(y: Tensor, size: int) -> Iterator[Tensor]:
    """Yield ``size`` row numbers at a time: one shuffled pass after another, none left out."""
    rows = torch.randperm(len(y))
    while True:
        while len(rows) < size:
            rows = torch.cat((rows, torch.randperm(len(y))))
        yield rows[:size].to(y.device)
        rows = rows[size:]
