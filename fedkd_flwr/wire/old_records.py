"""The records of Flower's older API (``fitins.parameters``, ``fitres.metrics``, ...) as those of `records`, and back.

Either side of a project may still use that API: its server a ``flwr.server.strategy.Strategy``, its parties a
``client_fn``. Arrays have no names there; the setting ``payload`` holds them.
"""

from __future__ import annotations

from typing import Any, Literal

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from fedkd_flwr.wire.records import by_name, open_instruction, reply_record

__all__ = ["instruction_from_old", "is_old", "numpy_client_mod", "reply_to_old"]

Stage = Literal["fit", "evaluate"]
_EMPTY = "_empty"  # the name of the placeholder for no arrays


def is_old(content: RecordDict) -> bool:
    """Tell whether an instruction comes from a strategy of the older API."""
    return bool({"fitins.config", "evaluateins.config"} & set(content))


def instruction_from_old(content: RecordDict) -> RecordDict:
    """Return an instruction of the older API as this package's."""
    stage = "fit" if "fitins.config" in content else "evaluate"
    arrays = _arrays(content.array_records[f"{stage}ins.parameters"])
    record, config = by_name(arrays, content.config_records[f"{stage}ins.config"])
    return RecordDict({"arrays": record, "config": ConfigRecord(config)})


def reply_to_old(content: RecordDict, stage: Stage) -> RecordDict:
    """Return a reply as a strategy of the older API reads it."""
    numbers = dict(content.metric_records["metrics"])
    count, loss = numbers.pop("num-examples"), numbers.pop("loss", 0.0)
    record = content.array_records.get("arrays", ArrayRecord())
    said: dict[str, Any] = {"payload": ",".join(record), **numbers, **content.config_records["reply"]}
    records: dict[str, Any] = {
        f"{stage}res.metrics": ConfigRecord(said),
        f"{stage}res.num_examples": MetricRecord({"num_examples": count}),
        f"{stage}res.status": ConfigRecord({"code": 0, "message": "Success"}),
    }
    if stage == "fit":
        records["fitres.parameters"] = ArrayRecord({str(i): array for i, array in enumerate(record.values())})
    else:
        records["evaluateres.loss"] = MetricRecord({"loss": loss})
    return RecordDict(records)


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
