"""A party's privacy ledger on its disk: the charge and the exact reply are on the disk before the reply leaves."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, DataError, RefusalError, explain
from fedkd_flwr.files import read_sealed, write_sealed
from fedkd_flwr.privacy.ledger.entry import Entry, lost, plain_events
from fedkd_flwr.privacy.ledger.ledger import Budget, Events, Ledger
from fedkd_flwr.privacy.ledger.rows import PrivateRows, RowTable, hash_rows
from fedkd_flwr.stores.book import FILE, HEAD, Book, changed, head_of, looked_at, rows_in
from fedkd_flwr.stores.files import file_name, locked
from fedkd_flwr.stores.party_state import StoredReply

__all__ = ["NO_NOISE", "REPLIES_KEPT", "LedgerStore"]

REPLIES_KEPT = 3
NO_NOISE = "none: replies without noise"
"""The mechanism of a note that a run sent replies which nothing at the party made private."""

_KEY_BYTES = 16


class LedgerStore:
    """What the rows of one party have released, over all runs and all versions of its file. Nothing here resets it.

    A charge, its reply and what else it changes are one transaction. A crash at any point leaves either no charge, and
    a reply that was not sent, or one charge and its reply. ``root``: the party's state directory.

    ``rows``: its rows, so that spend follows them into other files. Without it, and until a `Party` gives its arrays
        (`know`), each data set is counted as if it were one row: another digest starts afresh.
    ``apart``: refuse rows that another party of this state directory has charged. False for simulations, whose parties
        may hold equal rows; the very same data set is refused even there.
    ``alone``: the folder is one simulated run's own: rows are not looked for under other names, which for each of many
        parties would mean to read the ledgers of all others.

    Three things cannot be noticed: the whole state directory restored from a backup, an empty disk in place of the
    right one, and an owner who writes a new ledger.
    """

    keeps = True  # what `fedkd_flwr.stores.party_state.NoLedger` does not

    def __init__(
        self,
        root: str | Path,
        *,
        party: str,
        data_digest: str,
        rows: PrivateRows | None = None,
        apart: bool = True,
        alone: bool = False,
        lock_timeout_s: float = 60.0,
    ) -> None:
        self.new = Ledger(party=party, data_digest=data_digest)  # checks both
        self.apart, self.alone = apart, alone
        self.lock_timeout_s = lock_timeout_s
        self.ledgers = Path(root).expanduser() / "ledgers"
        self.directory = self.ledgers / file_name(party)
        self.path = self.directory / FILE
        self.key_path = self.ledgers / "rows.key"
        own = np.array([[data_digest]], dtype=object)
        self.rows = PrivateRows(digest=data_digest, form="one data set", blocks=lambda: [own])
        self.knows_rows = False
        self._values: Sequence[NDArray[Any]] | None = None
        self._hashes: NDArray[np.uint64] | None = None
        if rows is not None:
            self.know(rows, apart=apart)

    def know(self, rows: PrivateRows, *, apart: bool) -> None:
        """Say which rows this party holds; without effect where that is known already."""
        if not self.knows_rows:
            self.rows, self.apart, self.knows_rows = rows, apart, True
            self.new = replace(self.new, data_digest=rows.digest)

    def load(self) -> Ledger:
        """Return the ledger; a new one only if no file of an old one exists.

        Raises `DataError` if it is damaged, another party's, or older than its head or the party's egress log (code
        ``ledger-lost``); or if another process keeps it locked.
        """
        with self.looked_at() as book:
            return replace(self.new, entries=tuple(book.entries()))

    def entries(self, run_id: str, server_round: int | None = None) -> list[Entry]:
        """Return a run's entries, oldest first, or that of one round; raises as `load`."""
        with self.looked_at() as book:
            return book.entries(run_id, server_round)

    def answered(self, run_id: str, server_round: int) -> StoredReply | None:
        """Return the reply that was charged for this request, byte for byte; None if none was charged.

        Raises `DataError` as `load`, and if a reply was charged but was deleted after three newer rounds of the run
        (code ``state-lost``), or is lost (``ledger-lost``). The charge stays.
        """
        with self.looked_at() as book:
            return self._stored(book, run_id, server_round)

    def ask(self, events: Events, budget: Budget, *, run_id: str = "", rounds: int = 1) -> None:
        """Check, before anything is learnt, that the budget covers ``events`` for each row that is held now.

        A run's first visit asks for all the ``rounds`` it is going to ask for: a run that cannot be paid whole is
        refused before it pays. Rounds of other runs that have begun are not counted: at its charge each pays its own.

        Raises as `Ledger.ask` and `load`, and `RefusalError` (code ``wrong-config``) for rows that another party of
        this state directory has charged.
        """
        events = plain_events(events)
        with self.looked_at() as book:
            table = self.table(book)
            if table.column(self.rows.digest) is None:
                table = self.with_rows(table)
            asked = 1 if run_id and book.entries(run_id) else rounds
            what = "what is asked" if asked == 1 else f"the {rounds} rounds of this run"
            self._ask(book, table, [(event, count * asked) for event, count in events], budget, what)

    def charge(
        self, *, run_id: str, server_round: int, events: Events, reply: StoredReply, budget: Budget, **words: str
    ) -> StoredReply:
        """Charge for a reply, write charge and reply to disk, and return the reply that may be sent.

        If the request (``run_id``, ``server_round``) was charged before, that is the reply of that time, and nothing is
        charged. ``events`` are what the reply releases: (event, int) each. The budget is checked here too, because
        another process may have charged since `ask`. ``words`` are the other fields of
        `fedkd_flwr.privacy.ledger.entry.Entry`: algorithm, mechanism, unit, adversary and neighbouring_relation.

        Raises `RefusalError` if the budget does not cover it (code ``budget-exceeded``), and nothing is charged; and
        `DataError` as `load` and `answered`.
        """
        data, plain = reply.to_bytes(), plain_events(events)
        with self.held() as book:
            known = self._stored(book, run_id, server_round)
            if known is not None:
                return known
            words |= {"run_id": run_id, "reply_digest": reply.digest}
            self.append(book, server_round=server_round, events=plain, budget=budget, reply=data, **words)
        return reply

    def note_no_noise(self, *, run_id: str, algorithm: str) -> None:
        """Write down that this run gets replies without noise from these rows: one entry, before the first leaves."""
        with self.held() as book:
            mine = (self.rows.digest, NO_NOISE)
            if all((entry.data, entry.mechanism) != mine for entry in book.entries(run_id)):
                self.append(
                    book,
                    run_id=run_id,
                    server_round=0,
                    algorithm=algorithm,
                    mechanism=NO_NOISE,
                    unit="record",
                    adversary="server",
                    neighbouring_relation="any",
                    events=(({"kind": "non-private"}, 1),),
                    reply_digest=sha256(b"").hexdigest(),
                )

    # -------------------------------------------------------------------------------- in a transaction

    def looked_at(self) -> AbstractContextManager[Book]:
        """Return what lies there, to be read."""
        return looked_at(self.directory, party=self.new.party, timeout_s=self.lock_timeout_s)

    def held(self) -> AbstractContextManager[Book]:
        """Return what lies there, to be changed; no other process changes it meanwhile."""
        return changed(self.directory, party=self.new.party, timeout_s=self.lock_timeout_s)

    def append(
        self,
        book: Book,
        *,
        events: Events,
        server_round: int,
        budget: Budget | None = None,
        reply: bytes | None = None,
        **words: str,
    ) -> None:
        """Write one entry more into a book that is `held`; events are plain: no note waits for the accountant."""
        table = self.table(book)
        new = table.column(self.rows.digest) is None
        if new:
            # until all is written: another party must not take the same rows for its own meanwhile
            book.locks.enter_context(locked(self.ledgers / "rows.lock", timeout_s=self.lock_timeout_s))
            book.head.key = _key_name(self._key(make=True))
            table = self.with_rows(table)
        if budget is not None:
            self._ask(book, table, events, budget)
        if new:
            book.head.sets = [[digest, form] for digest, form in table.data_sets]
            book.put("rows", table.to_bytes())
        entry = Entry(
            server_round=server_round,
            events=tuple(events),
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            data=self.rows.digest,
            **words,
        )
        book.add(entry, reply, kept=REPLIES_KEPT)

    def _ask(self, book: Book, table: RowTable, events: Events, budget: Budget, what: str = "what is asked") -> None:
        if budget.epsilon == np.inf:
            return
        entries, times = book.first_of_kinds()
        ledger = replace(self.new, entries=tuple(entries), times=tuple(times))
        ledger.ask(events, budget, table.histories(self.rows.digest), what=what)

    def table(self, book: Book) -> RowTable:
        """Return the table of the rows that were charged."""
        if book.head.entries and _key_name(self._key(make=False)) != book.head.key:
            raise lost(f"key {self.key_path}", "be the one that the ledger's rows were hashed with", "another one")
        return rows_in(book)

    def with_rows(self, table: RowTable) -> RowTable:
        """Return the table with the rows held now, after a look whether another party's ledger knows them."""
        rows, hashes = self.rows, self.hashes()
        folders = () if self.alone else sorted(path.parent for path in self.ledgers.glob(f"*/{HEAD}"))
        for folder in folders:
            if folder != self.directory and (seen := self._shared(folder, hashes)):
                way_out = (
                    "Give this party the name it had: its rows keep what they have spent. If they are another "
                    "organisation's rows, give it a state-dir of its own."
                )
                name, rule = f"party {self.new.party}", "hold rows of its own in this state-dir"
                message = explain(name, rule, f"{seen} in the ledger of {folder.name}", way_out)
                raise RefusalError(message, code=Code.WRONG_CONFIG)
        return table.with_data_set(rows.digest, rows.form, hashes)

    def _shared(self, folder: Path, hashes: NDArray[np.uint64]) -> str:
        """Return what of the rows held now another party's ledger knows, "" for nothing."""
        if any(digest == self.rows.digest for digest, _ in _sets(folder)):
            return "the same data set"
        if not self.apart:
            return ""
        with looked_at(folder, timeout_s=self.lock_timeout_s) as book:
            other = rows_in(book)
        if shared := int(np.isin(hashes, other.hashes).sum()):
            return f"{shared} of {len(hashes)} rows that are"
        strange = any(form != self.rows.form for _, form in other.data_sets)
        return "rows under another schema, which may be these," if strange else ""

    def hashes(self, *, make_key: bool = False) -> NDArray[np.uint64]:
        """Return the keyed hash of each row that is held now, in their order; zeros where there is no key yet."""
        if self._hashes is None:
            if self._values is None:  # read before anything is learnt: at the charge another file may lie there
                self._values = self.rows.blocks()
            if make_key and not os.path.lexists(self.key_path):
                with locked(self.ledgers / "rows.lock", timeout_s=self.lock_timeout_s):
                    self._key(make=True)
            if not os.path.lexists(self.key_path):
                return np.zeros(1, dtype=np.uint64)
            self._hashes, self._values = hash_rows(self._values, self._key(make=False)), None
        return self._hashes

    def _key(self, *, make: bool) -> bytes:
        """Return the key of rows; one that is gone is not made anew where rows were hashed with it."""
        path = self.key_path
        if make and not os.path.lexists(path) and not any(_sets(one.parent) for one in self.ledgers.glob(f"*/{HEAD}")):
            write_sealed(path, {"key": os.urandom(_KEY_BYTES).hex()})
        try:
            return bytes.fromhex(read_sealed(path)["key"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise lost(f"key {path}", "be there, whole", f"this, and rows hashed with it: {error}") from error

    def _stored(self, book: Book, run_id: str, server_round: int) -> StoredReply | None:
        entry = next(iter(book.entries(run_id, server_round)), None)
        if entry is None:
            return None
        if (reply := book.reply(entry)) is not None:
            return reply
        if entry not in [one for one in book.entries(run_id) if one.server_round][-REPLIES_KEPT:]:
            seen = f"round {server_round} of run {run_id}: charged and answered, its reply deleted since"
            rule = f"be among the last {REPLIES_KEPT} that {self.new.party} answered in its run"
            raise DataError(explain("repeated request", rule, seen, "Ask for a newer round."), code=Code.STATE_LOST)
        way_out = "The charge stays: the reply may have left. Restore it from a backup, or go on with the next round."
        rule = f"hold the reply charged for round {server_round} of run {run_id}"
        raise lost(f"ledger {self.path}", rule, "none, or other bytes", way_out)


def _sets(folder: Path) -> list[list[str]]:
    head = head_of(folder)
    return head.sets if head is not None else []


def _key_name(key: bytes) -> str:
    """Return what names a key without telling it."""
    return blake2b(b"fedkd rows key", key=key, digest_size=16).hexdigest()
