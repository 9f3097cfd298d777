"""The door: named arrays and plain settings on one side, Flower records on the other.

Instructions and replies use the record names of Flower's NumPyClient protocol (``fitins.parameters``,
``fitins.config``, ``fitres.*``), so the same client answers whether it is mounted in a message-API ClientApp
or through ``client_fn``. Arrays are positional there; their names ride in the setting ``payload``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, PayloadError, explain

__all__ = [
    "WIRE_VERSION",
    "Reply",
    "Scalar",
    "array_bytes",
    "instruction_record",
    "named_arrays",
    "open_instruction",
    "open_reply",
    "reply_record",
]

WIRE_VERSION = 1
Scalar = bool | int | float | str | bytes
Stage = Literal["fit", "evaluate"]
_EMPTY = "_empty"  # how Flower's legacy records spell "no array"


def array_bytes(record: ArrayRecord) -> int:
    """Return the bytes of all arrays with their headers, without Flower's envelope."""
    return sum(len(array.data) for array in record.values())


def instruction_record(stage: Stage, arrays: Mapping[str, NDArray[Any]], config: Mapping[str, Scalar]) -> RecordDict:
    """Return a fresh record with one instruction for one party."""
    record = ArrayRecord({str(i): Array(array) for i, array in enumerate(arrays.values())})
    settings: dict[str, Any] = {**config, "payload": ",".join(arrays), "wire-version": WIRE_VERSION}
    return RecordDict({f"{stage}ins.parameters": record, f"{stage}ins.config": ConfigRecord(settings)})


def open_instruction(content: RecordDict, stage: Stage) -> tuple[list[NDArray[Any]], dict[str, Scalar]]:
    """Return what a NumPyClient is called with: positional arrays and settings."""
    record = content.array_records[f"{stage}ins.parameters"]
    arrays = [array.numpy() for name, array in record.items() if name != _EMPTY]
    config: dict[str, Scalar] = dict(content.config_records[f"{stage}ins.config"])  # type: ignore[arg-type]
    return arrays, config


def named_arrays(arrays: Sequence[NDArray[Any]], config: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Give positional arrays the names in ``config["payload"]``.

    Raises
    ------
    PayloadError
        If the sender speaks another wire version, or names and arrays differ in number.
    """
    version = config.get("wire-version")
    if version != WIRE_VERSION:
        way_out = "Install the same release of fedkd-flwr at the server and every party."
        message = explain("wire-version", f"be {WIRE_VERSION}", version, way_out)
        raise PayloadError(message, reason="unknown-version")
    names = [name for name in str(config.get("payload", "")).split(",") if name]
    if len(names) != len(arrays):
        raise PayloadError(explain("payload", f"name {len(arrays)} arrays", f"{len(names)} names"))
    return dict(zip(names, arrays, strict=True))


def reply_record(
    stage: Stage,
    arrays: Sequence[NDArray[Any]],
    num_examples: int,
    metrics: Mapping[str, Scalar],
    *,
    loss: float = 0.0,
) -> RecordDict:
    """Return what a NumPyClient answered as the record Flower's own wrapper would make of it."""
    records: dict[str, Any] = {
        f"{stage}res.metrics": ConfigRecord(dict(metrics)),
        f"{stage}res.num_examples": MetricRecord({"num_examples": num_examples}),
        f"{stage}res.status": ConfigRecord({"code": 0, "message": "Success"}),
    }
    if stage == "fit":
        record = ArrayRecord({str(i): Array(array) for i, array in enumerate(arrays)})
        records["fitres.parameters"] = record
    else:
        records["evaluateres.loss"] = MetricRecord({"loss": loss})
    return RecordDict(records)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One opened reply.

    Parameters
    ----------
    node_id : int
        The Flower node that sent it.
    party : str
        The party's name, "" if it gave none.
    arrays : mapping of str to ndarray
        What it carries, by name.
    metrics : mapping
        Plain values beside the arrays.
    num_bytes : int
        Array bytes.
    code : str
        "" for an answer; else why there is none.
    """

    node_id: int
    party: str
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    num_bytes: int = 0
    code: str = ""


def open_reply(message: Message, stage: Stage) -> Reply:
    """Open one reply; whatever is wrong with it becomes its ``code``, never an exception."""
    node_id = message.metadata.src_node_id
    if message.has_error():
        return Reply(node_id=node_id, party="", code="party-crashed")
    party = ""
    try:
        content = message.content
        metrics = dict(content.config_records[f"{stage}res.metrics"])
        party = str(metrics.get("party", ""))
        if len(party) > 100 or not party.isprintable():
            return Reply(node_id=node_id, party="", code="bad-name")
        if code := str(metrics.get("code", "")):
            code = code if code in set(Code) else "unknown-code"
            return Reply(node_id=node_id, party=party, metrics=metrics, code=code)
        if not party:
            return Reply(node_id=node_id, party="", code="no-party-name")
        record = content.array_records["fitres.parameters"] if stage == "fit" else ArrayRecord()
        positional = [array.numpy() for name, array in record.items() if name != _EMPTY]
        arrays = named_arrays(positional, metrics)
        for array in arrays.values():
            if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
                return Reply(node_id=node_id, party=party, code="not-a-number")
        return Reply(node_id=node_id, party=party, arrays=arrays, metrics=metrics, num_bytes=array_bytes(record))
    except PayloadError as error:
        return Reply(node_id=node_id, party=party, code=error.reason)
    except Exception:  # a hostile reply may break any parser: it is left out, the round goes on
        return Reply(node_id=node_id, party=party, code="bad-payload")
