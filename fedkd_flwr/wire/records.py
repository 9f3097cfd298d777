"""Instructions and replies as Flower records, and back: no other module knows what their records are called.

    instruction   ``arrays``, by payload name    ``config``: the settings
    reply         ``arrays``, by payload name    ``metrics``: ``num-examples`` and other numbers    ``reply``: the rest

A NumPyClient sees positional arrays, and their names in the setting ``payload``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, PayloadError, explain

WIRE_VERSION = 1
Scalar = bool | int | float | str | bytes
Stage = Literal["fit", "evaluate"]
_FLOWERS_OWN = {
    ErrorCode.MESSAGE_UNAVAILABLE: "no-reply",
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE: "no-reply",
    ErrorCode.NODE_UNAVAILABLE: "offline",
}
"""What the SuperLink itself says of a node that gave no reply."""
_CHANGING_MODS = ("fixedclipping_mod", "adaptiveclipping_mod", "LocalDpMod", "secaggplus")
_MAX_VALUES = 100  # plain values beside the arrays of a reply: ours have about 20


def array_bytes(record: ArrayRecord) -> int:
    """Return the bytes of all arrays with their headers, without Flower's envelope."""
    return sum(len(array.data) for array in record.values())


def instruction_record(arrays: Mapping[str, NDArray[Any] | Array], config: Mapping[str, Scalar]) -> RecordDict:
    """Return a fresh record with one instruction for one party."""
    given: dict[str, Any] = {name: value for name, value in config.items() if name != "payload"}
    record = ArrayRecord({name: _as_array(array) for name, array in arrays.items()})
    return RecordDict({"arrays": record, "config": ConfigRecord({**given, "wire-version": WIRE_VERSION})})


def open_instruction(content: RecordDict) -> tuple[list[NDArray[Any]], dict[str, Scalar]]:
    """Return the positional arrays and the settings that a NumPyClient is called with."""
    record, config = content.array_records["arrays"], content.config_records["config"]
    settings: dict[str, Any] = {"payload": ",".join(record), **config}
    return [array.numpy() for array in record.values()], settings


def _as_array(array: NDArray[Any] | Array) -> Array:
    return array if isinstance(array, Array) else Array(array)


def by_name(arrays: Sequence[NDArray[Any] | Array], config: Mapping[str, Any]) -> tuple[ArrayRecord, dict[str, Any]]:
    """Name positional arrays as ``payload`` in ``config`` says, and return the other settings.

    Else they are numbered and ``payload`` stays, so that `named_arrays` refuses them.
    """
    names = [name for name in str(config.get("payload", "")).split(",") if name]
    fits = len(set(names)) == len(names) == len(arrays)
    names = names if fits else [str(i) for i in range(len(arrays))]
    record = ArrayRecord({name: _as_array(array) for name, array in zip(names, arrays, strict=True)})
    return record, {key: value for key, value in config.items() if key != "payload" or not fits}


def named_arrays(arrays: Sequence[NDArray[Any]], config: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Give positional arrays the names in ``config["payload"]``; `PayloadError` for another version or other names."""
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
    """Return the arrays that `numbered` named, in their order; `PayloadError` if there are none, or one is missing."""
    found = {key for key in arrays if key.startswith(f"{name}.")}
    wanted = [f"{name}.{i}" for i in range(len(found))]
    if not found or found != set(wanted):
        rule = f"hold {name}.0, {name}.1, ... without a gap"
        raise PayloadError(explain("payload", rule, f"{len(found)} such names"))
    return [arrays[key] for key in wanted]


def reply_record(
    arrays: Sequence[NDArray[Any] | Array], num_examples: int, metrics: Mapping[str, Scalar], *, loss: float = math.nan
) -> RecordDict:
    """Return a NumPyClient's answer as a record; a ``loss`` that is no number is left out."""
    record, said = by_name(arrays, metrics)
    numbers: dict[str, Any] = {"num-examples": num_examples} | ({} if math.isnan(loss) else {"loss": loss})
    for name, value in list(said.items()):
        if value == "":  # Flower's message_size_mod fails on an empty text
            del said[name]
        elif isinstance(value, int | float) and not isinstance(value, bool) and name != "wire-version":
            numbers[name] = said.pop(name)
    held = {"arrays": record} if record else {}
    return RecordDict({**held, "metrics": MetricRecord(numbers), "reply": ConfigRecord(said)})


def error_reply(message: Message, code: str, party: str, failure: str = "") -> Message:
    """Return a refusal as an error; ``failure`` is a simulated party's cause."""
    reason = f"{code}: {party}" + (f"\n{failure}" if failure else "")
    return Message(Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=reason), reply_to=message)


def weights_record(arrays: Mapping[str, NDArray[Any]], num_examples: int) -> RecordDict:
    """Return one answer as Flower's own strategies average it: its arrays, and how much it weighs."""
    record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
    return RecordDict({"arrays": record, "metrics": MetricRecord({"num-examples": num_examples})})


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One opened reply."""

    node_id: int  # the Flower node that sent it
    party: str  # the party's name; "" if it gave none
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # its arrays by name
    metrics: Mapping[str, Any] = field(default_factory=dict)  # plain values, ``num-examples`` among them
    num_bytes: int = 0  # bytes of the arrays with their headers
    code: str = ""  # "" for an answer; otherwise the reason why there is none


@dataclass(frozen=True, kw_only=True)
class Room:
    """The most that an honest reply may hold; a larger one is turned away before anything of it is decoded."""

    arrays: int  # number of arrays, each counted as often as it is named
    num_bytes: int  # bytes of those arrays with their headers, and of texts and bytes among the plain values

    def holds(self, record: ArrayRecord, metrics: Mapping[str, Any]) -> bool:
        """Tell whether a reply fits; an array that is named twice takes its room twice, as it would when decoded."""
        texts = (value for value in metrics.values() if isinstance(value, str | bytes))
        size = array_bytes(record) + sum(map(len, texts))
        return len(record) <= self.arrays and len(metrics) <= _MAX_VALUES and size <= self.num_bytes


def _mod_that_failed(error: Error) -> str:
    """Return which of Flower's mods, that change replies, ended a node's visit, or ""."""
    failed = error.code == ErrorCode.MOD_FAILED_PRECONDITION or "secaggplus" in str(error.reason)
    return next((mod for mod in _CHANGING_MODS if mod in str(error.reason)), "") if failed else ""


def open_reply(message: Message, stage: Stage, room: Room | None = None) -> Reply:
    """Open one reply, if it fits into ``room``. Whatever is wrong with it becomes its ``code``; it never raises."""
    node_id = message.metadata.src_node_id
    if message.has_error():
        if code := _FLOWERS_OWN.get(message.error.code, ""):
            return Reply(node_id=node_id, party="", code=code)
        words, _, failure = str(message.error.reason).partition("\n")
        if mod := _mod_that_failed(message.error):
            return Reply(node_id=node_id, party="", code=Code.CHANGING_MOD, metrics={"failure": mod})
        code, _, party = words.partition(": ")
        if code not in set(Code) or len(party) > 100 or not party.isprintable():
            return Reply(node_id=node_id, party="", code="party-crashed")
        return Reply(node_id=node_id, party=party, code=code, metrics={"failure": failure} if failure else {})
    party = ""
    try:
        content = message.content
        said = content.config_records["reply"]
        party = str(said.get("party", ""))
        if len(party) > 100 or not party.isprintable():
            return Reply(node_id=node_id, party="", code="bad-name")
        metrics: dict[str, Any] = {**content.metric_records["metrics"], **said}  # a mod may have added numbers
        if code := str(said.get("code", "")):
            code = code if code in set(Code) else "unknown-code"
            return Reply(node_id=node_id, party=party, metrics=metrics, code=code)
        if not party:
            return Reply(node_id=node_id, party="", code="no-party-name")
        record = content.array_records["arrays"] if stage == "fit" else ArrayRecord()
        metrics.setdefault("payload", ",".join(record))
        if room is not None and not room.holds(record, metrics):
            return Reply(node_id=node_id, party=party, code="too-large")
        arrays = named_arrays([array.numpy() for array in record.values()], metrics)
        for array in arrays.values():
            if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
                return Reply(node_id=node_id, party=party, code="not-a-number")
        return Reply(node_id=node_id, party=party, arrays=arrays, metrics=metrics, num_bytes=array_bytes(record))
    except PayloadError as error:
        return Reply(node_id=node_id, party=party, code=error.reason)
    except Exception:  # a hostile reply may raise anything; it is left out and the round goes on
        return Reply(node_id=node_id, party=party, code="bad-payload")


_EMPTY = "_empty"  # the name of the placeholder for no arrays


def numpy_client_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Let a ``client_fn`` answer this package's strategies: ``ClientApp(client_fn=..., mods=[numpy_client_mod])``."""
    if "config" not in message.content:
        return call_next(message, context)
    stage: Stage = "fit" if message.metadata.message_type == "train" else "evaluate"
    _, config = open_instruction(message.content)
    numbered = ArrayRecord({str(i): array for i, array in enumerate(message.content.array_records["arrays"].values())})
    message.content = RecordDict({f"{stage}ins.parameters": numbered, f"{stage}ins.config": ConfigRecord(config)})  # type: ignore[arg-type]
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    said: dict[str, Any] = dict(reply.content.config_records[f"{stage}res.metrics"])
    count: Any = reply.content.metric_records[f"{stage}res.num_examples"]["num_examples"]
    arrays = _arrays(reply.content.array_records["fitres.parameters"]) if stage == "fit" else []
    loss: Any = reply.content.metric_records["evaluateres.loss"]["loss"] if stage == "evaluate" else float("nan")
    reply.content = reply_record(arrays, count, said, loss=loss)
    return reply


def _arrays(record: ArrayRecord) -> list[Array]:
    return [array for name, array in record.items() if name != _EMPTY]
