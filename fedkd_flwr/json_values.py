"""Values as JSON holds them: without NaN and infinity, in canonical form, and with a digest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

__all__ = ["canonical", "digest_of", "sealed", "unsealed", "without_nan"]


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


def canonical(value: object) -> bytes:
    """Return plain JSON with finite numbers as the same bytes on every machine; raises `ValueError` or `TypeError`."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest_of(*parts: bytes) -> str:
    """Return the digest by which a change of any of these bytes is noticed, 32 hexadecimal digits."""
    return blake2b(b"\n".join(parts), digest_size=16).hexdigest()


def sealed(values: Mapping[str, Any]) -> bytes:
    """Return plain values as one line of JSON with their digest.

    >>> unsealed(sealed({"asked": 3}))
    {'asked': 3}
    """
    return canonical({**values, "seal": digest_of(canonical(dict(values)))}) + b"\n"


def unsealed(data: bytes) -> dict[str, Any]:
    """Return what was `sealed`; raises `ValueError` for anything else, also where one digit was changed."""
    try:
        values = json.loads(data)
        digest = values.pop("seal")
        right = digest_of(canonical(values))
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise ValueError(f"this: {type(error).__name__}: {error}") from error
    if digest != right:
        raise ValueError("other content than its digest was made of: it was changed or damaged")
    return dict(values)
