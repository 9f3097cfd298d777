"""Who has spent what, and who refuses: one party's account of what it released, over all its runs.

Here are the rules, without a disk and without a clock; `fedkd_flwr.stores.ledger.LedgerStore` keeps the account on a
party's disk, and ``fedkd node ledger PATH`` prints one.

Every decision uses events alone: the parameters of mechanisms, fixed before any private row is looked at. A refusal
that depended on votes would reveal something of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_number
from fedkd_flwr.errors import Code, RefusalError, explain
from fedkd_flwr.privacy.ledger.entry import Entry, Events, check_digest, check_text, epsilon_of, plain_events
from fedkd_flwr.privacy.ledger.filter import ROUNDING, cost_of, order, spent, spent_text
from fedkd_flwr.privacy.ledger.rows import Histories

__all__ = ["Budget", "Entry", "Events", "Ledger"]

_EXACT = 16  # histories whose tight figures are computed one by one
_COMPARED = 512  # histories that are compared with each other


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that any row may ever spend, over all runs.

    It holds for the row that has spent most, against a server that chooses each request after seeing the answers to
    earlier ones, if the owner chose it without looking at answers: `fedkd_flwr.privacy.ledger.filter`.
    """

    epsilon: float = math.inf  # >= 0; infinite: no limit, and nothing is computed
    delta: float = 1e-5  # within [0, 1): where epsilon is measured

    def __post_init__(self) -> None:
        if self.epsilon != math.inf:
            check_number("epsilon-budget", self.epsilon, least=0, way_out="Leave it out for no limit.")
        check_number("delta-budget", self.delta, least=0, below=1)


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """All releases computed from one party's private rows.

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

    >>> Ledger(party="a", data_digest="0" * 64).spent(1e-5)
    0.0
    """

    party: str
    # digest of the data set that it holds now, in hexadecimal; it is not part of what is written
    data_digest: str = field(compare=False)
    entries: tuple[Entry, ...] = ()  # oldest first, over all runs and data sets
    times: tuple[int, ...] = ()  # how often each entry counts; empty: once each

    def __post_init__(self) -> None:
        check_text("party", self.party)
        check_digest(self.data_digest)

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
        paid_by = [{name for name, has in zip(names, row, strict=True) if has} for row in patterns]
        return max((self._composed(held, delta) for held in paid_by), default=0.0)

    def _composed(self, data_sets: Collection[str], delta: float) -> float:
        paid = [(entry.events, times) for entry, times in self._grouped if entry.data in data_sets]
        return epsilon_of([(event, count * times) for events, times in paid for event, count in events], delta)

    def counted(self, budget: Budget, histories: Histories | None = None, *, asked: Events = ()) -> NDArray[np.float64]:
        """Return what the filter of a finite budget counts, with ``asked`` on top: one epsilon for each history."""
        patterns, _ = self._patterns(histories)
        names = self._data_sets(histories)
        column = {name: i for i, name in enumerate(names)}
        alpha = order(budget.epsilon, budget.delta)
        releases = [(column[entry.data], cost_of(entry.events, alpha) * times) for entry, times in self._grouped]
        if asked:
            patterns = np.concatenate([patterns, np.ones((len(patterns), 1), dtype=bool)], axis=1)
            releases.append((len(names), cost_of(plain_events(asked), alpha)))
        return spent(releases, patterns, epsilon=budget.epsilon, delta=budget.delta)

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

    @cached_property
    def _grouped(self) -> list[tuple[Entry, int]]:
        """Entries with how often each counts; those of one kind, as a store reads them, are one."""
        found: dict[tuple[str, int], tuple[Entry, int]] = {}
        for entry, times in zip(self.entries, self.times or repeat(1), strict=False):
            key = entry.data, id(entry.events)
            found[key] = found.get(key, (entry, 0))[0], found.get(key, (entry, 0))[1] + times
        return list(found.values())

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
