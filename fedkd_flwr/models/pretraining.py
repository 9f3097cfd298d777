"""Nets that start from labelled public rows: train once on them, keep the body, start the last layer at zero.

Everybody who holds the same public rows computes the same start from the run's seed, so nothing is exchanged.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.models.classifier import Classifier

__all__ = ["pretrain"]

_BATCH = 64  # rows of a minibatch: public rows are many, whatever number suits a party's own
_KEPT = 12  # bodies a process remembers: a simulation's process plays several parties, with up to ten architectures
_bodies: OrderedDict[tuple[Any, ...], list[NDArray[np.float32]]] = OrderedDict()


def pretrain(
    model: Classifier,
    X: NDArray[Any],
    y: NDArray[np.integer[Any]],
    *,
    num_classes: int,
    same_classes: bool,
    epochs: int,
    seed: int,
    name: str,
) -> Classifier:
    """Give a net the weights that training on labelled public rows leaves, and return it.

    Every layer but the last is taken over, and batch normalisation's running averages with them (which this training
    moves whether or not the net is to keep them afterwards: ``freeze_norm``). The last layer, whose
    size is the number of classes, starts at zero, so that all classes are equally likely before the first private row;
    it is taken over too where the public labels are of the same classes. The optimiser starts afresh.

    Random weights on top of features that already tell a lot only have to be unlearnt, from few rows.

    Parameters
    ----------
    model : Classifier
        A torch net of the zoo; whatever it has learnt is forgotten.
    X : ndarray of shape (num_public, num_features)
        Public rows.
    y : ndarray of shape (num_public,), integers
        Their labels within ``0..num_classes-1``.
    num_classes : int
        Size of the label space of ``y``.
    same_classes : bool
        Whether that is the model's own label space.
    epochs : int
        Whole passes, 1 or more, in minibatches of 64.
    seed : int
        The same for all who are to start alike.
    name : str
        Names rows and labels (the public set's fingerprint): the last results are remembered under it.

    Raises
    ------
    ConfigError
        If the model is no torch net, or ``same_classes`` and the number of classes differs.
    """
    if not model.supports_soft_steps:
        way_out = "Use a torch net (mlp, cnn-fedmd), or pretrain-epochs 0."
        raise ConfigError(explain("a pre-trained model", "be a torch net", "another estimator", way_out))
    if same_classes and num_classes != model.num_classes:
        raise ConfigError(explain("num_classes", f"be {model.num_classes}, the model's own", num_classes))
    public_net = _resized(model, num_classes, seed).set_params(batch_size=_BATCH, freeze_norm=False)
    net = Classifier(public_net, num_classes=num_classes)
    params = repr(sorted(net.template.get_params().items(), key=lambda item: item[0]))
    key = (name, params, epochs)
    if key not in _bodies:
        _bodies[key] = net.train_epochs(X, y, epochs=epochs).arrays()
        while len(_bodies) > _KEPT:
            _bodies.popitem(last=False)
    _bodies.move_to_end(key)
    fresh, body = model.initialize().arrays(), _bodies[key]
    if same_classes:
        return model.set_arrays(body)
    # the last layer is what changes its shape with the number of classes, whatever the architecture
    larger = Classifier(_resized(model, model.num_classes + 1, seed), num_classes=model.num_classes + 1)
    last = [own.shape != other.shape for own, other in zip(fresh, larger.initialize().arrays(), strict=True)]
    return model.set_arrays(
        [np.zeros_like(own) if new else old for own, old, new in zip(fresh, body, last, strict=True)]
    )


def _resized(model: Classifier, num_classes: int, seed: int) -> Any:
    """Return the model's unfitted net with another number of outputs."""
    from sklearn.base import clone

    return clone(model.template).set_params(num_classes=num_classes, seed=seed)
