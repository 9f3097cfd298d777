"""What happened in a run, as data: the one source of the log's table and of the page.

The schema is versioned. Fields marked *operator only* are computed from un-noised votes or private rows: they
belong to whoever runs the federation and are left out of a publishable copy (`RunRecord.publishable`).
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from fedkd_flwr.errors import DataError, explain

__all__ = ["SCHEMA_VERSION", "WITHHELD", "PartyRecord", "Rejection", "RoundRecord", "RunRecord"]

SCHEMA_VERSION = 1
WITHHELD = "withheld"  # stands in a publishable copy where the operator's record has a word or a number

_ONE_SHOT = ("fedkt", "pate")  # algorithms of one round, whatever the votes are
# of a claim whose numbers may not be published: what is said without them
_STATEMENT = ("unit", "adversary", "publishable", "basis", "protects from")
_FOLDER = re.compile(r"(?:^|(?<=[\s\"'=(]))(?:~|/|[A-Za-z]:[\\/]|\\\\|file:).*[\\/]")
_Record = TypeVar("_Record")


@dataclass(kw_only=True)
class Rejection:
    """One reply that was left out of a round, or one party that did not answer, and why."""

    party: str  # "" where the sender never said its name
    node_id: str  # a string: node ids exceed what JSON readers hold exactly
    code: str


@dataclass(kw_only=True)
class RoundRecord:
    """One round of label exchange.

    Operator only are the fields that `RunRecord.publishable` does not name, and at some levels those it does.
    """

    server_round: int
    asked: int = 0
    answered: list[str] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    agreement: float | None = None  # mean share of labelled public rows on which a party gives the consensus
    labelled_share: float | None = None  # share of public rows with a consensus label
    changed_share: float | None = None  # share of labels that parties changed since their last reply
    consensus_accuracy: float | None = None  # where the public rows' truth is known: simulation only
    server_accuracy: float | None = None  # of the server's model after this round, on the common test rows
    kept_share: float | None = None  # share of answers that noise left as they were; operator only where measured
    accuracy: dict[str, float] = field(default_factory=dict)  # party -> accuracy of its model this round
    bytes_down: int = 0  # array bytes, all parties together, without Flower's envelope
    bytes_up: int = 0
    seconds: float = 0.0

    def line(self, num_rounds: int) -> str:
        """Return the round in one line, as the log of a running federation shows it."""
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
    """One party: its accuracy alone (SOLO) and with the federation. Operator only.

    Accuracies are keyed by the test rows they were measured on: ``"common"`` or ``"own"``.
    """

    name: str
    model: str = ""
    solo: dict[str, float] = field(default_factory=dict)
    federated: dict[str, float] = field(default_factory=dict)
    model_bytes: int | None = None  # what one upload of its model would weigh
    notes: list[str] = field(default_factory=list)

    def report(self, metrics: Mapping[str, Any]) -> None:
        """Take in what the party reported at the end; a value of another type than promised is left out."""
        self.model = str(metrics.get("model", ""))[:200]
        for accuracies, kind in ((self.solo, "solo"), (self.federated, "federated")):
            for rows in ("common", "own"):
                value = metrics.get(f"{kind}-{rows}")
                if isinstance(value, float) and 0.0 <= value <= 1.0:
                    accuracies[rows] = value
        size = metrics.get("model-bytes")
        self.model_bytes = size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**50 else None


@dataclass(kw_only=True)
class RunRecord:
    """Everything one run leaves behind besides its models."""

    run_id: str
    algorithm: str
    schema_version: int = SCHEMA_VERSION
    started: str = ""  # ISO 8601, UTC
    status: str = "running"  # running | completed | failed
    reason: str = ""  # why it failed
    simulation: bool = False
    seed: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    num_public: int = 0
    num_classes: int = 0
    classes: list[str] = field(default_factory=list)
    fingerprint: str = ""
    startup_seconds: float = 0.0  # until the first instruction left: nodes registered, data loaded
    seconds: float = 0.0  # from the first instruction to the end
    rounds: list[RoundRecord] = field(default_factory=list)
    parties: list[PartyRecord] = field(default_factory=list)
    final_bytes_down: int = 0  # the final labels on their way back, all parties together
    server_model: str = ""  # name and file of the model the server holds, "" where it holds none
    server_accuracy: float | None = None  # of that model, on the common test rows
    centralised: float | None = None  # one model on all private rows pooled: simulation only
    centralised_model: str = ""
    claims: list[dict[str, Any]] = field(default_factory=list)  # privacy statements, in full
    notes: list[str] = field(default_factory=list)  # warnings a reader of the results must see

    def party(self, name: str) -> PartyRecord:
        """Return the record of a party, made at its first mention; parties stay sorted by name."""
        for known in self.parties:
            if known.name == name:
                return known
        new = PartyRecord(name=name)
        self.parties.append(new)
        self.parties.sort(key=lambda party: party.name)
        return new

    def mean_accuracies(self) -> dict[str, float]:
        """Return mean accuracies over the parties that reported them, keyed ``solo-common`` and so on."""
        means: dict[str, float] = {}
        for kind in ("solo", "federated"):
            for rows in ("common", "own"):
                values = [getattr(p, kind)[rows] for p in self.parties if rows in getattr(p, kind)]
                if values:
                    means[f"{kind}-{rows}"] = sum(values) / len(values)
        return means

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON types."""
        return dataclasses.asdict(self)

    @property
    def covered(self) -> Literal["", "server", "party"]:
        """Where noise with a *proven* claim that may be published enters: what comes after it costs nothing more.

        ``party``: before anything leaves; ``server``: on the votes; "": nowhere, or on no more than an assumption.
        """
        sides = {
            "party" if claim.get("adversary") == "server" else "server"
            for claim in self.claims
            if claim.get("publishable") is True and claim.get("basis") == "proven" and _finite_number(claim, "epsilon")
        }
        return "party" if "party" in sides else "server" if sides else ""

    @property
    def length_told(self) -> bool:
        """Whether the number of rounds may be told: unless un-noised votes could have ended the run early."""
        fixed = self.algorithm in _ONE_SHOT or self.config.get("fedct.stop-when-converged") is False
        return fixed or self.covered == "party"

    def publishable(self) -> RunRecord:
        """Return a copy that tells no more about private rows than the run's claims allow.

        What stays, and why that is safe (a field not named here is left out, also one that is added later):

        - Known before any private row is touched: ``run_id algorithm schema_version started simulation seed
          versions num_public num_classes classes fingerprint server_model centralised_model`` and ``config``, folders
          cut off and without a ``sensitivity-labels`` that was estimated from private rows.
        - Computed without looking at private rows: ``claims`` that may be published. Of other claims the statement
          without a number; nothing at all where a publishable one says the same of a larger epsilon: that a smaller one
          exists depends on the votes.
        - Who took part, who was left out (not why), whether the run ended: ``status``, ``rounds`` with ``server_round
          asked answered rejected``, ``parties`` with ``name model``. Taken as known: **no claim covers this**. The
          number of rounds stays where `length_told`; else the first round stands alone.
        - Computed after noise, at the server or at the party, that a proven claim covers (`covered`; post-processing
          costs nothing): ``labelled_share bytes_down final_bytes_down``.
        - Noise at the party alone: ``bytes_up`` (sizes of privatised labels) and ``kept_share`` (the mechanism's own
          probability). With noise at the server they would tell of labels and votes as they were cast.

        Accuracies, agreement, changed shares, seconds, sizes of models, notes and reasons never stay. Without a proven
        claim what stays does not depend on private rows beyond who took part; but parties' labels did reach the server.
        """
        covered, parties = self.covered, self.covered == "party"
        rounds = [
            RoundRecord(
                server_round=r.server_round,
                asked=r.asked,
                answered=list(r.answered),
                rejected=[Rejection(party=x.party, node_id="", code=WITHHELD) for x in r.rejected],
                labelled_share=r.labelled_share if covered else None,
                kept_share=r.kept_share if parties else None,
                bytes_down=r.bytes_down if covered else 0,
                bytes_up=r.bytes_up if parties else 0,
            )
            for r in (self.rounds if self.length_told else self.rounds[:1])
        ]
        estimated = self.config.get("fedct.sensitivity") == "estimated"
        return RunRecord(
            run_id=self.run_id,
            algorithm=self.algorithm,
            schema_version=self.schema_version,
            started=self.started,
            status=self.status,
            reason=WITHHELD if self.reason else "",
            simulation=self.simulation,
            seed=self.seed,
            config={
                key: _without_folder(value)
                for key, value in self.config.items()
                if not (estimated and key == "fedct.sensitivity-labels")
            },
            versions=dict(self.versions),
            num_public=self.num_public,
            num_classes=self.num_classes,
            classes=list(self.classes),
            fingerprint=self.fingerprint,
            rounds=rounds,
            parties=[PartyRecord(name=p.name, model=p.model) for p in self.parties],
            final_bytes_down=self.final_bytes_down if covered else 0,
            server_model=_without_folder(self.server_model),
            centralised_model=self.centralised_model,
            claims=_publishable_claims(self.claims),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RunRecord:
        """Rebuild a record written by `as_dict` or `to_json`; null where a number stood becomes NaN.

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
        return _build(cls, data, "run record")

    def to_json(self) -> str:
        """Return the record as indented JSON text; not-a-number and infinity become null."""
        return json.dumps(_finite(self.as_dict()), indent=1, allow_nan=False)

    @classmethod
    def load(cls, path: str | Path) -> RunRecord:
        """Read a record from a JSON file.

        Raises
        ------
        DataError
            If there is no such file, or it does not hold a record this release can read.
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
        return cls.from_dict(data)


def _build(cls: type[_Record], data: object, where: str) -> _Record:
    """Check ``data`` against the fields of a dataclass, by name and type, and build it."""
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
    """Return ``value`` as the type ``hint`` says, or refuse it."""
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint):
        return _build(hint, value, where)  # type: ignore[arg-type]
    arguments = get_args(hint)
    if type(None) in arguments:
        return None if value is None else _typed(value, arguments[0], where)
    outer = get_origin(hint) or hint
    if outer is float and value is None:  # what `to_json` makes of NaN
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
    """Return the claims without what was computed from private rows; some of them not at all."""
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


def _without_folder(value: Any) -> Any:
    """Return a path's last part in place of the whole path; anything else as it is.

    >>> _without_folder("/home/ann/data/adult.csv"), _without_folder("qualified-majority")
    ('adult.csv', 'qualified-majority')
    >>> _without_folder("random-forest ~/runs/7/model.skops")
    'random-forest model.skops'
    """
    return _FOLDER.sub("", value) if isinstance(value, str) else value


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and value - value != 0.0:
        return None
    return value
