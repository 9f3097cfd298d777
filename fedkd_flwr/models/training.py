"""Methods of a `Classifier` that only neural nets have: to return and take weights, and to train on soft targets.

They keep the optimiser's state from call to call, as one training in several parts. None of them makes the classifier
constant: a net whose rows have one class trains on them all the same, because these algorithms use its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.base import clone

from fedkd_flwr.checks import check_choice, check_number, check_whole
from fedkd_flwr.errors import ConfigError, DataError, FedkdError, explain
from fedkd_flwr.models._checks import check_labels, check_rows, check_targets

__all__ = ["LOSS_NAMES", "SoftTraining"]

LOSS_NAMES = ("cross-entropy", "l1-logits", "mse-probs")
"""Distances between a net's answer and a target; targets are logits for ``l1-logits``, otherwise probabilities."""

_ENTROPY = LOSS_NAMES[0]
_LOOKS, _PATIENCE = 40, 8  # of `joint_fit`


class SoftTraining:
    """The methods of `fedkd_flwr.models.classifier.Classifier` that need a neural net.

    Methods that train start from fresh weights if the net has none yet. All take rows ``X`` of shape (num_rows,
    num_features), float32 or float64, with labels ``y`` as `Classifier.fit` does, or with ``targets`` of shape
    (num_rows, num_classes). ``epochs`` are whole passes and ``steps`` minibatch steps, 1 or more. ``loss`` is one of
    `LOSS_NAMES`: cross-entropy with the probabilities, mean absolute difference of logits, or mean squared difference
    of probabilities; both means are over rows and classes. Another estimator, a number out of range and an unknown loss
    are a `ConfigError`, rows, labels, targets and weights that do not fit a `DataError` that names the first, and
    weights or answers of a net that has none yet a `FedkdError`.
    """

    num_classes: int
    template: Any
    estimator: Any
    num_features: int | None
    steps_taken: int = 0  # of the last `train_epochs`
    _classes: NDArray[np.int64] | None

    @property
    def supports_soft_steps(self) -> bool:
        """Whether the methods below work, which need a torch net of the zoo."""
        return callable(getattr(self.template, "full_batch_steps", None))

    def initialize(self) -> Self:
        """Draw fresh weights from the seed and start a fresh optimiser; everything learnt is forgotten."""
        return self._adopt(self._fresh_net())

    def arrays(self) -> list[NDArray[np.float32]]:
        """Return float32 copies of weights and buffers in torch's order, without batch normalisation's counts."""
        return list(self._net("arrays").arrays())

    def set_arrays(self, arrays: Sequence[NDArray[Any]]) -> Self:
        """Set the weights and buffers to copies of what `arrays` of the same architecture returned.

        An unfitted net is initialised first; a fitted one keeps its optimiser's state. If an array is refused, no
        weight has changed.
        """
        self._require_support()
        return self._adopt(self._net_or_fresh().set_arrays(arrays))

    def logits(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Return the net's outputs before softmax, float32 of shape (num_rows, num_classes)."""
        net = self._net("logits")
        logits: NDArray[np.float32] = net.logits(check_rows("X", X, self.num_features, allow_empty=True))
        return logits

    def train_epochs(
        self,
        X: NDArray[Any],
        y: NDArray[Any],
        *,
        epochs: int,
        mu: float = 0.0,
        shifts: Sequence[NDArray[Any]] | None = None,
    ) -> Self:
        """Continue training for whole passes over rows and labels; ``steps_taken`` is then the number of steps.

        With ``mu`` > 0, finite, (mu / 2) ||w - w_t||^2 is added to the loss, w_t the present weights without buffers.
        Source: Li et al. 2020 (FedProx), equation (2). ``shifts`` hold a constant for each of the `arrays`, float32 of
        its shape, that is added to its gradient; those of buffers are ignored. Source: Karimireddy et al. 2020
        (SCAFFOLD), Algorithm 1: the constant is c - c_i.
        """
        net = self._net_to_train(epochs=epochs)
        check_number("mu", mu, least=0)
        wanted, seen = [array.shape for array in net.arrays()], [np.shape(shift) for shift in shifts or ()]
        if shifts is not None and wanted != seen:
            raise DataError(explain("shifts", f"have the net's shapes {wanted}", str(seen)))
        self.steps_taken = net.passes(*self._labelled(X, y), epochs=epochs, mu=mu, shifts=shifts)
        return self._adopt(net)

    def are_trained(self) -> list[bool]:
        """Return which of the `arrays` training moves by gradient; not buffers, such as running means."""
        return list(self._net("are_trained").are_trained())

    @property
    def sgd_rate(self) -> float:
        """The learning rate of plain stochastic gradient descent: what a step does is known by it and the gradient."""
        self._require_support()
        net = self.template
        if net.optimizer != "sgd" or net.momentum:
            way_out = "Give the model (optimizer='sgd', momentum=0, lr=0.1)."
            seen = net.optimizer if net.optimizer != "sgd" else f"momentum {net.momentum:g}"
            raise ConfigError(explain("the net's optimiser", "be sgd without momentum", seen, way_out))
        return float(net.lr)

    def with_widths(self, widths: Sequence[int]) -> Self:
        """Return an unfitted net of the same kind whose hidden layers have these widths, each 1 or more."""
        net = getattr(self.template, "net", type(self.template).__name__)
        if net != "mlp":
            raise ConfigError(explain("model", "be the fully connected net mlp", net, "Set model to mlp."))
        template = clone(self.template).set_params(hidden=[int(width) for width in widths])
        return type(self)(template, num_classes=self.num_classes, origin=self.origin)  # type: ignore[call-arg, attr-defined]

    def digest(
        self, X: NDArray[Any], targets: NDArray[Any], *, epochs: int, loss: str, batch_size: int | None = None
    ) -> Self:
        """Continue training for whole passes over rows and the targets that others agreed on (FedMD's "digest").

        Source: Li and Wang 2019, Algorithm 1; its published code compares logits by their mean absolute difference.
        ``batch_size`` is by default the net's own.
        """
        counts = {} if batch_size is None else {"batch_size": batch_size}
        net = self._net_to_train(epochs=epochs, loss=loss, **counts)
        X = check_rows("X", X, self.num_features)
        targets = self._targets("targets", targets, len(X), loss)
        net.passes(X, targets, epochs=epochs, loss=loss, batch_size=batch_size)
        return self._adopt(net)

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
        """Take minibatch steps on the cross-entropy on own rows plus ``weight`` times the distance on public rows.

        Half of each batch (rounded up, at least one row) are own rows, the others public rows. Source: the regularised
        objective of distributed distillation (Bistritz, Mann and Bambos 2020). ``weight`` is 0 or more and finite.
        """
        weight = check_number("weight", weight, least=0)
        net = self._net_to_train(steps=steps, loss=loss)
        X, y = self._labelled(X, y)
        X_public = check_rows("X_public", X_public, X.shape[1])
        targets = self._targets("targets", targets, len(X_public), loss)
        return self._adopt(net.joint_steps(X, y, X_public, targets, steps=steps, weight=weight, loss=loss))

    def joint_fit(
        self, X: NDArray[Any], y: NDArray[Any], X_public: NDArray[Any], targets: NDArray[Any], *, steps: int, seed: int
    ) -> Self:
        """Start afresh and take `joint_steps`, as many as tell rows held out best; ``targets`` are probabilities.

        First a fifth of own and of public rows, drawn by ``seed``, is held out. After each ``steps`` the loss on them
        is measured, until `_PATIENCE` looks in turn found none less, at most `_LOOKS` times. Then all rows are learnt,
        in as many passes.
        """
        rng = np.random.default_rng(seed)
        orders = [rng.permutation(len(rows)) for rows in (X, X_public)]
        own_out, public_out = (order[: max(len(order) // 5, 1)] for order in orders)
        own, public = (order[len(order) // 5 :] for order in orders)
        best, least = 0, np.inf
        self.initialize()
        for look in range(1, _LOOKS + 1):
            self.joint_steps(X[own], y[own], X_public[public], targets[public], steps=steps, weight=1.0, loss=_ENTROPY)
            logs = [log_softmax(self.logits(rows), axis=1) for rows in (X[own_out], X_public[public_out])]
            loss = -logs[0][np.arange(len(own_out)), y[own_out]].mean() - (targets[public_out] * logs[1]).sum(1).mean()
            if loss < least:
                best, least = look, loss
            elif look - best == _PATIENCE:
                break
        steps = best * steps * 5 // 4
        return self.initialize().joint_steps(X, y, X_public, targets, steps=steps, weight=1.0, loss=_ENTROPY)

    def full_batch_steps(self, X: NDArray[Any], targets: NDArray[Any], *, steps: int) -> Self:
        """Take steps along the gradient of the mean cross-entropy over all rows (PrivateKT's fine-tuning).

        The gradient is summed over parts of the rows, so memory does not grow with their number. ``targets`` are labels
        of shape (num_rows,), or probabilities.
        """
        net = self._net_to_train(steps=steps)
        X = check_rows("X", X, self.num_features)
        if np.ndim(targets) == 1:
            targets, _ = check_labels("targets", targets, len(X), self.num_classes)
        else:
            targets = self._targets("targets", targets, len(X), "cross-entropy")
        return self._adopt(net.full_batch_steps(X, targets, steps=steps))

    def _labelled(self, X: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        X = check_rows("X", X, self.num_features)
        return X, check_labels("y", y, len(X), self.num_classes)[0]

    def _targets(self, name: str, targets: NDArray[Any], num_rows: int, loss: str) -> NDArray[np.floating]:
        checked = check_targets(name, targets, num_rows, self.num_classes, probabilities=loss != "l1-logits")
        limit = float(np.finfo(np.float32).max)
        if not np.abs(checked).max() <= limit:
            raise DataError(explain(name, f"be within +-{limit:.1e}, as float32 is", float(np.abs(checked).max())))
        return checked

    def _adopt(self, net: Any) -> Self:
        """Make a net with weights the fitted estimator, over all classes."""
        self.estimator, self._classes, self.num_features = net, np.arange(self.num_classes), net.num_features
        return self

    def _fresh_net(self) -> Any:
        self._require_support()
        return clone(self.template).initialize()

    def _net(self, what: str) -> Any:
        self._require_support()
        if self.estimator is None:
            way_out = "Call initialize(), fit(), or a method that trains, first."
            raise FedkdError(explain(what, "be asked of a net that has weights", "one without", way_out))
        return self.estimator

    def _net_to_train(self, *, loss: str = _ENTROPY, **counts: int) -> Any:
        self._require_support()
        for name, value in counts.items():
            check_whole(name, value, 1)
        check_choice("loss", loss, LOSS_NAMES)
        return self._net_or_fresh()

    def _net_or_fresh(self) -> Any:
        return self._fresh_net() if self.estimator is None else self.estimator

    def _require_support(self) -> None:
        if not self.supports_soft_steps:
            seen = f"an estimator {type(self.template).__name__}"
            raise ConfigError(explain("The model", "be a torch net", seen, "Use a torch net: mlp, cnn-privatekt."))
