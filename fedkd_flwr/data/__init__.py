"""Public schema, public set, users' files, named data sets, and how rows are dealt to parties.

Names are imported when first used, so importing this room is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkd_flwr.data.datasets import Pool, load_pool
    from fedkd_flwr.data.partitioning import partition, read_split
    from fedkd_flwr.data.public import PREPROCESSING_VERSION, Preprocessor, PublicSet, fingerprint, make_public_set
    from fedkd_flwr.data.schema import Column, Schema
    from fedkd_flwr.data.tables import load_party_table, load_public, read_table
    from fedkd_flwr.data.write_schema import infer_schema

__all__ = [
    "PREPROCESSING_VERSION",
    "Column",
    "Pool",
    "Preprocessor",
    "PublicSet",
    "Schema",
    "fingerprint",
    "infer_schema",
    "load_party_table",
    "load_pool",
    "load_public",
    "make_public_set",
    "partition",
    "read_split",
    "read_table",
]

_HOME = {
    "schema": ("Column", "Schema"),
    "write_schema": ("infer_schema",),
    "public": ("PREPROCESSING_VERSION", "Preprocessor", "PublicSet", "fingerprint", "make_public_set"),
    "tables": ("load_party_table", "load_public", "read_table"),
    "datasets": ("Pool", "load_pool"),
    "partitioning": ("partition", "read_split"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
