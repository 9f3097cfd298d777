"""Who has spent what, and who refuses: one party's account of what it released, over all its runs.

Here are the rules, without a disk and without a clock; `fedkd_flwr.stores.ledger.LedgerStore` keeps the account on a
party's disk, and ``fedkd ledger PATH`` prints one.

Every decision uses events alone: the parameters of mechanisms, fixed before any private row is looked at. A refusal
that depended on votes would reveal something of them.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_number
from fedkd_flwr.errors import Code, ConfigError, RefusalError, explain
from fedkd_flwr.privacy.ledger.entry import (
    VERSION,
    Entry,
    Events,
    canonical,
    check_digest,
    check_text,
    epsilon_of,
    is_whole,
    lost,
    plain_events,
    read_object,
    utc,
)
from fedkd_flwr.privacy.ledger.filter import ROUNDING, cost_of, order, spent, spent_text
from fedkd_flwr.privacy.ledger.rows import Histories

__all__ = ["Budget", "Entry", "Events", "Head", "Ledger"]

CLOCK_SKEW = timedelta(days=1)
_EXACT = 16  # histories whose tight figures are computed one by one
_COMPARED = 512  # histories that are compared with each other


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that any row may ever spend, over all runs.

    Parameters
    ----------
    epsilon : float
        >= 0; infinite: no limit, and nothing is computed.
    delta : float
        Within [0, 1): where epsilon is measured.

    Notes
    -----
    It holds for the row that has spent most, against a server that chooses each request after seeing the answers to
    earlier ones, if the owner chose it without looking at answers: `fedkd_flwr.privacy.ledger.filter`.
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
    """All releases computed from one party's private rows; a charge gives a new ledger.

    Parameters
    ----------
    party : str
        Whose.
    data_digest : str
        Digest of the data set that it holds now, in hexadecimal. It is not part of what is written.
    entries : tuple of Entry
        Oldest first, over all runs and data sets.
    key : str
        Names the key that rows are hashed with, "" before the first charge.

    Notes
    -----
    **Formal guarantees.** `spent` is an upper bound on the epsilon at delta of everything that the row with most has
    paid for, composed tightly. It takes the noise and the number of releases as chosen without looking at earlier
    replies. What a budget decides by is another figure, which also holds where a server chooses each request by the
    answers so far: `counted`, by the filter of `fedkd_flwr.privacy.ledger.filter`. It is 0 to 10 % larger for usual
    releases at delta 1e-5.

    | the entries are | the sum bounds |
    |---|---|
    | all for one unit under one relation | that unit, under that relation |
    | some for a party, some for a record under one relation | a record: whoever hides a party hides each of its rows |
    | for records under different relations | nothing by itself: it serves the budget; the print says so |
    | against different adversaries | what the one that sees least learns |
    | a release without noise among them | nothing: infinite |
    | of data sets that share rows | each row pays for the data sets it was in: `fedkd_flwr.privacy.ledger.rows` |

    A refusal depends on what the rows of the present file have paid. Whoever sees it learns that one of them has paid
    so much: where an owner deletes rows and a single old one is left, that says that it is still there.

    Each entry is chained to those before it by SHA-256. That notices damage, lost and swapped entries; it does not
    bind the owner, who can write a new chain.

    Examples
    --------
    >>> empty = Ledger(party="a", data_digest="0" * 64)
    >>> empty.spent(1e-5), empty.head.entries
    (0.0, 0)
    """

    party: str
    data_digest: str = field(compare=False)
    entries: tuple[Entry, ...] = ()
    key: str = ""

    def __post_init__(self) -> None:
        check_text("party", self.party)
        check_digest(self.data_digest)
        seen: set[tuple[str, int, str]] = set()
        for entry in self.entries:
            # a run has one note (round 0) for each data set, and one charge for each round
            request = (*entry.request, "" if entry.server_round else entry.data + entry.mechanism)
            if request in seen:
                message = f"run {entry.run_id} round {entry.server_round} again"
                raise ConfigError(explain(f"ledger of {self.party}", "charge a request once", message))
            seen.add(request)

    @cached_property
    def links(self) -> tuple[str, ...]:
        """The hash chain: ``links[k]`` stands for the owner and the first k entries."""
        links = [sha256(canonical([VERSION, self.party, self.key])).hexdigest()]
        for entry in self.entries:
            links.append(_link(links[-1], entry))
        return tuple(links)

    @property
    def head(self) -> Head:
        """Where it ends."""
        return Head(entries=len(self.entries), link=self.links[-1])

    def entry(self, run_id: str, server_round: int) -> Entry | None:
        """Return what was charged for a request, None where nothing was."""
        return next((entry for entry in self.entries if entry.request == (run_id, server_round)), None)

    # ------------------------------------------------------------------------------------------ what it decides

    def spent(self, delta: float, histories: Histories | None = None) -> float:
        """Return the tight epsilon at ``delta`` of what the row with most has paid for; infinite where none is proven.

        Without ``histories`` a row that has paid for every entry is taken. Where rows have very many different pasts,
        the result may be larger than the maximum, never smaller.
        """
        check_number("delta", delta, least=0, below=1)
        patterns, paid = self._patterns(histories)
        # a row that was in all data sets of another has spent at least as much
        patterns = np.unique(patterns[:, paid], axis=0)
        if len(patterns) <= _COMPARED:
            most = [int((patterns | row == patterns).all(axis=1).sum()) == 1 for row in patterns]
            patterns = patterns[np.array(most, dtype=bool)]
        if len(patterns) > _EXACT:
            patterns = np.array([patterns.any(axis=0)])
        names = [name for name, used in zip(self._data_sets(histories), paid, strict=True) if used]
        return max(
            (
                epsilon_of([e for entry in self.entries if entry.data in held for e in entry.events], delta)
                for held in ({n for n, has in zip(names, row, strict=True) if has} for row in patterns)
            ),
            default=0.0,
        )

    def counted(self, budget: Budget, histories: Histories | None = None, *, asked: Events = ()) -> NDArray[np.float64]:
        """Return what the filter of a finite budget counts, with ``asked`` on top: one epsilon for each history."""
        patterns, _ = self._patterns(histories)
        names = self._data_sets(histories)
        column = {name: i for i, name in enumerate(names)}
        alpha = order(budget.epsilon, budget.delta)
        releases = [(column[entry.data], cost_of(entry.events, alpha)) for entry in self.entries]
        if asked:
            patterns = np.concatenate([patterns, np.ones((len(patterns), 1), dtype=bool)], axis=1)
            releases.append((len(names), cost_of(plain_events(asked), alpha)))
        return spent(releases, patterns, epsilon=budget.epsilon, delta=budget.delta)

    def covering(self, delta: float, histories: Histories | None = None) -> float:
        """Return the epsilon of a small budget whose filter covers what is in the ledger; infinite for none."""
        low = self.spent(delta, histories)
        if low in (0.0, math.inf):
            return low
        high = 2 * low
        while not self._covers(high, delta, histories):
            low, high = high, 2 * high
            if high > 1e9:
                return math.inf
        while high > 1.001 * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self._covers(middle, delta, histories) else (middle, high)
        return high

    def _covers(self, epsilon: float, delta: float, histories: Histories | None) -> bool:
        most = self.counted(Budget(epsilon=epsilon, delta=delta), histories).max(initial=0.0)
        return bool(most <= epsilon * (1 + ROUNDING))

    def would_exceed(self, events: Events, budget: Budget, histories: Histories | None = None) -> bool:
        """Tell whether releasing ``events`` on top of everything so far would pass the budget for any row."""
        asked = plain_events(events)
        if budget.epsilon == math.inf:
            return False
        return not self.counted(budget, histories, asked=asked).max() <= budget.epsilon * (1 + ROUNDING)

    def ask(
        self, events: Events, budget: Budget, histories: Histories | None = None, *, what: str = "what is asked"
    ) -> None:
        """Return if the budget covers ``events`` on top of everything so far, for every row.

        Else raise `RefusalError` with the numbers (code ``budget-exceeded``), which calls the events ``what``. The text
        is for the party's own log.
        """
        if not self.would_exceed(events, budget, histories):
            return
        asked = plain_events(events)
        together = float(self.counted(budget, histories, asked=asked).max())
        without = float(self.counted(budget, histories).max())
        alone = float(Ledger(party=self.party, data_digest=self.data_digest).counted(budget, asked=asked).max())
        limit, total = f"{budget.epsilon:g}", spent_text(together)
        if float(limit) != budget.epsilon or total == limit:  # these digits do not tell them apart
            limit, total = repr(budget.epsilon), repr(together)
        raise RefusalError(
            explain(
                f"privacy budget of {self.party}",
                f"cover {what}: epsilon <= {limit} at delta {budget.delta:g}",
                f"epsilon {spent_text(without)} spent before, {spent_text(alone)} asked, {total} together",
                "These are the filter's figures, for the row that has spent most. "
                "This party leaves the round out. Its operator can raise epsilon-budget or delta-budget in the node "
                "config; the server cannot.",
            ),
            code=Code.BUDGET_EXCEEDED,
        )

    def charge(self, entry: Entry) -> Ledger:
        """Return this ledger with one entry more, after `ask`; raises `ConfigError` for a request charged before."""
        longer = replace(self, entries=(*self.entries, entry))
        longer.__dict__["links"] = (*self.links, _link(self.links[-1], entry))  # the rest of the chain is as it was
        return longer

    def from_the_future(self, now: datetime) -> tuple[Entry, ...]:
        """Return the entries dated more than a day after ``now``: a clock was wrong then, or is wrong now."""
        late = [(entry, utc(entry.when)) for entry in self.entries]
        return tuple(entry for entry, date in late if date is None or date > now + CLOCK_SKEW)

    def _data_sets(self, histories: Histories | None) -> tuple[str, ...]:
        if histories is not None:
            return histories.data_sets
        return tuple(dict.fromkeys(entry.data for entry in self.entries))

    def _patterns(self, histories: Histories | None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the histories of rows, and which data sets have paid for anything."""
        names = self._data_sets(histories)
        charged = {entry.data for entry in self.entries}
        patterns = np.ones((1, len(names)), dtype=bool) if histories is None else histories.patterns
        return patterns, np.array([name in charged for name in names], dtype=bool)

    # ---------------------------------------------------------------------------------------- as bytes, and back

    def to_json(self) -> bytes:
        """Return it as bytes: one JSON object, each entry with its link on a line of its own."""
        front = json.dumps({"version": VERSION, "party": self.party, "key": self.key})[:-1]
        linked = zip(self.entries, self.links[1:], strict=True)
        # an entry at a time, because json takes four times as long to lay a whole object out in lines
        lines = ",\n".join(json.dumps({**vars(entry), "link": link}, allow_nan=False) for entry, link in linked)
        return f'{front}, "entries": [\n{lines}\n]}}\n'.encode()

    @classmethod
    def from_json(cls, data: bytes, *, data_digest: str = "", source: str = "ledger") -> Ledger:
        """Read `to_json`; ``source`` is what to call it in an error.

        ``data_digest`` is that of the data set held now; by default the one charged last. Raises `DataError` (code
        ``ledger-lost``) if the bytes are damaged or from another version. Dates are not judged: the chain notices a
        changed one, and a clock that was once far ahead must not lock a ledger.
        """
        raw = read_object(data, {"version", "party", "key", "entries"}, source)
        try:
            links, entries, names = [], [], {f.name for f in fields(Entry)}
            for item in raw["entries"]:
                links.append(item.pop("link"))
                if item.keys() != names:
                    raise ValueError(f"an entry of {', '.join(item)}")
                item["events"] = tuple((event, count) for event, count in item["events"])
                entries.append(Entry(**item))
            held = data_digest or (entries[-1].data if entries else "0" * 64)
            if not isinstance(raw["key"], str):
                raise ValueError("a key that is no text")
            ledger = cls(party=raw["party"], data_digest=held, entries=tuple(entries), key=raw["key"])
            chain = ledger.links[1:]
        except Exception as error:  # damaged JSON may break any of these
            raise lost(source, "be a whole ledger", f"this: {error!r}") from error
        for number, (link, right) in enumerate(zip(links, chain, strict=True), start=1):
            if link != right:
                raise lost(source, "be an unbroken chain", f"another link at entry {number} of {len(links)}")
        return ledger

    def check_owner(self, party: str, *, source: str = "ledger") -> None:
        """Refuse another party's ledger."""
        if self.party != party:
            raise lost(source, f"belong to party {party}", f"party {self.party}")

    def check_head(self, head: Head, *, source: str = "ledger") -> None:
        """Refuse a ledger that is older than its head, or another one."""
        if not len(self.entries) >= head.entries:
            seen = f"{len(self.entries)} entries: an older copy"
            raise lost(source, f"hold the {head.entries} entries its head counts", seen)
        if self.links[head.entries] != head.link:
            raise lost(source, f"agree with its head after {head.entries} entries", "another chain")


def _link(before: str, entry: Entry) -> str:
    """Return the link of an entry in the hash chain."""
    return sha256(before.encode() + canonical(vars(entry))).hexdigest()
