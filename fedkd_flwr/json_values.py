"""Values as JSON holds them: it knows no NaN and no infinity."""

from __future__ import annotations

from typing import Any

__all__ = ["without_nan"]


def without_nan(value: Any) -> Any:
    """Return a value in which NaN and infinity, however deep in dictionaries and lists, are None.

    >>> without_nan({"a": [1.0, float("inf")], "b": (float("nan"), "x")})
    {'a': [1.0, None], 'b': [None, 'x']}
    """
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and value - value != 0.0 else value
