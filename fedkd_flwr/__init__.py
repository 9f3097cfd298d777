"""Federated learning where parties share labels, not weights, on Flower."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkd_flwr.app.public_rows import make_public
    from fedkd_flwr.stores.saved_model import SavedModel, load

__all__ = ["SavedModel", "load", "make_public"]
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:  # importing the package imports nothing but Python
    if name == "make_public":
        from fedkd_flwr.app.public_rows import make_public

        return make_public
    if name in __all__:
        from fedkd_flwr.stores import saved_model

        return getattr(saved_model, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
