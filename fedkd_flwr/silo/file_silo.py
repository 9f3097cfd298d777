"""A silo of a federation by file: it answers a question's file as its node would answer the server's message.

The same client answers through the same door: allowed algorithms, rules of the site, budgets, approval, egress log. No
server waits, so a refusal is told to the person here, and no file of it is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, Message

from fedkd_flwr.app import client_app
from fedkd_flwr.app.output import output_root, require_writable
from fedkd_flwr.clients.refusals import RefusingClient
from fedkd_flwr.errors import DataError, RefusalError, explain
from fedkd_flwr.files import make_folder, write_atomic
from fedkd_flwr.settings.config import parse_node_config
from fedkd_flwr.silo.door import SiloDoor
from fedkd_flwr.silo.letters import SERVER, Letter, hand_out, packed, private_key, public_key, read_letter, require_own
from fedkd_flwr.silo.node_client import settle, taken
from fedkd_flwr.simulation.grid import InProcessGrid
from fedkd_flwr.stores.files import file_name, locked

__all__ = ["answer"]

_MONTH_S = 30 * 24 * 3600.0
"""How long an answer waits for an approval: nobody's time runs out meanwhile."""


def answer(question: Path, values: Mapping[str, Any], key: Path, server: Path, out: Path) -> tuple[Letter, bool]:
    """Answer a question's file: write the answer to ``out``, the same bytes whenever the same question comes.

    The result is taken in, and no file of it is written. Returns the question, and whether it was answered before.
    Where the file is not the server's question to this party, or the party refuses, nothing is charged. Raises
    `NotYetApprovedError` if the answer waits for an approval here.
    """
    node, own = parse_node_config(values), private_key(key)
    letter = read_letter(question, {SERVER: public_key(server)})
    if letter.kind != "question" or node.party not in letter.contents:
        seen = f"the {letter.title}, for {', '.join(letter.contents)}"
        raise DataError(explain(f"file {question}", f"be a question to {node.party}", seen))
    ends = letter.stage == "evaluate"
    if not ends:
        require_own(out, "answer", node.party)
    root = output_root(node.state_dir, "state-dir")
    require_writable(root)
    kept = root / "answers" / file_name(node.party) / f"{letter.run}-{letter.at}.fedkd"
    make_folder(kept.parent)
    with locked(kept.parent / "lock", timeout_s=60.0):
        if again := kept.exists():
            if (about := read_letter(kept, {node.party: own.public_key()}).about) != letter.digest:
                rule = f"be the one that was answered about this round of run {letter.run}: {about[:16]}"
                raise DataError(explain(f"file {question}", rule, letter.digest[:16], "Nothing was charged."))
        else:
            write_atomic(kept, _new_answer(letter, node.party, values).sealed(own))
        if not ends:
            hand_out(kept, out)
        if receipt := taken():
            settle(receipt, "kept here" if ends else "sent")
        return letter, again


def _new_answer(question: Letter, party: str, values: Mapping[str, Any]) -> Letter:
    """Have the run's client answer."""
    grid = InProcessGrid(_visit, [dict(values)], question.settings, run_id=int(question.run))
    kind, at = "train" if question.stage == "fit" else "evaluate", str(question.round)
    message = Message(question.record(party), dst_node_id=grid.first, message_type=kind, group_id=at)
    (reply,) = grid.send_and_receive([message])
    if code := str(reply.content.config_records["reply"].get("code", "")):
        raise RefusalError(explain(question.title, f"be one that {party} answers", code, "The log says why."))
    return Letter(
        kind="answer",
        run=question.run,
        stage=question.stage,
        round=question.round,
        sender=party,
        about=question.digest,
        **packed({party: reply.content}),
    )


def _visit(message: Message, context: Context) -> Message:
    """Answer as the node's ClientApp, except that nobody waits for an approval."""
    client = client_app.client_of(context)
    door = client.door if isinstance(client, RefusingClient) else client.party.door
    if isinstance(door, SiloDoor):
        door.waits, door.within_s, door.until = False, _MONTH_S, math.inf
    return (client_app.answer if message.metadata.message_type == "train" else client_app.finish)(client, message)
