"""How a run goes on where its server, or the machine under it, was lost: a checkpoint after each round.

Of a folder ``checkpoint``, ``lineage.json`` (which runs this one continues, and their secret) is written before the
first message, ``participations.json`` (how often each party was asked) before the messages of each round, and
``checkpoint.npz`` (the server's state and the record) before round 1 and after each round.

A run that continues another asks the round that was open once more, under a new run id. Parties are told the ids of
the runs before, and the secret of which all earlier instructions carried the digest: whoever answered that round gives
the same answer again (`fedkd_flwr.clients.visit`), and says so. Then the round counts once for it; for everybody else
it counts as often as it was asked.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import Card
from fedkd_flwr.errors import Code, ConfigError, DataError, FedkdError, explain
from fedkd_flwr.files import canonical, packed, unpacked, write_atomic
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.checkpoints import CHECKPOINT, Lineage, Participations
from fedkd_flwr.stores.files import state_lost
from fedkd_flwr.strategies.roster import Roster
from fedkd_flwr.wire.records import Scalar

__all__ = ["Checkpoints", "check_goes_on", "finish", "load_checkpoint", "save_checkpoint"]

_VERSION = 2
_AFRESH = "Restore the folder from one backup, or start the run afresh."
_FREE_KEYS = frozenset(
    (
        *("name", "num-rounds", "node-deadline-s", "nodes-stable-s", "round-timeout-s", "output-dir", "resume-from"),
        *("data-root", "table", "public-path", "schema-path", "paper.partition-path", "centralised"),
        *("save-party-models", "tracking", "server-epsilon-budget"),
    )
)
"""Keys of the run config that may differ; where files lie, but not what is in them: fingerprints tell that."""


Kept = Any  # an `Exchange`, whose file imports this one


def check_goes_on(folder: Path, card: Card, num_rounds: int) -> None:
    """Refuse to continue a run of another algorithm, and one that has nothing left to do; nothing is written.

    Whether ``num_rounds`` is the planned number only the strategy can tell: FedKT-Prox adds FedKT's round to it.
    """
    _, meta = load_checkpoint(folder)
    _check_algorithm(card, meta)
    try:
        done = int(meta["round"])
    except (KeyError, ValueError, TypeError) as error:
        raise state_lost(folder, "checkpoint in", error, _AFRESH) from error
    _check_left(card, Lineage.load(folder), num_rounds, done=done)


def _check_algorithm(card: Card, meta: Mapping[str, Any]) -> None:
    if (meta.get("version"), meta.get("algorithm")) != (_VERSION, card.name):
        seen = f"{meta.get('algorithm')}, version {meta.get('version')}"
        raise ConfigError(explain("resume-from", f"hold a checkpoint of {card.name}, version {_VERSION}", seen))


def _check_left(card: Card, lineage: Lineage, num_rounds: int, *, done: int) -> None:
    """Refuse to go on where nothing is left to do."""
    if card.extends:
        if num_rounds < done or (lineage.finished and num_rounds == done):
            rule = f"be above {done}, the rounds that the run to continue has finished"
            raise ConfigError(explain("num-rounds", rule, num_rounds, "Raise num-rounds: it counts all rounds."))
    elif lineage.finished:
        way_out = f"Its result is there: fedkd report {lineage.runs[-1]}. For more rounds, start a new run."
        raise ConfigError(explain("resume-from", "name a run without a result", lineage.runs[-1], way_out))


class Checkpoints:
    """The checkpoints of one strategy's run: in ``folder``, if any, and of an earlier run in ``resume_from``.

    ``lineage``: this run and those that it continues, where one is kept. ``result``: what the last answers combined to.
    """

    def __init__(self, folder: Path | None, resume_from: Path | None) -> None:
        self.folder, self.resume_from = folder, resume_from
        self.lineage: Lineage | None = None
        self._settled = Participations()  # at the checkpoint that this run goes on from
        self._first = 0  # the round that is asked once more
        self.result: dict[str, NDArray[Any]] = {}

    @property
    def _folders(self) -> list[Path]:
        return [folder for folder in (self.folder, self.resume_from) if folder is not None]

    @property
    def kept(self) -> bool:
        """Whether the run is kept, or continues another."""
        return bool(self._folders)

    # ---------------------------------------------------------------- going on

    def resume(self, exchange: Kept, num_rounds: int) -> None:
        """Put a strategy where the checkpoint was written; without one to continue, do nothing.

        Raises `ConfigError` if it is another algorithm's, of other settings, or of a run with its result; else as
        `load_checkpoint`.
        """
        if self.resume_from is None or self._first:
            return
        arrays, meta = load_checkpoint(self.resume_from)
        card = exchange.card
        _check_algorithm(card, meta)
        lineage = Lineage.load(self.resume_from)
        try:
            before = RunRecord.from_dict(json.loads(meta["record"]))
            done, planned = int(meta["round"]), int(meta["num_rounds"])
            self._check_settings(exchange, meta["settings"], before)
            _check_left(card, lineage, num_rounds, done=done)
            if num_rounds != planned and not card.extends:
                way_out = "Continue a run with the settings it began with."
                rule = f"be {planned}, as in the run to continue"
                raise ConfigError(explain("num-rounds", rule, num_rounds, way_out))
            exchange.rounds_done, exchange.finished_round = done, meta["finished_round"]
            exchange.roster.earlier = Participations.load(self.resume_from)
            self._settled = Participations.model_validate(meta["asked"])
            if party := exchange.roster.earlier.below(self._settled):  # else rounds were forgotten in every claim
                raise ValueError(f"fewer rounds of {party} in participations.json")
            kept = _with_arrays(meta["kept"], arrays)
            self.result, exchange.held = kept["result"], kept["held"]
            if done:
                exchange.restore(self.result, kept["own"])
            exchange.roster.remember(meta["parties"])
        except FedkdError:
            raise
        except (KeyError, ValueError, TypeError) as error:
            raise state_lost(self.resume_from, "checkpoint in", error, _AFRESH) from error
        self.lineage, self._first = lineage.then(exchange.record.run_id), done + 1
        _continue_record(exchange.record, before, run_id=lineage.runs[-1], done=done)

    def _check_settings(self, exchange: Kept, kept: Mapping[str, Any], before: RunRecord) -> None:
        way_out = "Continue a run with the settings it began with: --resume takes them from its record."
        names = exchange.config.keys()
        for name, value in _settings(exchange).items():
            if kept.get(name) != value:
                key = names.get(name, name.replace("_", "-"))
                raise ConfigError(explain(key, f"be {kept.get(name)!r}, as in the run to continue", value, way_out))
        now = exchange.record.config  # empty where no app made it
        for key in sorted((before.config.keys() & now.keys()) - _FREE_KEYS - set(names.values())):
            if before.config[key] != now[key]:
                rule = f"be {before.config[key]!r}, as in the run to continue"
                raise ConfigError(explain(key, rule, now[key], way_out))

    # ---------------------------------------------------------------- keeping

    def begin(self, exchange: Kept) -> None:
        """Keep the state before the first message of this run leaves."""
        if self.folder is None:
            return
        if self.lineage is None:
            self.lineage = Lineage.new(exchange.record.run_id)
        self.lineage.save(self.folder)
        self.asked(exchange)
        self.keep(exchange, exchange.rounds_done, asked=self._settled)

    def asked(self, exchange: Kept) -> None:
        """Write down how often each party was asked, before messages leave."""
        # also in the folder this run continues from: continued once more, it must not forget these rounds
        for folder in self._folders:
            exchange.roster.asked.save(folder)

    def keep(
        self,
        exchange: Kept,
        server_round: int,
        result: ArrayRecord | None = None,
        *,
        asked: Participations | None = None,
    ) -> None:
        """Keep the state after a round, and how often each party was asked by then.

        That of a one-shot algorithm is kept before its round alone: its parties give the same answers once more.
        """
        if result is not None:
            self.result = {name: array.numpy() for name, array in result.items()}
        if self.folder is None or (exchange.card.one_shot and server_round):
            return
        own = {name: getattr(exchange, name) for name in exchange.keeps} if server_round else {}
        arrays: dict[str, NDArray[Any]] = {}
        kept = _without_arrays({"result": self.result, "held": exchange.held, "own": own}, arrays)
        meta = {
            "version": _VERSION,
            "algorithm": exchange.card.name,
            "round": server_round,
            "num_rounds": exchange.num_rounds,
            "finished_round": exchange.finished_round,
            "settings": _settings(exchange),
            "kept": kept,
            "parties": exchange.roster.remembered(),
            "asked": (asked or exchange.roster.asked).model_dump(mode="json"),
            "record": exchange.record.to_json(),
        }
        save_checkpoint(self.folder, arrays, meta)
        if server_round > exchange.rounds_done:
            self.asked(exchange)  # who said that it answered the same round of the run before counts once

    def releasing(self) -> None:
        """Write down that noisy votes are about to leave: also in the folder that this run continues from."""
        if self.lineage is None:
            return
        self.lineage = self.lineage.model_copy(update={"released": True})
        for folder in self._folders:
            Lineage.load(folder).model_copy(update={"released": True}).save(folder)

    # ---------------------------------------------------------------- what travels

    def told(self) -> dict[str, Scalar]:
        """Return the settings by which parties know this run again, and the runs that it continues."""
        if self.lineage is None:
            return {}
        told: dict[str, Scalar] = {"run-seal": self.lineage.seal}
        if self.lineage.earlier:
            told |= {"continues": ",".join(self.lineage.earlier), "run-proof": self.lineage.proof}
        return told

    def heard(self, roster: Roster, party: str, went_on_from: object, server_round: int) -> None:
        """Count a round that is asked once more once for a party that says which run before it went on from.

        Its ledger and its state give the same answer to the same round of a run: it has said nothing twice. A party
        that several nodes spoke for is counted for each time: another of them may have answered before.
        """
        if self.lineage is None or server_round != self._first or party in roster.earlier.several:
            return
        if went_on_from in self.lineage.earlier:
            roster.earlier = roster.earlier.with_count(party, self._settled.before(party))


def _settings(exchange: Kept) -> dict[str, Any]:
    """Return what a run must share with the run that it continues."""
    settings = {n: v for n, v in exchange.config.model_dump().items() if n not in exchange.free_settings}
    shared = {"fraction_parties": exchange.roster.fraction, "min_parties": exchange.roster.fewest}
    return {**settings, **shared, "fingerprint": exchange.spec.fingerprint}


def _without_arrays(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return a nested value as plain JSON; its arrays are put aside, by the name that stands in their place."""
    if isinstance(value, np.ndarray):
        arrays[name := str(len(arrays))] = value
        return {"array": name}
    if is_dataclass(value) or isinstance(value, Mapping):
        items = value.items() if isinstance(value, Mapping) else vars(value).items()
        return {"items": {key: _without_arrays(one, arrays) for key, one in items}}
    return [_without_arrays(one, arrays) for one in value] if isinstance(value, list | tuple | deque) else value


def _with_arrays(plain: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return what `_without_arrays` made plain: dicts, lists, arrays and single values."""
    if isinstance(plain, list):
        return [_with_arrays(one, arrays) for one in plain]
    if not isinstance(plain, dict):
        return plain
    if "array" in plain:
        return arrays[plain["array"]]
    return {key: _with_arrays(one, arrays) for key, one in plain["items"].items()}


def _continue_record(record: RunRecord, before: RunRecord, *, run_id: str, done: int) -> None:
    """Let a record go on from that of the run before; its own settings, versions and times stay."""
    record.rounds, record.parties = before.rounds, before.parties
    record.server, record.startup_seconds = before.server, record.startup_seconds + before.startup_seconds
    record.consensus_rule, record.consensus_reason = before.consensus_rule, before.consensus_reason
    own = [note for note in record.notes if note not in before.notes]
    record.notes = [*before.notes, *own, Note(NoteCode.CONTINUES, {"run_id": run_id, "done": done})]


def finish(folder: Path) -> None:
    """Write down that a run has its result."""
    Lineage.load(folder).model_copy(update={"finished": True}).save(folder)


def save_checkpoint(folder: str | Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Path:
    """Replace the checkpoint in ``folder`` in one step, and return its path; `ValueError` for no plain value."""
    canonical(dict(meta))  # no NaN: it would be read as another value elsewhere
    return write_atomic(Path(folder) / CHECKPOINT, packed(arrays, meta))


def load_checkpoint(folder: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return what `save_checkpoint` wrote; `DataError` if there is none (``missing-file``), or it is damaged."""
    path = Path(folder) / CHECKPOINT
    if not path.is_file():
        way_out = (
            "Name a run that has one (`fedkd runs list` says which have); a run that was ended before its first round "
            "has none, and can be started afresh: nothing had left its parties."
        )
        raise DataError(explain(f"checkpoint {path}", "be there", "no such file", way_out), code=Code.MISSING_FILE)
    try:
        return unpacked(path.read_bytes())
    except (OSError, ValueError) as error:
        raise state_lost(path, "checkpoint", error, _AFRESH) from error
