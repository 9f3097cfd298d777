"""One entry of a privacy ledger, and what a ledger is written with: plain events, canonical bytes, one error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from fedkd_flwr import files
from fedkd_flwr.checks import check_choice, check_whole
from fedkd_flwr.errors import Code, ConfigError, DataError, FedkdError, explain
from fedkd_flwr.privacy.cost.events import event_from_json, event_to_json

if TYPE_CHECKING:
    from fedkd_flwr.privacy.cost.accountant import Accountant

__all__ = ["WAY_OUT", "Entry", "Events"]
__all__ += ["accounted", "canonical", "check_digest", "check_text", "epsilon_of", "lost", "plain_events", "utc"]

WAY_OUT = (
    "Restore the newest backup of its folder if nothing was released after it. To start over deliberately, remove the "
    "folder by hand: what this party released before is then no longer counted, and no claim covers it."
)

Events = Sequence[tuple[Any, int]]
"""What is released and how often: (event, count), an event as dp-accounting's DpEvent or as its plain JSON."""


def lost(source: str, rule: str, seen: object, way_out: str = WAY_OUT) -> DataError:
    """Return the error of a ledger that cannot be trusted (code ``ledger-lost``): it is never silently replaced."""
    return DataError(explain(source, rule, seen, way_out), code=Code.LEDGER_LOST)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One release: the reply to one request."""

    # run_id, server_round: the request; there is one entry for each
    run_id: str
    server_round: int
    algorithm: str
    mechanism: str
    # unit: "record" or "party", whom the events protect; then against whom, and which data sets are compared
    unit: str
    adversary: str
    neighbouring_relation: str
    events: tuple[tuple[dict[str, Any], int], ...]  # as `plain_events` makes them
    when: str  # ISO 8601, UTC
    reply_digest: str  # SHA-256 of all that the reply says, in hexadecimal; for a note (round 0), of what it stands for
    data: str  # digest of the data set whose rows paid, in hexadecimal

    def __post_init__(self) -> None:
        for name in ("run_id", "algorithm", "mechanism", "adversary", "neighbouring_relation"):
            check_text(name, getattr(self, name))
        check_whole("server_round", self.server_round, 0)
        check_choice("unit", self.unit, ("record", "party"))
        _check_events(self.events)
        if not (isinstance(self.when, str) and utc(self.when) is not None):
            raise ConfigError(explain("when", "be a date and time in UTC as ISO 8601 writes it", self.when))
        check_digest(self.reply_digest, "reply_digest", "{64}")
        check_digest(self.data)

    @property
    def request(self) -> tuple[str, int]:
        """The run and round it answered; round 0: a note about the run, no reply."""
        return self.run_id, self.server_round


def plain_events(events: Events) -> tuple[tuple[dict[str, Any], int], ...]:
    """Return events as plain JSON, each checked to be one that can be accounted for.

    Raises `ConfigError` or `DataError` if there is none, a count is no whole number >= 1, or an event is of an unknown
    kind or impossible.
    """
    plain = []
    for event, count in events:
        raw = json.loads(canonical(event if isinstance(event, Mapping) else event_to_json(event)))
        plain.append((event_to_json(event_from_json(raw)), count))
    _check_events(tuple(plain))
    return tuple(plain)


def accounted(events: Sequence[tuple[dict[str, Any], int]]) -> Accountant:
    """Return the accountant of plain events; one that this release does not know means a lost ledger."""
    from fedkd_flwr.privacy.cost.accountant import Accountant

    accountant = Accountant()
    try:
        for event, count in events:
            accountant.compose(event_from_json(event), count)
    except FedkdError as error:
        way_out = "Install the release of fedkd-flwr that wrote it, or a newer one."
        raise lost("ledger", "hold events that this release can account for", f"this: {error}", way_out) from error
    return accountant


def epsilon_of(events: Sequence[tuple[dict[str, Any], int]], delta: float) -> float:
    """Return the epsilon at ``delta`` of all these releases, composed tightly; infinite where none is proven."""
    return accounted(events).epsilon(delta) if events else 0.0


def canonical(value: object) -> bytes:
    """Return plain JSON as the same bytes on every machine."""
    try:
        return files.canonical(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(explain("ledger entry", "be plain JSON with finite numbers", f"this: {error}")) from error


def _check_events(events: object) -> None:
    if not (isinstance(events, tuple) and events):
        raise ConfigError(explain("events", "hold at least one event", events, "NoOp says that nothing was spent."))
    for event, count in events:
        if not (isinstance(event, dict) and type(count) is int and count >= 1):
            raise ConfigError(explain("events", "pair an event with a whole number >= 1", (event, count)))


def check_text(name: str, value: object) -> None:
    """Refuse what is no text, or an empty one."""
    if not (isinstance(value, str) and value.strip()):
        raise ConfigError(explain(name, "be a text that is not empty", value))


def check_digest(value: object, name: str = "data digest", length: str = "{16,}") -> None:
    """Refuse what is no digest in hexadecimal, such as names a data set."""
    if not (isinstance(value, str) and re.fullmatch(f"[0-9a-f]{length}", value)):
        raise ConfigError(explain(name, "be a digest in hexadecimal", value))


def utc(text: str) -> datetime | None:
    """Read a date and time in UTC as ISO 8601 writes it; None for any other text."""
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return date if date.utcoffset() == timedelta(0) else None
