"""A server's state after a round, in one file of arrays and plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, DataError, explain
from fedkd_flwr.files import write_atomic

__all__ = ["load_checkpoint", "save_checkpoint"]

_CHECKPOINT = "checkpoint.npz"


def save_checkpoint(folder: str | Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Path:
    """Replace the checkpoint in ``folder``, which is made if it is missing, in one step, and return its path.

    ``meta`` holds plain JSON values. Raises `ValueError` if an array holds Python objects, or a number in ``meta`` is
    not finite.
    """
    text = json.dumps({"arrays": list(arrays), "meta": dict(meta)}, allow_nan=False).encode()
    named: dict[str, NDArray[Any]] = {f"array.{i}": array for i, array in enumerate(arrays.values())}
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=False, meta=np.frombuffer(text, dtype=np.uint8), **named)
    return write_atomic(Path(folder) / _CHECKPOINT, buffer.getvalue())


def load_checkpoint(folder: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and values that `save_checkpoint` wrote.

    Raises `DataError` if there is no checkpoint (code ``missing-file``), or it is damaged (``state-lost``).
    """
    path = Path(folder) / _CHECKPOINT
    if not path.is_file():
        way_out = "Name the folder runs/<run-id>/checkpoint of the run to continue."
        raise DataError(explain(f"checkpoint {path}", "be there", "no such file", way_out), code=Code.MISSING_FILE)
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            text = json.loads(file["meta"].tobytes())
            arrays = {name: file[f"array.{i}"] for i, name in enumerate(text["arrays"])}
        return arrays, dict(text["meta"])
    except Exception as error:  # a damaged archive may raise anything
        way_out = "Start the run afresh."
        message = explain(f"checkpoint {path}", "be whole", str(error) or type(error).__name__, way_out)
        raise DataError(message, code=Code.STATE_LOST) from error
