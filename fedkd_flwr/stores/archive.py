"""Arrays and plain values in one archive of NumPy's format: reading it runs no code, and a changed byte is noticed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["packed", "unpacked"]


def packed(arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> bytes:
    """Return arrays and plain JSON values as bytes, always the same; raises `ValueError` for Python objects."""
    # the names are in the values, because the list of an archive's members has no checksum
    text = json.dumps({"arrays": list(arrays), "values": dict(values)}).encode()
    named: dict[str, NDArray[Any]] = {f"array.{i}": array for i, array in enumerate(arrays.values())}
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=False, meta=np.frombuffer(text, dtype=np.uint8), **named)
    return buffer.getvalue()


def unpacked(data: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return what was `packed`; raises `ValueError` for anything else."""
    try:
        with np.load(BytesIO(data), allow_pickle=False) as file:
            text = json.loads(file["meta"].tobytes())
            return {name: file[f"array.{i}"] for i, name in enumerate(text["arrays"])}, dict(text["values"])
    except Exception as error:  # a damaged archive may raise anything
        raise ValueError(str(error) or type(error).__name__) from error
