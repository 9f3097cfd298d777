"""The ClientApp: mounts the run's NumPyClient for this node, in simulation and at a silo alike."""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common.logger import update_console_handler

from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.party import OPEN, Door
from fedkd_flwr.clients.refusals import RefusingClient
from fedkd_flwr.errors import Code
from fedkd_flwr.processes.alive import watched
from fedkd_flwr.registry import DOOR, load
from fedkd_flwr.wire.records import Scalar, error_reply, open_instruction, reply_record

__all__ = ["HANG_S", "answer", "app", "client_of", "finish", "hold_back", "never_for_ever"]

logger = logging.getLogger("flwr.party")

HANG_S = 600.0
"""Seconds beyond ``round-limit-s`` after which a visit that has not ended is ended with its process."""

app = ClientApp()
update_console_handler(colored=sys.stderr.isatty() and not os.environ.get("NO_COLOR"))  # Flower would colour files too


def client_of(context: Context) -> PartyClient | RefusingClient:
    """Return this node's client; one that answers with a code where the node cannot be set up."""
    from fedkd_flwr.app.assembly import make_client, refuse_foreign_algorithm
    from fedkd_flwr.app.output import output_root, require_writable
    from fedkd_flwr.settings.config import parse_node_config, parse_run_config
    from fedkd_flwr.simulation.rows import party_name

    given = context.node_config
    name = str(given.get("party", ""))
    door: Door = OPEN
    try:
        name = name or party_name(int(given.get("partition-id", 0)))
        node = parse_node_config(given)
        refuse_foreign_algorithm(context.run_config.get("algorithm"), node)
        config = parse_run_config(context.run_config)
        if node.simulated and not node.party:
            name = party_name(node.partition_id or 0, config)
        door = load(DOOR)(config, node, str(context.run_id))
        if not node.simulated:
            require_writable(output_root(node.state_dir, "state-dir"))
        return make_client(config, node, str(context.run_id), door=door)
    except Exception as error:
        withheld = given.get("require-privacy") is True or "epsilon-budget" in given
        simulated = "partition-id" in given and "data-path" not in given
        return RefusingClient(name, error, withheld=withheld, simulated=simulated, door=door)


@app.query()
def ready(message: Message, context: Context) -> Message:
    """Load what this party needs; say its name and, where the settings of a run come along, whether it is ready.

    So a simulation's first round measures no start-up. A silo that hides how long its work takes (``reply-every-s``)
    reads no private row for this, and says its name alone.
    """
    settings = message.content.config_records.get("settings")
    said: dict[str, Scalar] = {"party": str(context.node_config.get("party", ""))}
    if settings is None or not context.node_config.get("reply-every-s"):
        with _visit(context):
            client = client_of(context)
            said = {"party": _name(client)} if settings is None else client.ready(dict(settings))  # type: ignore[arg-type]
        if "code" in said:
            words = "%s told the server that it is not ready (%s), and is not counted. `fedkd doctor` here says why."
            logger.error(words, said["party"], said["code"])
    return Message(RecordDict({"ready": ConfigRecord({**said})}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer one round."""
    with _visit(context):
        return answer(client_of(context), message)


def answer(client: NumPyClient, message: Message) -> Message:
    """Return the client's reply to one round."""
    if _noisy_mod():
        return error_reply(message, Code.CHANGING_MOD, _name(client), "LocalDpMod")  # Flower's mod leaves errors alone
    try:
        fitted = client.fit(*open_instruction(message.content))
    except Exception as error:  # Flower would forward its text: refuse with a code instead
        fitted = _refusing(client, error, withheld=True).fit(None, None)
    return Message(reply_record(*fitted), reply_to=message)


def _noisy_mod() -> bool:
    """Tell whether Flower's LocalDpMod, which says so nowhere else, is going to clip this answer and to add noise."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not str(frame.f_globals.get("__name__", "")).endswith(".localdp_mod"):
        frame = frame.f_back
    return frame is not None


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Take the final result in."""
    with _visit(context):
        return finish(client_of(context), message)


@contextmanager
def _visit(context: Context) -> Iterator[None]:
    """End a visit that hangs; let its reply leave no sooner than it may."""
    began = time.monotonic()
    with never_for_ever(context.node_config):
        yield
    hold_back(context.node_config, began)


def never_for_ever(node_config: Mapping[str, Any]) -> AbstractContextManager[None]:
    """End a silo's process that hangs where no limit ends it, as at a disk that does not answer, `HANG_S` later."""
    from fedkd_flwr.settings.node_config import NodeConfig

    limit = _seconds(node_config.get("round-limit-s", NodeConfig.default("round_limit_s")))
    return watched(limit + HANG_S) if limit and "data-path" in node_config else nullcontext()


def _seconds(value: object) -> float:
    """Return a number of seconds; 0 for anything else, which is refused as a setting when the client is made."""
    return value if isinstance(value, int | float) and value is not True and 0 < value < math.inf else 0.0


def hold_back(node_config: Mapping[str, Any], began: float) -> None:
    """Wait until a reply, or a refusal, may leave: the next multiple of ``reply-every-s`` seconds after ``began``."""
    if not (every := _seconds(node_config.get("reply-every-s", 0.0))):
        return
    passed = time.monotonic() - began
    if passed > every:
        logger.warning("the work took %.1f s, longer than reply-every-s (%g s): it leaves at a multiple", passed, every)
    time.sleep(max(max(math.ceil(passed / every), 1) * every - passed, 0.0))  # a quotient may be rounded down


def finish(client: NumPyClient, message: Message) -> Message:
    """Return the client's reply to the final result."""
    try:
        loss, num_examples, metrics = client.evaluate(*open_instruction(message.content))
    except Exception as error:  # as above
        loss, num_examples, metrics = _refusing(client, error, withheld=True).evaluate(None, None)
    return Message(reply_record([], num_examples, metrics, loss=loss), reply_to=message)


def _refusing(client: NumPyClient, error: Exception, *, withheld: bool = False) -> RefusingClient:
    """Return what refuses in a client's place, and writes that down in its log."""
    door = getattr(getattr(client, "party", None), "door", getattr(client, "door", OPEN))
    return RefusingClient(_name(client), error, withheld=withheld, door=door)


def _name(client: NumPyClient) -> str:
    return str(getattr(getattr(client, "party", None), "name", getattr(client, "party", "")))
