"""Who has spent what, and who refuses: one party's account of what it released, over all its runs.

Here are the rules, without a disk and without a clock; `fedkd_flwr.stores.ledger.LedgerStore` keeps the account on a
party's disk, and ``python -m fedkd_flwr.apps.ledger PATH`` prints one.

Every decision uses events alone: the parameters of mechanisms, fixed before any private row is looked at. A refusal
that depended on votes would reveal something of them.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Any

from fedkd_flwr.checks import check_number
from fedkd_flwr.errors import Code, ConfigError, RefusalError, explain
from fedkd_flwr.privacy.ledger.entry import (
    VERSION,
    WAY_OUT,
    Entry,
    Events,
    canonical,
    check_text,
    epsilon_of,
    is_whole,
    lost,
    plain_events,
    read_object,
    utc,
)

__all__ = ["Budget", "Entry", "Events", "Head", "Ledger"]

CLOCK_SKEW = timedelta(days=1)


_ROUNDING = 1e-9
"""Sums of floats exceed their nominal value by less than this share of it: a budget of 1.0 covers twice 0.5."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most a ledger may ever hold, over all runs.

    Parameters
    ----------
    epsilon : float
        >= 0; infinite: no limit, and nothing is computed.
    delta : float
        Within [0, 1): where epsilon is measured.
    """

    epsilon: float = math.inf
    delta: float = 1e-5

    def __post_init__(self) -> None:
        if self.epsilon != math.inf:
            check_number("epsilon-budget", self.epsilon, least=0, way_out="Leave it out for no limit.")
        check_number("delta-budget", self.delta, least=0, below=1)


@dataclass(frozen=True, kw_only=True)
class Head:
    """Where a ledger ended when it was last written: kept apart from it, so that an older copy is noticed."""

    entries: int
    link: str

    def to_json(self) -> bytes:
        """Return it as bytes."""
        return canonical({"version": VERSION, **asdict(self)}) + b"\n"

    @classmethod
    def from_json(cls, data: bytes, *, source: str = "head") -> Head:
        """Read `to_json`; raises DataError (``ledger-lost``) where the bytes are anything else."""
        raw = read_object(data, {"version", "entries", "link"}, source)
        if not (is_whole(raw["entries"]) and raw["entries"] >= 0 and isinstance(raw["link"], str)):
            raise lost(source, "name a number of entries and a link", raw)
        return cls(entries=raw["entries"], link=raw["link"])


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """All releases computed from one party's one set of private rows; a charge gives a new ledger.

    Parameters
    ----------
    party : str
        Whose.
    data_digest : str
        SHA-256 of its private rows, in hexadecimal: another data set has another ledger.
    entries : tuple of Entry
        Oldest first, over all runs.

    Notes
    -----
    **Formal guarantees.** `spent` is an upper bound on the epsilon at delta of everything in the ledger together,
    whichever runs it belonged to: composed tightly, later mechanisms may use what earlier ones released.

    | the entries are | the sum bounds |
    |---|---|
    | all for one unit under one relation | that unit, under that relation |
    | some for a party, some for a record under one relation | a record: whoever hides a party hides each of its rows |
    | for records under different relations | nothing by itself: it serves the budget; the print says so |
    | against different adversaries | what the one that sees least learns |
    | a release without noise among them | nothing: infinite |
    | of another data set that shares rows | not counted here: those rows have paid in both ledgers |

    The parameters (noise, number of releases) are taken as chosen without looking at earlier replies. Where a run is
    planned on the results of another, the bound is still proven for Gaussian noise alone (Smith and Thakurta 2022,
    "Fully adaptive composition for Gaussian differential privacy") and for plainly added epsilons (Rogers et al. 2016,
    "Privacy odometers and filters"), not for every tight composition.

    Each entry is chained to those before it by SHA-256. That notices damage, lost and swapped entries; it does not
    bind the owner, who can write a new chain.

    Examples
    --------
    >>> empty = Ledger(party="a", data_digest="0" * 64)
    >>> empty.spent(1e-5), empty.head.entries
    (0.0, 0)
    """

    party: str
    data_digest: str
    entries: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        check_text("party", self.party)
        if not (isinstance(self.data_digest, str) and re.fullmatch("[0-9a-f]{16,}", self.data_digest)):
            raise ConfigError(explain("data digest", "be a digest in hexadecimal", self.data_digest))
        seen: set[tuple[str, int]] = set()
        for entry in self.entries:
            if entry.request in seen:
                message = f"run {entry.run_id} round {entry.server_round} again"
                raise ConfigError(explain(f"ledger of {self.party}", "charge a request once", message))
            seen.add(entry.request)

    @cached_property
    def links(self) -> tuple[str, ...]:
        """The hash chain: ``links[k]`` stands for the owner and the first k entries."""
        links = [sha256(canonical([VERSION, self.party, self.data_digest])).hexdigest()]
        for entry in self.entries:
            links.append(sha256(links[-1].encode() + canonical(asdict(entry))).hexdigest())
        return tuple(links)

    @property
    def head(self) -> Head:
        """Where it ends."""
        return Head(entries=len(self.entries), link=self.links[-1])

    def entry(self, run_id: str, server_round: int) -> Entry | None:
        """Return what was charged for a request, None where nothing was."""
        return next((entry for entry in self.entries if entry.request == (run_id, server_round)), None)

    # ------------------------------------------------------------------------------------------ what it decides

    def spent(self, delta: float) -> float:
        """Return the epsilon at ``delta`` of all entries of all runs together; infinite where none is proven."""
        check_number("delta", delta, least=0, below=1)
        return epsilon_of(self._events, delta)

    def would_exceed(self, events: Events, budget: Budget) -> bool:
        """Tell whether releasing ``events`` on top of everything so far would pass the budget."""
        if budget.epsilon == math.inf:
            plain_events(events)
            return False
        together = epsilon_of([*self._events, *plain_events(events)], budget.delta)
        return not together <= budget.epsilon * (1 + _ROUNDING)

    def ask(self, events: Events, budget: Budget) -> None:
        """Return if the budget covers ``events`` on top of everything so far.

        Else raise `RefusalError` with the numbers (code ``budget-exceeded``). The text is for the party's own log.
        """
        if not self.would_exceed(events, budget):
            return
        asked = plain_events(events)
        without, together = self.spent(budget.delta), epsilon_of([*self._events, *asked], budget.delta)
        alone = epsilon_of(asked, budget.delta)
        limit, total = _shown(budget.epsilon), _shown(together)
        if total == limit:  # beyond it by less than these digits
            total = repr(together)
        raise RefusalError(
            explain(
                f"privacy budget of {self.party}",
                f"cover what is asked: epsilon <= {limit} at delta {budget.delta:g}",
                f"epsilon {_shown(without)} spent before, {_shown(alone)} asked, {total} together",
                "This party leaves the round out. Its operator can raise epsilon-budget or delta-budget in the node "
                "config; the server cannot.",
            ),
            code=Code.BUDGET_EXCEEDED,
        )

    def charge(self, entry: Entry) -> Ledger:
        """Return this ledger with one entry more, after `ask`; raises `ConfigError` for a request charged before."""
        return Ledger(party=self.party, data_digest=self.data_digest, entries=(*self.entries, entry))

    @property
    def _events(self) -> list[tuple[dict[str, Any], int]]:
        return [event for entry in self.entries for event in entry.events]

    # ---------------------------------------------------------------------------------------- as bytes, and back

    def to_json(self) -> bytes:
        """Return it as bytes: one object, readable, each entry with its link."""
        entries = [{**asdict(entry), "link": link} for entry, link in zip(self.entries, self.links[1:], strict=True)]
        raw = {"version": VERSION, "party": self.party, "data_digest": self.data_digest, "entries": entries}
        return json.dumps(raw, indent=1, allow_nan=False).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes, *, now: datetime, source: str = "ledger") -> Ledger:
        """Read `to_json`; ``source`` is what to call it in an error.

        ``now`` is the clock, with its time zone: an entry dated more than a day later is refused. Raises `DataError`
        (code ``ledger-lost``) if the bytes are damaged, from a newer release, or from the future.
        """
        raw = read_object(data, {"version", "party", "data_digest", "entries"}, source)
        try:
            links, entries = [], []
            for item in raw["entries"]:
                links.append(item.pop("link"))
                if item.keys() != {f.name for f in fields(Entry)}:
                    raise ValueError(f"an entry of {', '.join(item)}")
                item["events"] = tuple((event, count) for event, count in item["events"])
                entries.append(Entry(**item))
            ledger = cls(party=raw["party"], data_digest=raw["data_digest"], entries=tuple(entries))
            chain = ledger.links[1:]
        except Exception as error:  # damaged JSON may break any of these
            raise lost(source, "be a whole ledger", f"this: {error!r}") from error
        for number, (link, right) in enumerate(zip(links, chain, strict=True), start=1):
            if link != right:
                raise lost(source, "be an unbroken chain", f"another link at entry {number} of {len(links)}")
        for number, entry in enumerate(ledger.entries, start=1):
            date = utc(entry.when)
            if not (date is not None and date <= now + CLOCK_SKEW):
                rule = f"hold no entry from after {(now + CLOCK_SKEW).isoformat(timespec='seconds')}"
                way_out = f"Set this machine's clock right. {WAY_OUT}"
                raise lost(source, rule, f"entry {number} of {entry.when}", way_out)
        return ledger

    def check_owner(self, party: str, data_digest: str, *, source: str = "ledger") -> None:
        """Refuse another party's ledger, or one of other private rows."""
        if (self.party, self.data_digest) != (party, data_digest):
            seen = f"party {self.party} and data {self.data_digest[:16]}"
            raise lost(source, f"belong to party {party} and data {data_digest[:16]}", seen)

    def check_head(self, head: Head, *, source: str = "ledger") -> None:
        """Refuse a ledger that is older than its head, or another one."""
        if not len(self.entries) >= head.entries:
            seen = f"{len(self.entries)} entries: an older copy"
            raise lost(source, f"hold the {head.entries} entries its head counts", seen)
        if self.links[head.entries] != head.link:
            raise lost(source, f"agree with its head after {head.entries} entries", "another chain")


def _shown(value: float) -> str:
    return f"{value:.6g}" if value < math.inf else "infinite"
