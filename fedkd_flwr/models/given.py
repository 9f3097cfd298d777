"""Models that a program hands over as objects: for its own process each has an import string, as a factory has."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable
from typing import Any

from sklearn.base import clone

from fedkd_flwr.errors import ConfigError, explain

__all__ = ["PREFIX", "given_model", "is_given", "name_of", "shown"]

PREFIX = f"{__name__}:"
_NAME = re.compile(re.escape(PREFIX) + r"(\w+)_[0-9a-f]{8}")
_given: dict[str, Any] = {}


def name_of(model: Any) -> str:
    """Return the import string of an estimator, a torch module, or a class or function that makes one.

    Equal reprs have equal names, so that runs with equal models can be compared; the latest model stands for them.
    Anything else is a `ConfigError`.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> name_of(DecisionTreeClassifier()).rpartition("_")[0]
    'fedkd_flwr.models.given:DecisionTreeClassifier'
    """
    if not (callable(model) or hasattr(model, "fit")):
        way_out = 'Give for example RandomForestClassifier(), a torch module, or the name "random-forest".'
        raise ConfigError(explain("model", "be an estimator, a module, a class, a function or a name", model, way_out))
    kind = getattr(model, "__name__", type(model).__name__)
    word = "".join(letter if letter.isalnum() else "_" for letter in kind)
    name = f"{word}_{hashlib.sha256(repr(model).encode()).hexdigest()[:8]}"
    _given[name] = model
    return f"{PREFIX}{name}"


def is_given(spec: str) -> bool:
    """Tell whether an import string is that of a model which this process was given: its own code, which it trusts."""
    return spec.startswith(PREFIX)


def shown(text: str) -> str:
    """Return a text with the names of given models as people know them.

    >>> shown(f"{PREFIX}RandomForestClassifier_f8b7d3ac, on all rows")
    'RandomForestClassifier, on all rows'
    """
    return _NAME.sub(r"\1", text)


def given_model(spec: str) -> Any:
    """Return the object that `name_of` named."""
    return _given[spec.removeprefix(PREFIX)]


def __getattr__(name: str) -> Callable[..., Any]:
    """Return what makes fresh models like the one of this name, for `fedkd_flwr.models.zoo.make_model`."""
    if name not in _given:
        raise AttributeError(f"no model {name!r} was given to this process")
    model = _given[name]
    if isinstance(model, type) or not (hasattr(model, "fit") or hasattr(model, "forward")):
        return model  # type: ignore[no-any-return]  # a class or function, called as an import string's is

    def make(seed: int) -> Any:
        if not hasattr(model, "get_params"):
            return copy.deepcopy(model)
        made = clone(model)
        free = [key for key, value in made.get_params().items() if value is None]
        return made.set_params(**{key: seed for key in free if key.rpartition("__")[2] == "random_state"})

    return make
