"""Instructions and replies as Flower records, and back: no other module knows what their records are called.

Instructions and replies use the record names of Flower's NumPyClient protocol (``fitins.parameters``,
``fitins.config``, ``fitres.*``), so the same client works in a message-API ClientApp and
through ``client_fn``. Arrays are positional there; the setting ``payload`` holds their names. Several arrays of one
thing, such as a net's weights, are named ``model.0``, ``model.1``, ... in their order.

Flower's own strategies that average weights use other records: ``arrays`` and ``config`` down; ``arrays`` and
``metrics`` with ``num-examples`` up, or an error. `flower_reply` makes such replies: one more record, ``reply``, holds
what our own replies say beside their arrays, and an error holds a code and the party's name, but no text
(in simulation the cause too).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, PayloadError, explain

__all__ = [
    "WIRE_VERSION",
    "Reply",
    "Room",
    "Scalar",
    "array_bytes",
    "flower_reply",
    "from_flower",
    "instruction_record",
    "named_arrays",
    "numbered",
    "numbered_arrays",
    "open_instruction",
    "open_reply",
    "reply_record",
    "weights_record",
]

WIRE_VERSION = 1
Scalar = bool | int | float | str | bytes
Stage = Literal["fit", "evaluate"]
_FLOWERS_OWN = {
    ErrorCode.MESSAGE_UNAVAILABLE: "no-reply",
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE: "no-reply",
    ErrorCode.NODE_UNAVAILABLE: "offline",
}
"""What the SuperLink itself says of a node that gave no reply."""
_EMPTY = "_empty"  # the name of the placeholder for no arrays in Flower's legacy records
_REFUSED = 2  # Flower's error code for an exception in a ClientApp
_MAX_VALUES = 100  # plain values beside the arrays of a reply: ours have about 20


def array_bytes(record: ArrayRecord) -> int:
    """Return the bytes of all arrays with their headers, without Flower's envelope."""
    return sum(len(array.data) for array in record.values())


def instruction_record(
    stage: Stage, arrays: Mapping[str, NDArray[Any] | Array], config: Mapping[str, Scalar]
) -> RecordDict:
    """Return a fresh record with one instruction for one party."""
    made = (array if isinstance(array, Array) else Array(array) for array in arrays.values())
    record = ArrayRecord({str(i): array for i, array in enumerate(made)})
    # Flower's message_size_mod fails on an empty text, so no names are no setting
    names = {"payload": ",".join(arrays)} if arrays else {}
    given = {name: value for name, value in config.items() if name != "payload"}
    settings: dict[str, Any] = {**given, **names, "wire-version": WIRE_VERSION}
    return RecordDict({f"{stage}ins.parameters": record, f"{stage}ins.config": ConfigRecord(settings)})


def open_instruction(content: RecordDict, stage: Stage) -> tuple[list[NDArray[Any]], dict[str, Scalar]]:
    """Return the positional arrays and the settings that a NumPyClient is called with."""
    if from_flower(content):
        record = content.array_records["arrays"]
        settings: dict[str, Any] = {"wire-version": WIRE_VERSION, **content.config_records["config"]}
        return [array.numpy() for array in record.values()], {**settings, "payload": ",".join(record)}
    record = content.array_records[f"{stage}ins.parameters"]
    arrays = [array.numpy() for name, array in record.items() if name != _EMPTY]
    config: dict[str, Scalar] = dict(content.config_records[f"{stage}ins.config"])  # type: ignore[arg-type]
    return arrays, config


def from_flower(content: RecordDict) -> bool:
    """Tell whether an instruction comes in the records of Flower's own strategies, such as its FedProx."""
    return set(content) == {"arrays", "config"}


def named_arrays(arrays: Sequence[NDArray[Any]], config: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Give positional arrays the names in ``config["payload"]``.

    Raises `PayloadError` if the sender has another wire version, or there are more or fewer names than arrays.
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


def numbered(name: str, arrays: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return several arrays of one thing under their wire names.

    >>> list(numbered("model", [np.zeros(2), np.ones(1)]))
    ['model.0', 'model.1']
    """
    return {f"{name}.{i}": array for i, array in enumerate(arrays)}


def numbered_arrays(arrays: Mapping[str, NDArray[Any]], name: str) -> list[NDArray[Any]]:
    """Return the arrays that `numbered` named, in their order; other names are ignored.

    Raises `PayloadError` if there are none, or a number is missing.
    """
    found = {key for key in arrays if key.startswith(f"{name}.")}
    wanted = [f"{name}.{i}" for i in range(len(found))]
    if not found or found != set(wanted):
        rule = f"hold {name}.0, {name}.1, ... without a gap"
        raise PayloadError(explain("payload", rule, f"{len(found)} such names"))
    return [arrays[key] for key in wanted]


def reply_record(
    stage: Stage,
    arrays: Sequence[NDArray[Any] | Array],
    num_examples: int,
    metrics: Mapping[str, Scalar],
    *,
    loss: float = 0.0,
) -> RecordDict:
    """Return a NumPyClient's answer as the record that Flower's own wrapper would make."""
    records: dict[str, Any] = {
        f"{stage}res.metrics": ConfigRecord(dict(metrics)),
        f"{stage}res.num_examples": MetricRecord({"num_examples": num_examples}),
        f"{stage}res.status": ConfigRecord({"code": 0, "message": "Success"}),
    }
    if stage == "fit":
        made = (array if isinstance(array, Array) else Array(array) for array in arrays)
        records["fitres.parameters"] = ArrayRecord({str(i): array for i, array in enumerate(made)})
    else:
        records["evaluateres.loss"] = MetricRecord({"loss": loss})
    return RecordDict(records)


def flower_reply(
    message: Message, arrays: Sequence[NDArray[Any]], num_examples: int, metrics: Mapping[str, Scalar]
) -> Message:
    """Return a NumPyClient's answer to ``fit`` as a reply to one of Flower's own strategies.

    A refusal becomes an error, because such a strategy skips errors but stops at a reply without arrays.
    """
    if code := str(metrics.get("code", "")):
        reason = f"{code}: {metrics.get('party', '')!s}"
        if failure := metrics.get("failure"):  # a simulated party's
            reason += f"\n{failure!s}"
        return Message(Error(code=_REFUSED, reason=reason), reply_to=message)
    content = weights_record(named_arrays(arrays, metrics), num_examples)
    content["reply"] = ConfigRecord(dict(metrics))
    return Message(content, reply_to=message)


def weights_record(arrays: Mapping[str, NDArray[Any]], num_examples: int) -> RecordDict:
    """Return one answer as Flower's own strategies average it: its arrays, and how much it weighs."""
    record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
    return RecordDict({"arrays": record, "metrics": MetricRecord({"num-examples": num_examples})})


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One opened reply.

    Parameters
    ----------
    node_id : int
        The Flower node that sent it.
    party : str
        The party's name; "" if it gave none.
    arrays : mapping of str to ndarray
        Its arrays by name.
    metrics : mapping
        Plain values; for a `flower_reply` also its ``num-examples``.
    num_bytes : int
        Bytes of the arrays with their headers.
    code : str
        "" for an answer; otherwise the reason why there is none.
    """

    node_id: int
    party: str
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    num_bytes: int = 0
    code: str = ""


@dataclass(frozen=True, kw_only=True)
class Room:
    """The most that an honest reply may hold; a larger one is turned away before anything of it is decoded.

    Parameters
    ----------
    arrays : int
        Number of arrays, each counted as often as it is named.
    num_bytes : int
        Bytes of those arrays with their headers, and of texts and bytes among the plain values.
    """

    arrays: int
    num_bytes: int

    def holds(self, record: ArrayRecord, metrics: Mapping[str, Any]) -> bool:
        """Tell whether a reply fits; an array that is named twice takes its room twice, as it would when decoded."""
        texts = (value for value in metrics.values() if isinstance(value, str | bytes))
        size = array_bytes(record) + sum(map(len, texts))
        return len(record) <= self.arrays and len(metrics) <= _MAX_VALUES and size <= self.num_bytes


def open_reply(message: Message, stage: Stage, room: Room | None = None) -> Reply:
    """Open one reply, if it fits into ``room``. Whatever is wrong with it becomes its ``code``; it never raises."""
    node_id = message.metadata.src_node_id
    if message.has_error():
        if code := _FLOWERS_OWN.get(message.error.code, ""):
            return Reply(node_id=node_id, party="", code=code)
        said, _, failure = str(message.error.reason).partition("\n")
        code, _, party = said.partition(": ")
        if code not in set(Code) or len(party) > 100 or not party.isprintable():
            return Reply(node_id=node_id, party="", code="party-crashed")
        return Reply(node_id=node_id, party=party, code=code, metrics={"failure": failure} if failure else {})
    party = ""
    try:
        content = message.content
        flower = stage == "fit" and set(content) == {"arrays", "metrics", "reply"}
        metrics = dict(content.config_records["reply" if flower else f"{stage}res.metrics"])
        party = str(metrics.get("party", ""))
        if len(party) > 100 or not party.isprintable():
            return Reply(node_id=node_id, party="", code="bad-name")
        if code := str(metrics.get("code", "")):
            code = code if code in set(Code) else "unknown-code"
            return Reply(node_id=node_id, party=party, metrics=metrics, code=code)
        if not party:
            return Reply(node_id=node_id, party="", code="no-party-name")
        if flower:
            record, counted = content.array_records["arrays"], content.metric_records["metrics"]
            # Flower's strategy reads the names from the record itself, and only one metric, the weight
            metrics |= {"payload": ",".join(record), **counted}
            if set(counted) != {"num-examples"}:
                return Reply(node_id=node_id, party=party, code="bad-payload")
        else:
            record = content.array_records["fitres.parameters"] if stage == "fit" else ArrayRecord()
        if room is not None and not room.holds(record, metrics):
            return Reply(node_id=node_id, party=party, code="too-large")
        positional = [array.numpy() for name, array in record.items() if name != _EMPTY]
        arrays = named_arrays(positional, metrics)
        for array in arrays.values():
            if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
                return Reply(node_id=node_id, party=party, code="not-a-number")
        return Reply(node_id=node_id, party=party, arrays=arrays, metrics=metrics, num_bytes=array_bytes(record))
    except PayloadError as error:
        return Reply(node_id=node_id, party=party, code=error.reason)
    except Exception:  # a hostile reply may raise anything; it is left out and the round goes on
        return Reply(node_id=node_id, party=party, code="bad-payload")
