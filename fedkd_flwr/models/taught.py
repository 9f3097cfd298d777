"""Models that learn from labelled public rows: labels by queries or known to the server, and weights to start from.

Everybody with the same public rows computes the same weights from the run's seed, so nothing is exchanged.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.models.classifier import Classifier

__all__ = ["labels_from_known", "pretrain", "teach"]

_TREES, _MOST_FOLDS = 100, 5


def labels_from_known(
    X: NDArray[Any], rows: NDArray[np.int64], labels: NDArray[np.int16], *, seed: int
) -> NDArray[np.int16]:
    """Return a random forest's labels of all public rows, each by a forest that was not taught that row.

    A forest repeats the rows it was taught. Judged by those it would seem to be right everywhere, and the consensus
    would tell which rows they are. ``rows`` and ``labels`` (num_known,) are the known rows, of each class at least two.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    forest = RandomForestClassifier(_TREES, random_state=seed)
    said = np.asarray(forest.fit(X[rows], labels).predict(X), dtype=np.int16)
    fewest = int(np.bincount(labels)[np.unique(labels)].min())
    folds = StratifiedKFold(min(_MOST_FOLDS, fewest), shuffle=True, random_state=seed)
    said[rows] = cross_val_predict(forest, X[rows], labels, cv=folds)
    return said


def teach(
    make: Callable[[], Classifier],
    X: NDArray[Any],
    rows: NDArray[np.int64],
    labels: NDArray[np.int16],
    counts: NDArray[np.float64] | None = None,
) -> Classifier:
    """Return a model, made by ``make``, that has learnt from the answered rows; `DataError` if no row has an answer.

    ``X`` (num_public, num_features) are all public rows; ``rows`` (num_queries,) those that were asked, no row twice,
    and ``labels`` (num_queries,), int16, the answers: -1 for none. ``counts`` (num_queries, num_classes) are learnt
    instead of labels.
    """
    answered = labels >= 0
    if counts is None:
        return make().fit(X[rows[answered]], labels[answered])
    return make().fit_soft(X[rows[answered]], counts[answered])


_BATCH = 64  # rows of a minibatch, whatever the net's own batch size
_KEPT = 12  # trained weights that a process caches; a simulation may have ten architectures
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
    """Train a net of the same architecture on labelled public rows, copy its weights to the model, and return it.

    All layers but the last are copied, with batch normalisation's running averages (``freeze_norm`` is off in this
    training). The last layer, whose size is the number of classes, starts at zero, so that all classes are equally
    likely before the first private row: random weights would have to be unlearnt, from few rows. If the public labels
    are of the model's classes (``same_classes``), the last layer is copied too. The optimiser starts afresh. Raises
    `ConfigError` if the model is not a torch net, or ``same_classes`` with another number of classes. The result is
    cached under ``name``, the public set's fingerprint: other rows or labels need another name.
    """
    if not model.supports_soft_steps:
        way_out = "Use a torch net (mlp, cnn-fedmd), or paper.pretrain-epochs 0."
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
    # in every architecture the arrays of the last layer are those whose shape depends on the number of classes
    larger = Classifier(_resized(model, model.num_classes + 1, seed), num_classes=model.num_classes + 1)
    last = [own.shape != other.shape for own, other in zip(fresh, larger.initialize().arrays(), strict=True)]
    return model.set_arrays(
        [np.zeros_like(own) if new else old for own, old, new in zip(fresh, body, last, strict=True)]
    )


def _resized(model: Classifier, num_classes: int, seed: int) -> Any:
    return clone(model.template).set_params(num_classes=num_classes, seed=seed)
