"""What happened in a run, as data. The table in the log and the page are made from nothing else.

The schema is versioned. Fields marked *operator only* are computed from private rows or from votes without noise. They
are for the operator of the federation, and a publishable copy leaves them out (`RunRecord.publishable`).
"""

from __future__ import annotations

import copy
import dataclasses
import errno
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedkd_flwr.errors import DataError, FedkdError, WaitingError, cause, explain
from fedkd_flwr.files import canonical, digest_of, without_nan
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.processes.alive import ProcessRecord
from fedkd_flwr.record.audit import AttackFigures, AuditRecord, Measured, ProvenEpsilon
from fedkd_flwr.record.frames import frame
from fedkd_flwr.record.json_text import (
    SCHEMA_VERSION,
    STRICT,
    Number,
    built,
    check_digest,
    json_text,
    read_json,
    record_digest,
    signed,
)
from fedkd_flwr.record.notes import PUBLISHABLE, Note
from fedkd_flwr.record.parts import NOT_READY, PartyRecord, Rejection, RoundRecord
from fedkd_flwr.record.publishable import WITHHELD, covered_side, publishable_claims, without_folder

if TYPE_CHECKING:
    import pandas as pd

# the record, and all that its parts are made of
__all__ = ["NOT_READY", "SCHEMA_VERSION", "WITHHELD", "AttackFigures", "AuditRecord", "ColumnRecord", "Doing"]
__all__ += ["Measured", "Note", "PartyRecord", "ProvenEpsilon", "Rejection", "RoundRecord", "RunRecord"]
__all__ += ["now_text", "record_digest", "signed"]

# fields of a record that `RunRecord.publishable` leaves as they are
_PUBLIC: tuple[str, ...] = (
    "run_id", "algorithm", "sends", "returns", "one_shot", "schema_version", "started", "status", "doing",
    "num_rounds", "simulation", "seed", "changed", "versions", "num_public", "num_classes", "classes",
    "fingerprint", "final_asked", "centralised_model",
)  # fmt: skip


class Doing(StrEnum):
    """What a run was doing when it wrote its record last."""

    START = "start-up"  # loading data, waiting for nodes
    ROUNDS = "rounds"
    FINAL = "final result"  # it goes to the parties, which finish and report
    AFTER = "after the exchange"  # measuring and keeping models, in simulation also training a centralised one
    OVER = "over"


@dataclass(kw_only=True)
class ColumnRecord:
    """What was done to one column of a user's table before the run; a row without a name is about the file."""

    name: str
    read_as: str  # what it became, in words
    repaired: int = 0  # cells that a rule had to read: a decimal comma, a date, ...
    missing: int = 0  # cells without a value
    note: str = ""


@dataclass(kw_only=True)
class RunRecord:
    """Everything one run leaves behind besides its models.

    ``sends``, ``returns`` and ``one_shot`` are facts about the algorithm. The app copies them from its card.

    The app writes ``runs/<run-id>/record.json`` when it starts, before the messages of each round leave, after each
    round, before the final result leaves, and at the end, each time in one step. To follow a run, read the file again:
    ``doing`` says which part of the run, ``num_rounds`` how many rounds are planned, `open_round` which round was asked
    and has not ended. ``status`` stays ``running`` if the process is killed: `fedkd_flwr.report.status` says what a
    reader can know then. ``claims`` count every round that was asked.
    """

    __pydantic_config__ = STRICT

    run_id: str  # the name of its folder
    algorithm: str  # the card's name
    sends: str = ""  # what leaves a party: "labels", "scores", "sums", "trees" or "weights"
    returns: str = ""  # what parties get at the end, likewise; "": not known
    one_shot: bool = False  # the algorithm has one round, whatever the votes are
    schema_version: int = SCHEMA_VERSION  # of these fields; other versions are refused
    started: str = ""  # ISO 8601, UTC
    status: str = "running"  # running | completed | failed | stopped | waiting (for answers by file)
    reason: str = ""  # why it failed, or how it was stopped
    doing: str = Doing.START  # which part of the run it was in when it was last written
    last_word: str = ""  # ISO 8601, UTC: when the record was last written
    process: ProcessRecord | None = None  # the one that writes the record
    num_rounds: int = 0  # planned; it may converge before. 0: not known
    simulation: bool = False  # no real silos
    seed: int = 0  # of everything but privacy noise
    config: dict[str, Any] = field(default_factory=dict)  # all settings that the run read
    changed: list[str] | None = None  # the settings in ``config`` that are not the defaults; None: not known
    versions: dict[str, str] = field(default_factory=dict)  # of this package and its libraries
    num_public: int = 0  # public rows
    num_classes: int = 0  # C
    classes: list[str] = field(default_factory=list)  # their names, in the order of labels
    fingerprint: str = ""  # SHA-256 of public rows, schema and preprocessing
    columns: list[ColumnRecord] = field(default_factory=list)  # how each column was read; operator only
    startup_seconds: Number = 0.0  # before the first instruction left, for registering nodes and loading data
    seconds: Number = 0.0  # from the first instruction to the end
    rounds: list[RoundRecord] = field(default_factory=list)  # in order
    parties: list[PartyRecord] = field(default_factory=list)  # by name
    final_asked: int = 0  # parties that the final result was sent to
    final_bytes_down: int = 0  # of that result, all parties together
    server_model: str = ""  # name and file of the server's model, "" if it has none
    # by test rows, "common" or "own" (all parties' own test rows together), like a party's
    server: dict[str, Metrics] = field(default_factory=dict)  # of that model
    consensus_rule: str = ""  # how answers became the consensus, where it was chosen from the answers
    consensus_reason: str = ""  # why
    centralised: dict[str, Metrics] = field(default_factory=dict)  # of one trained on all private rows; simulation only
    centralised_model: str = ""  # its model's name
    claims: list[dict[str, Any]] = field(default_factory=list)  # as `PrivacyClaim.as_dict` writes them
    audit: AuditRecord | None = None  # simulation only, where an audit was asked for
    notes: list[Note] = field(default_factory=list)  # warnings that a reader of the results must see

    def party(self, name: str) -> PartyRecord:
        """Return the record of a party. It is created at the first call; the parties stay sorted by name."""
        at = bisect_left(self.parties, name, key=lambda party: party.name)
        if at == len(self.parties) or self.parties[at].name != name:
            self.parties.insert(at, PartyRecord(name=name))
        return self.parties[at]

    def close(self, error: BaseException | None = None) -> None:
        """Write down how the run ended: completed, failed, or where ``error`` is no `Exception` stopped or waiting.

        A failure or stop that is written already stays.
        """
        if self.status in ("failed", "stopped"):
            return
        if error is None:
            self.status, self.doing = "completed", Doing.OVER
            return
        self.status, self.reason = _how_ended(error)

    @property
    def open_round(self) -> RoundRecord | None:
        """The round that was asked and has not ended: who has answered it is not known."""
        return self.rounds[-1] if self.rounds and not self.rounds[-1].ended else None

    @property
    def continues(self) -> str:
        """The run that this one was started to continue, such as ``run 7``; "" if it was to continue none.

        Its own record and page say what left the parties in it, also where this run failed before it took them over.
        """
        *folders, last = str(self.config.get("resume-from") or "").rstrip("/").split("/")
        if last == "checkpoint":  # the path of its folder, which a record for publication does not hold
            return f"run {folders[-1]}" if folders else "an earlier run"
        return f"run {last}" if last else ""

    @property
    def server_accuracy(self) -> float | None:
        """The accuracy of the server's model on the common test rows."""
        return self.server["common"].accuracy if "common" in self.server else None

    @property
    def centralised_accuracy(self) -> float | None:
        """The accuracy on the common test rows of one model trained on all private rows pooled."""
        return self.centralised["common"].accuracy if "common" in self.centralised else None

    def mean_accuracies(self, figure: str = "accuracy") -> dict[str, float]:
        """Return the means of a figure over the parties that reported it, under keys such as ``solo-common``.

        ``figure`` is a field of `Metrics` that holds one number.
        """
        found = self.figures_by_model(figure)
        return {key: value for key, value in found.items() if key.startswith(("solo", "federated"))}

    def figures_by_model(self, figure: str = "accuracy") -> dict[str, float]:
        """Return `mean_accuracies`, and the figure of the server's and the centralised model beside them.

        Their keys are ``server-common`` and ``centralised-common``.
        """
        models = {"solo": [p.solo for p in self.parties], "federated": [p.federated for p in self.parties]}
        models |= {"server": [self.server], "centralised": [self.centralised]}
        found = {}
        for kind, measured in models.items():
            for rows in ("common", "own"):
                known = [getattr(one.get(rows), figure, None) for one in measured]
                if values := [value for value in known if value is not None]:
                    found[f"{kind}-{rows}"] = sum(values) / len(values)
        return found

    def to_frame(self, of: str = "rounds") -> pd.DataFrame:
        """Return a table of the record for pandas, ``rounds``, ``parties`` or ``models``; rows begin with run and seed.

        A row of parties has the figures of their models (``federated_common_accuracy``); one of models says whose it is
        (``solo``, ``federated``, ``server``, ``centralised``). Lists, such as figures by class, are left out. Raises
        `ConfigError` if there is no such table.

        >>> record = RunRecord(run_id="7", algorithm="fedct", rounds=[RoundRecord(server_round=1, asked=3)])
        >>> record.to_frame("rounds")[["run_id", "server_round", "asked"]].to_dict("records")
        [{'run_id': '7', 'server_round': 1, 'asked': 3}]
        """
        return frame(self.as_dict(), of)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON types."""
        return dataclasses.asdict(self)

    @property
    def covered(self) -> Literal["", "server", "party"]:
        """Where noise with a proven and publishable claim is added. What is computed after it costs no more privacy.

        "party" means that the noise is added before anything leaves the parties, "server" that it is added to the
        votes, and "" that there is no such noise, or only with a claim that is not proven.
        """
        return covered_side(self.claims)

    @property
    def length_told(self) -> bool:
        """Whether the number of rounds may be published: not if votes without noise could have ended the run early."""
        fixed = self.one_shot or self.settings("stop-when-converged") == [False]
        return fixed or self.covered == "party"

    def publishable(self) -> RunRecord:
        """Return a copy that reveals no more about private rows than the run's claims allow.

        A field that is not named here is left out; this includes fields added later. These fields stay, because:

        - They are known before any private row is touched: ``run_id algorithm sends returns one_shot schema_version
          started simulation seed versions num_rounds num_public num_classes classes fingerprint server_model
          centralised_model`` and ``config changed``. Folders are cut off.
        - They were computed without looking at private rows: ``claims`` that may be published. Of another claim only
          the statement stays, without its numbers. It is left out entirely if a publishable claim has the same unit
          and adversary, because then its existence depends on the votes.
        - They say who took part, who was left out (not why) and whether the run ended: ``status doing final_asked``,
          ``rounds`` with ``server_round asked ended answered rejected``, ``parties`` with ``name model``. We assume
          that this is known anyway: **no claim covers it**. If not `length_told`, only the first round stays.
        - They were computed after noise that a proven claim covers (`covered`), and post-processing costs nothing:
          ``labelled_share bytes_down final_bytes_down``.
        - If that noise is added at the party, ``bytes_up`` (sizes of privatised labels) and ``kept_share`` (a property
          of the mechanism) stay too. With noise at the server they would depend on labels and votes without noise.

        Metrics of any kind, agreement, changed shares, seconds, sizes of models and reasons never stay, and no note but
        what drawn public rows cost, which is a claim's own numbers. Without
        a proven claim, what stays depends on private rows only through who took part. The server did receive the
        parties' labels, however.
        """
        covered, parties = self.covered, self.covered == "party"
        told = self.rounds if self.length_told else self.rounds[:1]
        rounds = [one.publishable(covered=bool(covered), at_party=parties) for one in told]
        return RunRecord(
            **{name: copy.deepcopy(getattr(self, name)) for name in _PUBLIC},
            reason=WITHHELD if self.reason else "",
            config={key: without_folder(value) for key, value in self.config.items()},
            rounds=rounds,
            parties=[PartyRecord(name=p.name, model=p.model) for p in self.parties],
            final_bytes_down=self.final_bytes_down if covered else 0,
            server_model=without_folder(self.server_model),
            claims=publishable_claims(self.claims),
            notes=[note for note in self.notes if note.code in PUBLISHABLE],
        )

    def settings(self, name: str) -> list[Any]:
        """Return a setting's values, at the top of the run config and in the sections of algorithms."""
        return [value for key, value in self.config.items() if key.rpartition(".")[2] == name]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RunRecord:
        """Rebuild a record that `as_dict` or `to_json` wrote. A null in the place of a number becomes NaN.

        Raises `DataError` if the record is of another schema version, lacks a field, or holds one of another type.
        """
        if not isinstance(data, dict):
            raise DataError(explain("run record", "be one JSON object", type(data).__name__))
        version = data.get("schema_version")
        if isinstance(version, bool) or version != SCHEMA_VERSION:
            way_out = "Read this record with the release of fedkd-flwr that wrote it."
            raise DataError(explain("schema_version", f"be {SCHEMA_VERSION}", version, way_out))
        return built(cls, {key: value for key, value in data.items() if key != "digest"}, "run record")

    def to_json(self) -> str:
        """Return the record as indented JSON text, with its digest. NaN and infinity become null."""
        return self.to_json_with([one.to_json() for one in self.rounds])

    def to_json_with(self, rounds: Sequence[tuple[str, bytes]]) -> str:
        """Return what `to_json` does, given the rounds as `RoundRecord.to_json` wrote them: most of them are old."""
        rest = without_nan(dataclasses.replace(self, rounds=[]))
        digest = digest_of(canonical(rest), *(data for _, data in rounds))
        text = json_text({**rest, "digest": digest})
        if not rounds:
            return text
        head, mark, tail = text.partition('\n "rounds": []')  # no JSON string holds a line break
        listed = ",\n".join(text for text, _ in rounds)
        return f"{head}{mark[:-1]}\n{listed}\n ]{tail}"

    @classmethod
    def load(cls, path: str | Path) -> RunRecord:
        """Read a record from a JSON file; `DataError` if there is none that can be read, or something was changed."""
        data = read_json(path)
        record = cls.from_dict(data)
        check_digest(data, path)
        return record


def now_text() -> str:
    """Return the present moment as the record writes it: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# what ends a run and is no `Exception`; Flower raises the second one where it learns that a run was stopped
_STOPS = {"KeyboardInterrupt": "Ctrl-C, or its process was told to end", "RunNotRunningException": "flwr stop"}


def _how_ended(error: BaseException) -> tuple[str, str]:
    """Return the status of a run that ``error`` ended, failed, stopped or waiting, and the reason."""
    kind = type(error).__name__
    if isinstance(error, Exception):
        return "failed", _why_failed(error)
    if isinstance(error, WaitingError):
        return "waiting", ""
    return "stopped", _STOPS.get(kind, f"its process was told to end ({kind})")


def _why_failed(error: Exception) -> str:
    """Return why a run failed; what its machine lacked, in a sentence."""
    if isinstance(error, FedkdError):
        return str(error)
    kept = "What the rounds before found is in this record."
    if isinstance(error, MemoryError):
        return f"The server ran out of memory ({cause(error)}). {kept} Give it more, or run fewer parties or rows."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The server's disk is full ({cause(error)}). {kept} Make room there, or name another output-dir."
    return cause(error)
