"""Federated learning where parties share labels, not weights, on Flower."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkd_flwr.api.estimators import FederatedClassifier, FederatedRegressor
    from fedkd_flwr.api.result import FederationResult
    from fedkd_flwr.api.simulate import simulate
    from fedkd_flwr.api.tables import choose, compare, load, runs
    from fedkd_flwr.app.public_rows import make_public
    from fedkd_flwr.stores.saved_model import SavedModel

__all__ = ["FederatedClassifier", "FederationResult", "SavedModel", "choose", "compare", "load", "runs", "simulate"]
__all__ += ["FederatedRegressor", "make_public"]
__version__ = "0.2.0"

_ROOMS = {"FederationResult": "api.result", "simulate": "api.simulate"}
_ROOMS |= dict.fromkeys(("FederatedClassifier", "FederatedRegressor"), "api.estimators")
_ROOMS |= dict.fromkeys(("choose", "compare", "load", "runs"), "api.tables")
_ROOMS |= {"SavedModel": "stores.saved_model", "make_public": "app.public_rows"}


def __getattr__(name: str) -> Any:  # importing the package imports nothing but Python
    if name in _ROOMS:
        from importlib import import_module

        return getattr(import_module(f"fedkd_flwr.{_ROOMS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
