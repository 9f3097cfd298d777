"""What a run would send in its first round from a silo, computed by the code that sends it, with nothing leaving.

A dry run is a run whose reply is held and never approved: the server's own strategy writes the first instruction, the
real ClientApp answers it, and what then lies among the held replies is shown. Party and server work in a temporary
folder with a copy of the party's ledger, so nothing is charged and no state changes.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr.app import Context, Message

from fedkd_flwr.app.assembly import make_strategy
from fedkd_flwr.app.captured_log import captured_log
from fedkd_flwr.app.client_app import app
from fedkd_flwr.app.output import output_root
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.data.tables import load_public
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.settings.config import RunConfig, parse_node_config, parse_run_config
from fedkd_flwr.simulation.grid import InProcessGrid
from fedkd_flwr.stores.held_replies import held_in
from fedkd_flwr.stores.party_state import StoredReply
from fedkd_flwr.strategies.loop import new_record
from fedkd_flwr.wire.records import open_reply

__all__ = ["DryRun", "dry_run"]

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """What a run would send in its first round."""

    code: str  # "" where there is an answer; otherwise the code that would leave instead
    why: str  # what the party's own log would say of it
    facts: Json  # as in `Held.facts`; {} without an answer. A claim in it says that noise was drawn, here for nobody.
    table: list[list[str]]  # the answer as a table, its header first; [] where it is none
    reply: StoredReply  # the exact answer
    fingerprint: str  # of the public set, to compare with the server's

    @property
    def noisy(self) -> bool:
        """Whether a mechanism at the party drew something: the run draws anew."""
        return self.facts.get("claim") is not None


def dry_run(settings: Mapping[str, Any], node_settings: Mapping[str, Any]) -> DryRun:
    """Return exactly what this run would send in its first round from this silo; nothing leaves or is charged.

    ``settings``: the run config, by key, as for `fedkd server run`; the public file is taken to be this silo's.
    ``node_settings``: the silo's node config, by key.

    Raises `ConfigError` or `DataError` if a setting or the public set is wrong; what is wrong with the party's own rows
    is in the answer.
    """
    config, node = parse_run_config(settings), parse_node_config(node_settings)
    if node.simulated:
        way_out = "A dry run shows what a silo's own file gives; `fedkd simulate` shows the rest."
        raise ConfigError(explain("data-path", "be given for a dry run", node.data_path, way_out))
    public = load_public(node.public_path, node.schema_path or None, labels=config.public_label_column)
    errors = captured_log("flwr.party", level=logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="fedkd-dry-run-") as place, errors as said:
        folder = Path(place)
        _copy_ledgers(output_root(node.state_dir, "state-dir"), folder / "state")
        own = {"state-dir": str(folder / "state"), "approve": "always", "approve-within-s": 0.0, "reply-every-s": 0.0}
        # labels that only the server knows decide nothing that a party sends
        if "known-rows" in settings:
            config = parse_run_config({**settings, "known-rows": 0})
        alone = {"min_parties": 1, "num_parties": 1, "output_dir": str(folder / "server"), "resume_from": ""}
        code = _first_reply(config.model_copy(update=alone), public, dict(settings), {**node_settings, **own})
        held = held_in(folder / "state")
        empty: Json = {}
        return DryRun(
            code="" if held else code,
            why="" if held else "\n".join(said),
            facts=dict(held[0].facts) if held else empty,
            table=held[0].table if held else [],
            reply=held[0].reply if held else StoredReply(),
            fingerprint=public.fingerprint,
        )


class _Answered(BaseException):
    """Ends the server's loop after one answer; no `Exception`, because an in-process grid reports those as replies."""


def _first_reply(config: RunConfig, public: PublicSet, settings: Json, node: Json) -> str:
    """Have the run's own strategy and the real ClientApp do the first round; return the code of the reply."""
    code = ""

    def handler(message: Message, context: Context) -> Message:
        nonlocal code
        reply = app(message, context)
        if message.metadata.message_type == "train":
            code = open_reply(reply, "fit").code
            raise _Answered
        return reply

    run_id = secrets.randbits(62)  # of no run: a ledger would take a known one for a repeated request
    grid = InProcessGrid(handler, [node], settings, run_id=run_id)
    record = new_record(config.card)
    record.run_id = str(run_id)
    strategy = make_strategy(config, public=public, test=None, num_nodes=1, record=record)
    with suppress(_Answered):
        strategy.start(grid, num_rounds=config.rounds, timeout=config.round_timeout_s)
    return code


def _copy_ledgers(state: Path, to: Path) -> None:
    """Copy what the party's rows have spent; replies that were sent are not needed for that."""
    to.mkdir(mode=0o700)
    left_out = shutil.ignore_patterns("replies", ".*.part")
    try:
        shutil.copytree(state / "ledgers", to / "ledgers", ignore=left_out)
    except FileNotFoundError:  # nothing has been spent
        return
    except OSError as error:  # of a folder; shutil.Error lists the files
        path, why = error.filename, error.strerror
        if isinstance(error, shutil.Error):
            path, _, why = error.args[0][0]
        way_out = "Run it as the user of the node."
        raise DataError(explain(f"file {path}", "be readable for a dry run", why, way_out)) from error
