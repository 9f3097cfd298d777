"""dp-accounting, imported when one of its names is used first: it would be a quarter of a party's start."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import dp_accounting

    return getattr(dp_accounting, name)
