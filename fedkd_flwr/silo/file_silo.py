"""A silo of a federation by file: it answers a question's file as its node would answer the server's message.

The same client answers through the same door: allowed algorithms, rules of the site, budgets, approval, egress log. No
server waits, so a refusal is told to the person here, and no file of it is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Message
from flwr.supercore.task_identity import TaskIdentity

from fedkd_flwr.app import client_app
from fedkd_flwr.app.assembly import make_client, refuse_foreign_algorithm
from fedkd_flwr.app.output import output_root, require_writable
from fedkd_flwr.errors import ConfigError, DataError, RefusalError, explain
from fedkd_flwr.files import write_atomic
from fedkd_flwr.settings.config import parse_node_config, parse_run_config
from fedkd_flwr.settings.node_config import NodeConfig
from fedkd_flwr.silo import receipts
from fedkd_flwr.silo.door import SiloDoor
from fedkd_flwr.silo.egress import door_of
from fedkd_flwr.silo.letters import Letter, PrivateKey, public_key, read_letter, sealed
from fedkd_flwr.stores.files import file_name, locked

__all__ = ["Answered", "answer"]

_MONTH_S = 30 * 24 * 3600.0
"""How long an answer waits for an approval: nobody's time runs out meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What an answer's command has done."""

    question: Letter
    size: int  # bytes of the answer
    again: bool  # whether it is the answer that was given before


def answer(question: Path, values: Mapping[str, Any], key: Path, server: Path, out: Path) -> Answered:
    """Answer a question's file: write the answer's, the same bytes whenever the same question comes.

    The result is taken in, and no file of it is written: the server has ended its run.

    Parameters
    ----------
    question : Path
        The file that the server made.
    values : mapping
        The node config, by key.
    key, server : Path
        This silo's private key, and the server's public key.
    out : Path
        Where the answer goes.

    Raises
    ------
    ConfigError, DataError
        If the file is not the server's question to this party, or something here is wrong. Nothing is charged.
    RefusalError
        If the party refuses; the text says why. What the ledger charged before stays charged.
    NotYetApprovedError
        If the answer waits for an approval here.
    """
    node, own = parse_node_config(values), PrivateKey.read(key)
    if own.name != node.party:
        way_out = f"Make one with that name: fedkd file key {node.party}"
        raise ConfigError(explain("file.key", f"be a key of {node.party}", f"one of {own.name}", way_out))
    letter = read_letter(question, dict([public_key(server)]))
    if letter.kind != "question" or node.party not in letter.parties:
        seen = f"the {letter.title}, for {', '.join(letter.parties)}"
        raise DataError(explain(f"file {question}", f"be a question to {node.party}", seen))
    root = output_root(node.state_dir, "state-dir")
    require_writable(root)
    kept = root / "answers" / file_name(node.party) / f"{letter.run}-{letter.stage}-{letter.round}.fedkd"
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(kept.parent / "lock", timeout_s=60.0):
        if again := kept.exists():
            if (about := read_letter(kept, {own.name: own.public}).about) != letter.digest:
                rule = f"be the one that was answered about this round of run {letter.run}: {about[:16]}"
                raise DataError(explain(f"file {question}", rule, letter.digest[:16], "Nothing was charged."))
        else:
            write_atomic(kept, _new_answer(letter, node, own))
        data, ends = kept.read_bytes(), letter.stage == "evaluate"
        if not ends:
            write_atomic(out, data)
        if receipt := receipts.taken():
            receipts.settle(receipt, "kept here" if ends else receipts.SENT)
    return Answered(question=letter, size=len(data), again=again)


def _new_answer(letter: Letter, node: NodeConfig, own: PrivateKey) -> bytes:
    """Have the run's client answer, and return the answer's bytes."""
    run_config, number = dict(letter.settings), int(letter.run)
    refuse_foreign_algorithm(run_config.get("algorithm"), node)
    config = parse_run_config(run_config)
    door = door_of(config, node, letter.run)
    if isinstance(door, SiloDoor):
        door.waits, door.within_s, door.until = False, _MONTH_S, math.inf
    client = make_client(config, node, letter.run, door=door)
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = number, 1, 1
    content = letter.contents[letter.parties.index(node.party)]
    kind = "train" if letter.stage == "fit" else "evaluate"
    message = Message(content, dst_node_id=1, message_type=kind, group_id=str(letter.round))
    reply = (client_app.answer if letter.stage == "fit" else client_app.finish)(client, message)
    code = "" if reply.has_error() else str(reply.content.config_records["reply"].get("code", ""))
    if reply.has_error() or code:
        raise RefusalError(
            explain(f"{letter.title}", f"be one that {node.party} answers", code or "an error", "The log says why.")
        )
    return sealed(
        Letter(
            kind="answer",
            run=letter.run,
            stage=letter.stage,
            round=letter.round,
            sender=own.name,
            parties=(own.name,),
            about=letter.digest,
            contents=(reply.content,),
        ),
        own,
    )
