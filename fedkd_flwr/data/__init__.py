"""Public schema, public set, users' files, named data sets, and how rows are dealt to parties.

Names are imported when first used, so importing this room is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkd_flwr.data.datasets import load_pool
    from fedkd_flwr.data.look import infer_schema
    from fedkd_flwr.data.partitioning import partition
    from fedkd_flwr.data.public import PublicSet, make_public_set
    from fedkd_flwr.data.schema import Column, Schema
    from fedkd_flwr.data.tables import load_public

__all__ = ["Column", "PublicSet", "Schema", "infer_schema", "load_pool", "load_public", "make_public_set", "partition"]

_HOME = {"schema": "Column Schema", "look": "infer_schema", "public": "PublicSet make_public_set"}
_HOME |= {"tables": "load_public", "datasets": "load_pool", "partitioning": "partition"}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
