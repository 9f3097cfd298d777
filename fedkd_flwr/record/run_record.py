"""What happened in a run, as data. The table in the log and the page are made from nothing else.

The schema is versioned. Fields marked *operator only* are computed from private rows or from votes without noise. They
are for the operator of the federation, and a publishable copy leaves them out (`RunRecord.publishable`).
"""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from fedkd_flwr.errors import DataError, FedkdError, cause, explain
from fedkd_flwr.files import canonical, digest_of, without_nan
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.processes.alive import ProcessRecord
from fedkd_flwr.record.frames import frame

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "NOT_READY",
    "SCHEMA_VERSION",
    "WITHHELD",
    "Doing",
    "PartyRecord",
    "Rejection",
    "RoundRecord",
    "RunRecord",
    "now_text",
    "record_digest",
    "signed",
]

SCHEMA_VERSION = 2
WITHHELD = "withheld"  # replaces a text or a number of the operator's record in a publishable copy

# These fields of a claim are published even where its numbers are not.
_STATEMENT = ("unit", "adversary", "publishable", "basis", "protects from", "not covered")
_FOLDER = re.compile(r"(?:^|(?<=[\s\"'=(]))(?:~|/|[A-Za-z]:[\\/]|\\\\|file:).*[\\/]")
_NUMBERS = re.compile(r"\[\n[\s\d.,eE+nul-]*\]")  # a list of numbers; no JSON string holds a line break
_Record = TypeVar("_Record")
# what ends a run and is no `Exception`; Flower raises the second one where it learns that a run was stopped
_STOPS = {
    "KeyboardInterrupt": "Ctrl-C",
    "RunNotRunningException": "flwr stop",
    "StarterGone": "the command that started it ended",  # of `fedkd_flwr.simulation.server_process`
}
_RECENT = 10  # the last rounds, from which the time of the others is foreseen


class Doing(StrEnum):
    """What a run was doing when it wrote its record last."""

    START = "start-up"  # loading data, waiting for nodes
    ROUNDS = "rounds"
    FINAL = "final result"  # it goes to the parties, which finish and report
    AFTER = "after the exchange"  # measuring and keeping models, in simulation also training a centralised one
    OVER = "over"


NOT_READY = "not ready: "
"""Stands before the code of a party that said before the first round that it would refuse it, and was not asked."""


@dataclass(kw_only=True)
class Rejection:
    """A reply that was left out of a round, or a party that did not answer, and the reason."""

    party: str  # "" if the sender gave no name
    node_id: str  # a string, because some JSON readers would round a number this large
    code: str  # a word from fixed lists: an error's code, or why the reply was not valid
    failure: str = ""  # the cause, with file and line of a user's model; simulation and operator only


@dataclass(kw_only=True)
class RoundRecord:
    """One round of the exchange.

    `RunRecord.publishable` says which of these fields may be published; all others are operator only.
    """

    server_round: int  # from 1
    asked: int = 0  # parties; their replies may have left them from then on, whatever became of the run
    asked_at: str = ""  # ISO 8601, UTC: just before the messages left; "" in records of older releases
    ended: bool = True  # False from just before the messages leave until the answers are combined
    answered: list[str] = field(default_factory=list)  # parties whose answers counted
    rejected: list[Rejection] = field(default_factory=list)  # replies that did not, and parties that gave none
    agreement: float | None = (
        None  # share of labelled public rows on which a party's label is the consensus: their mean
    )
    labelled_share: float | None = None  # share of public rows with a consensus label
    changed_share: float | None = None  # share of labels that parties changed since their last reply
    consensus_accuracy: float | None = None  # share of labels right, where truth is known, but for known-rows
    server_accuracy: float | None = None  # of the server's model after this round, on the common test rows
    kept_share: float | None = None  # share of answers that noise did not change; operator only if it was measured
    accuracy: dict[str, float] = field(default_factory=dict)  # party -> accuracy of its model this round
    tested: dict[str, int] = field(default_factory=dict)  # party -> number of test rows of that accuracy
    bytes_down: int = 0  # bytes of arrays, all parties together, without Flower's envelope
    bytes_up: int = 0  # the same, from the parties
    seconds: float = 0.0  # from asking to the combined answer

    def to_json(self) -> tuple[str, bytes]:
        """Return the round as JSON text, indented as in a record, and as the bytes that its digest is made of."""
        values = without_nan(dataclasses.asdict(self))
        return textwrap.indent(_json(values), "  "), canonical(values)

    def line(self, num_rounds: int) -> str:
        """Return the round as one line of the log."""
        count = max(len(self.answered), 1)
        parts = [f"round {self.server_round}/{num_rounds}: {len(self.answered)} of {self.asked} parties answered"]
        if self.agreement is not None:
            parts.append(f"agreement {self.agreement:.3f}")
        if self.labelled_share is not None:
            parts.append(f"labelled {self.labelled_share:.3f}")
        if self.server_accuracy is not None:
            parts.append(f"server's model {self.server_accuracy:.4f}")
        if self.consensus_accuracy is not None:
            parts.append(f"consensus accuracy {self.consensus_accuracy:.3f}")
        if self.accuracy:
            values = list(self.accuracy.values())
            parts.append(f"accuracy {sum(values) / len(values):.3f} ({min(values):.3f}-{max(values):.3f})")
        parts.append(f"{self.bytes_up / count / 1e3:.1f} KB up, {self.bytes_down / count / 1e3:.1f} KB down a party")
        parts.append(f"{self.seconds:.1f} s")
        return " | ".join(parts)


@dataclass(kw_only=True)
class PartyRecord:
    """How good one party's models are: alone (SOLO) and with the federation. Operator only, except for ``name, model``.

    The keys of ``solo`` and ``federated`` say on which test rows they were measured: ``"common"`` or ``"own"``.
    """

    name: str  # unique in the federation
    model: str = ""  # its model's name
    solo: dict[str, Metrics] = field(default_factory=dict)  # of its model trained alone, by test rows
    federated: dict[str, Metrics] = field(default_factory=dict)  # of its model with the federation, by test rows
    model_bytes: int | None = None  # size of its model as one upload
    class_counts: list[int] = field(default_factory=list)  # its private rows by class, where they are known
    notes: list[str] = field(default_factory=list)  # warnings about this party
    public_fit: float | None = None  # how much of its rows the public rows show it, as its density ratios say
    trust: float | None = None  # the least that its answers counted in a round, 0 to 1; None: that could not be told
    agreement: float | None = None  # least share of labelled public rows on which its labels were a round's consensus
    class_agreement: list[float] = field(default_factory=list)  # in that round, on the rows of each class

    def report(self, metrics: Mapping[str, Any], *, num_classes: int) -> None:
        """Store what the party reported at the end. What has a wrong type, size or range is left out, with a note."""
        self.model = str(metrics.get("model", ""))[:200]
        for kind, measured in (("solo", self.solo), ("federated", self.federated)):
            for rows in ("common", "own"):
                if (sent := metrics.get(f"{kind}-{rows}")) is None:
                    continue
                if (found := Metrics.opened(sent, num_classes=num_classes)) is not None:
                    measured[rows] = found
                else:
                    self.notes.append(f"its metrics {kind}-{rows} have a wrong type, size or range and are left out")
        size = metrics.get("model-bytes")
        self.model_bytes = size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**50 else None


@dataclass(kw_only=True)
class ColumnRecord:
    """What was done to one column of a user's table before the run; a row without a name is about the file."""

    name: str
    read_as: str  # what it became, in words
    repaired: int = 0  # cells that a rule had to read: a decimal comma, a date, ...
    missing: int = 0  # cells without a value
    note: str = ""


@dataclass(kw_only=True)
class Measured:
    """A measured value within its 95 % interval."""

    value: float  # as measured
    low: float  # lower end of the interval
    high: float  # its upper end


@dataclass(kw_only=True)
class AttackFigures:
    """How well an attack told the rows that were trained on (members) from fresh rows of the same law."""

    members: int  # rows that were trained on
    fresh: int  # rows that were not
    auc: Measured  # area under the attack's ROC curve; 0.5 is guessing
    found_at_1_percent: Measured  # share of members found where so many fresh rows are taken for members
    found_at_1_permille: Measured  # the same at one in a thousand


@dataclass(kw_only=True)
class ProvenEpsilon:
    """A claim of the run, and the epsilon that the attack proves against it with 95 % confidence."""

    unit: str  # whom the claim is about: record or party
    neighbouring_relation: str  # which data sets the claim compares
    epsilon: float  # as claimed
    delta: float  # as claimed; the proof is at the same one
    proven: float  # a lower bound of the true epsilon


@dataclass(kw_only=True)
class AuditRecord:
    """What the membership audit (`fedkd_flwr.audit.run`) found about a simulated run."""

    sent: list[str]  # what the attacker saw, by payload name
    shadows: int  # shadow runs
    everybody: AttackFigures  # of all parties together
    parties: dict[str, AttackFigures]  # by party
    without_shadows: Measured  # AUC of an attacker without shadow runs
    roc: list[list[float]]  # [false alarms, members found], as shares, of all parties together
    claims: list[ProvenEpsilon] = field(default_factory=list)  # claims that the attack tested
    seconds: float = 0.0  # for the run, its shadows and the attack


@dataclass(kw_only=True)
class RunRecord:
    """Everything one run leaves behind besides its models.

    ``sends``, ``returns`` and ``one_shot`` are facts about the algorithm. The app copies them from its card.

    Notes
    -----
    The app writes ``runs/<run-id>/record.json`` when it starts, before the messages of each round leave, after each
    round, before the final result leaves, and at the end, each time in one step. To follow a run, read the file again:
    ``doing`` says which part of the run, ``num_rounds`` how many rounds are planned, `open_round` which round was asked
    and has not ended, `seconds_left` how long the other rounds may take. ``status`` stays ``running`` if the process is
    killed: `fedkd_flwr.report.status` says what a reader can know then. ``claims`` count every round that was asked.
    """

    run_id: str  # the name of its folder
    algorithm: str  # the card's name
    sends: str = ""  # what leaves a party: "labels", "scores" or "weights"
    returns: str = ""  # what parties get at the end, likewise; "": not known
    one_shot: bool = False  # the algorithm has one round, whatever the votes are
    schema_version: int = SCHEMA_VERSION  # of these fields; other versions are refused
    started: str = ""  # ISO 8601, UTC
    status: str = "running"  # running | completed | failed | stopped
    reason: str = ""  # why it failed, or how it was stopped
    doing: str = Doing.START  # which part of the run it was in when it was last written
    last_word: str = ""  # ISO 8601, UTC: when the record was last written
    process: ProcessRecord | None = None  # that writes it
    num_rounds: int = 0  # planned; it may converge before. 0: not known
    simulation: bool = False  # no real silos
    seed: int = 0  # of everything but privacy noise
    config: dict[str, Any] = field(default_factory=dict)  # all settings that the run read (docs/configuration.md)
    changed: list[str] | None = None  # the settings in ``config`` that are not the defaults; None: not known
    versions: dict[str, str] = field(default_factory=dict)  # of this package and its libraries
    num_public: int = 0  # public rows
    num_classes: int = 0  # C
    classes: list[str] = field(default_factory=list)  # their names, in the order of labels
    fingerprint: str = ""  # SHA-256 of public rows, schema and preprocessing
    columns: list[ColumnRecord] = field(default_factory=list)  # how each column was read; operator only
    startup_seconds: float = 0.0  # before the first instruction left, for registering nodes and loading data
    seconds: float = 0.0  # from the first instruction to the end
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
    notes: list[str] = field(default_factory=list)  # warnings that a reader of the results must see

    def party(self, name: str) -> PartyRecord:
        """Return the record of a party. It is created at the first call; the parties stay sorted by name."""
        for known in self.parties:
            if known.name == name:
                return known
        new = PartyRecord(name=name)
        self.parties.append(new)
        self.parties.sort(key=lambda party: party.name)
        return new

    def close(self, error: BaseException | None = None) -> None:
        """Write down how the run ended: completed, failed, or stopped where ``error`` is no `Exception`.

        A failure or stop that is written already stays.
        """
        if self.status in ("failed", "stopped"):
            return
        if error is None:
            self.status, self.doing = "completed", Doing.OVER
            return
        kind = type(error).__name__
        if isinstance(error, Exception):
            self.status, self.reason = "failed", _why_failed(error)
        else:
            self.status, self.reason = "stopped", _STOPS.get(kind, f"its process was told to end ({kind})")

    @property
    def open_round(self) -> RoundRecord | None:
        """The round that was asked and has not ended: who has answered it is not known."""
        return self.rounds[-1] if self.rounds and not self.rounds[-1].ended else None

    @property
    def knows_asked(self) -> bool:
        """Whether ``rounds`` holds all that was asked: older releases wrote a record at the start and the end alone."""
        return bool(self.status != "running" or self.rounds or self.num_rounds)

    @property
    def continues(self) -> str:
        """The run that this one was started to continue, such as ``run 7``; "" if it was to continue none.

        Its own record and page say what left the parties in it, also where this run failed before it took them over.
        """
        *folders, last = str(self.config.get("resume-from") or "").rstrip("/").split("/")
        if last == "checkpoint":  # the path of its folder, which a record for publication does not hold
            return f"run {folders[-1]}" if folders else "an earlier run"
        return f"run {last}" if last else ""

    def seconds_left(self) -> float | None:
        """Return how long the rounds that have not ended may take, in seconds, if they take as long as the last ones.

        None where no round has ended, or their number is not known.
        """
        # parties start their processes in the first round
        ended = [one.seconds for one in self.rounds if one.ended]
        recent = ended[1:][-_RECENT:] or ended
        if not recent or not self.num_rounds:
            return None
        return sum(recent) / len(recent) * max(self.num_rounds - len(ended), 0)

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
        means: dict[str, float] = {}
        for kind in ("solo", "federated"):
            for rows in ("common", "own"):
                known = [getattr(getattr(p, kind).get(rows), figure, None) for p in self.parties]
                values = [value for value in known if value is not None]
                if values:
                    means[f"{kind}-{rows}"] = sum(values) / len(values)
        return means

    def figures_by_model(self, figure: str = "accuracy") -> dict[str, float]:
        """Return `mean_accuracies`, and the figure of the server's and the centralised model beside them.

        Their keys are ``server-common`` and ``centralised-common``.
        """
        found = self.mean_accuracies(figure)
        for kind, measured in (("server", self.server), ("centralised", self.centralised)):
            for rows, metrics in measured.items():
                if (value := getattr(metrics, figure)) is not None:
                    found[f"{kind}-{rows}"] = value
        return found

    def to_frame(self, of: str = "rounds") -> pd.DataFrame:
        """Return a table of the record for pandas; each row begins with ``run_id`` and ``seed``.

        Parameters
        ----------
        of : {"rounds", "parties", "party_rounds", "models"}
            One row for each round; for each party, with the figures of its models (``federated_common_accuracy``);
            for each party and round; or for each model and kind of test rows, with ``whose`` it is (``solo``,
            ``federated``, ``server``, ``centralised``). Lists, such as figures by class, are left out.

        Raises
        ------
        ConfigError
            If there is no such table.

        Examples
        --------
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
        sides = {
            "party" if claim.get("adversary") == "server" else "server"
            for claim in self.claims
            if claim.get("publishable") is True and claim.get("basis") == "proven" and _finite_number(claim, "epsilon")
        }
        return "party" if "party" in sides else "server" if sides else ""

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

        Metrics of any kind, agreement, changed shares, seconds, sizes of models, notes and reasons never stay. Without
        a proven claim, what stays depends on private rows only through who took part. The server did receive the
        parties' labels, however.
        """
        covered, parties = self.covered, self.covered == "party"
        rounds = [
            RoundRecord(
                server_round=r.server_round,
                asked=r.asked,
                ended=r.ended,
                answered=list(r.answered),
                rejected=[Rejection(party=x.party, node_id="", code=WITHHELD) for x in r.rejected],
                labelled_share=r.labelled_share if covered else None,
                kept_share=r.kept_share if parties else None,
                bytes_down=r.bytes_down if covered else 0,
                bytes_up=r.bytes_up if parties else 0,
            )
            for r in (self.rounds if self.length_told else self.rounds[:1])
        ]
        return RunRecord(
            run_id=self.run_id,
            algorithm=self.algorithm,
            sends=self.sends,
            returns=self.returns,
            one_shot=self.one_shot,
            schema_version=self.schema_version,
            started=self.started,
            status=self.status,
            reason=WITHHELD if self.reason else "",
            doing=self.doing,
            num_rounds=self.num_rounds,
            simulation=self.simulation,
            seed=self.seed,
            config={key: _without_folder(value) for key, value in self.config.items()},
            changed=None if self.changed is None else list(self.changed),
            versions=dict(self.versions),
            num_public=self.num_public,
            num_classes=self.num_classes,
            classes=list(self.classes),
            fingerprint=self.fingerprint,
            rounds=rounds,
            parties=[PartyRecord(name=p.name, model=p.model) for p in self.parties],
            final_asked=self.final_asked,
            final_bytes_down=self.final_bytes_down if covered else 0,
            server_model=_without_folder(self.server_model),
            centralised_model=self.centralised_model,
            claims=_publishable_claims(self.claims),
        )

    def settings(self, name: str) -> list[Any]:
        """Return a setting's values, at the top of the run config and in the sections of algorithms."""
        return [value for key, value in self.config.items() if _name(key) == name]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RunRecord:
        """Rebuild a record that `as_dict` or `to_json` wrote. A null in the place of a number becomes NaN.

        Raises
        ------
        DataError
            If the record is of another schema version, lacks a field, or holds one of another type.
        """
        if not isinstance(data, dict):
            raise DataError(explain("run record", "be one JSON object", type(data).__name__))
        version = data.get("schema_version")
        if isinstance(version, bool) or version != SCHEMA_VERSION:
            raise DataError(
                explain(
                    "schema_version",
                    f"be {SCHEMA_VERSION}",
                    version,
                    "Read this record with the release of fedkd-flwr that wrote it.",
                )
            )
        return _build(cls, {key: value for key, value in data.items() if key != "digest"}, "run record")

    def to_json(self) -> str:
        """Return the record as indented JSON text, with its digest. NaN and infinity become null."""
        return self.to_json_with([one.to_json() for one in self.rounds])

    def to_json_with(self, rounds: Sequence[tuple[str, bytes]]) -> str:
        """Return what `to_json` does, given the rounds as `RoundRecord.to_json` wrote them: most of them are old."""
        rest = without_nan(dataclasses.asdict(dataclasses.replace(self, rounds=[])))
        digest = digest_of(canonical(rest), *(data for _, data in rounds))
        text = _json({**rest, "digest": digest})
        if not rounds:
            return text
        head, mark, tail = text.partition('\n "rounds": []')  # no JSON string holds a line break
        listed = ",\n".join(text for text, _ in rounds)
        return f"{head}{mark[:-1]}\n{listed}\n ]{tail}"

    @classmethod
    def load(cls, path: str | Path) -> RunRecord:
        """Read a record from a JSON file.

        Raises
        ------
        DataError
            If the file does not exist, or holds no record that this release can read, or something in it was changed.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise DataError(
                explain("run record", "be a readable file", f"{path} ({why})", "Name a run's record.json.")
            ) from error
        except UnicodeDecodeError as error:
            raise DataError(explain("run record", "be UTF-8 text", f"other bytes in {path}")) from error
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(
                explain(
                    "run record",
                    "be whole JSON",
                    f"a damaged file at {path} ({error})",
                    "The run may still be writing it, or was cut off.",
                )
            ) from error
        record = cls.from_dict(data)
        if data.get("digest") != record_digest(data):
            seen = f"{'other values' if 'digest' in data else 'no digest'} in {path}"
            way_out = (
                "Somebody or a disk changed it. `fedkd_flwr.record.run_record.signed` signs what you change on purpose."
            )
            raise DataError(explain("run record", "be what its digest was made of", seen, way_out))
        return record


def now_text() -> str:
    """Return the present moment as the record writes it: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def record_digest(data: Mapping[str, Any]) -> str:
    """Return the digest of a record as JSON holds it: over its other fields, then each round, in canonical form."""
    rest = {key: value for key, value in data.items() if key != "digest"}
    return digest_of(canonical(rest | {"rounds": []}), *map(canonical, rest.get("rounds", [])))


def signed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record that was changed on purpose as plain JSON types, with the digest that `RunRecord.load` asks for.

    >>> sorted(signed({"run_id": "7", "algorithm": "fedct"}))
    ['algorithm', 'digest', 'run_id']
    """
    plain = without_nan(dict(data))
    return {**plain, "digest": record_digest(plain)}


def _build(cls: type[_Record], data: object, where: str) -> _Record:
    """Build a dataclass from ``data``, after checking the names and the types of its fields."""
    if not isinstance(data, dict):
        raise DataError(explain(where, "be an object", type(data).__name__))
    known = {item.name: item for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(str(key) for key in data if key not in known)
    if unknown:
        raise DataError(explain(where, f"hold only the fields of version {SCHEMA_VERSION}", unknown))
    required = {
        name
        for name, item in known.items()
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
    }
    missing = sorted(required - data.keys())
    if missing:
        raise DataError(explain(where, f"have the fields {missing}", "a record without them"))
    hints = get_type_hints(cls)
    return cls(**{name: _typed(value, hints[name], f"{where}: {name}") for name, value in data.items()})


def _typed(value: Any, hint: Any, where: str) -> Any:
    """Return ``value`` as the type that ``hint`` names, or raise a `DataError`."""
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint):
        return _build(hint, value, where)  # type: ignore[arg-type]
    arguments = get_args(hint)
    if type(None) in arguments:
        return None if value is None else _typed(value, arguments[0], where)
    outer = get_origin(hint) or hint
    if outer is float and value is None:  # `to_json` writes NaN as null
        return math.nan
    if outer is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, outer) or (outer is int and isinstance(value, bool)):
        raise DataError(explain(where, f"be a {outer.__name__}", value))
    if outer is list:
        return [_typed(item, arguments[0], f"{where}[{i}]") for i, item in enumerate(value)]
    if outer is dict:
        return {key: _typed(item, arguments[1], f"{where}[{key!r}]") for key, item in value.items()}
    return value


def _publishable_claims(claims: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the claims as `RunRecord.publishable` describes."""
    public = [claim for claim in claims if claim.get("publishable") is True]
    said = {(claim.get("unit"), claim.get("adversary")) for claim in public}
    kept = []
    for claim in claims:
        if claim in public:
            kept.append(dict(claim))
        elif (claim.get("unit"), claim.get("adversary")) not in said:
            kept.append({key: value if key in _STATEMENT else WITHHELD for key, value in claim.items()})
    return kept


def _finite_number(claim: Mapping[str, Any], key: str) -> bool:
    value = claim.get(key)
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _name(key: str) -> str:
    """Return a setting's name without the section it stands in.

    >>> _name("fedct.quorum"), _name("seed")
    ('quorum', 'seed')
    """
    return key.rpartition(".")[2]


def _without_folder(value: Any) -> Any:
    """Return text with each path replaced by its last part. Anything but text is returned unchanged.

    >>> _without_folder("/home/ann/data/adult.csv"), _without_folder("qualified-majority")
    ('adult.csv', 'qualified-majority')
    >>> _without_folder("random-forest ~/runs/7/model.skops")
    'random-forest model.skops'
    """
    return _FOLDER.sub("", value) if isinstance(value, str) else value


def _json(values: dict[str, Any]) -> str:
    text = json.dumps(values, indent=1, allow_nan=False)
    return _NUMBERS.sub(lambda found: " ".join(found[0].split()), text)  # a matrix takes one line for each row


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
