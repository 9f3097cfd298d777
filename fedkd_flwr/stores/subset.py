"""The only rows a party ever learns from under NFDP: drawn once, kept for good, for all runs and files.

Learning from a random subset of the rows is differentially private only if nothing is ever learnt from the other rows;
a second draw would expose some of them. So the drawn rows are stored beside the party's ledger, by their keyed hashes:
an edited, reordered or re-encoded file does not draw again.

| the file now | what is learnt from |
|---|---|
| is the one that was drawn from | the drawn rows |
| is any other | the drawn rows that are still there; no other row is learnt from, or looked at to decide anything |
| holds none of the drawn rows, or rows whose hashes cannot be compared | nothing |

Were a file without any row of the draw to have a draw of its own, a single row that was never drawn would decide
between the two; its claim lets it decide nothing. New rows for NFDP need a party of another name.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from hashlib import sha256
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, ConfigError, DataError, RefusalError, explain
from fedkd_flwr.files import canonical
from fedkd_flwr.privacy.noise.sampling import Rng
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.stores.book import Book
from fedkd_flwr.stores.ledger import LedgerStore

__all__ = ["SubsetStore"]

logger = logging.getLogger("flwr.party")

_WAY_OUT = "Go on with the file that the subset was drawn from, or leave this party out of such runs."


class SubsetStore:
    """One party's subset, in its ledger's file, with a note of it in the ledger; both are written at once."""

    def __init__(self, ledger: LedgerStore) -> None:
        self.ledger = ledger
        self.party = ledger.new.party

    def claimed(self, mechanism: Subsampling) -> Subsampling:
        """Return the draw that a claim is about: ``mechanism``, or what was claimed when these rows were drawn.

        Raises `RefusalError` (code ``subset-fixed``) if that draw was of another k or kind, or of rows with other
        columns, and `DataError` (``ledger-lost``) if it is lost. Rows that cannot have one draw are no matter for a
        refusal, which would tell of them: `rows` raises there.
        """
        with self.ledger.looked_at() as book:
            draw = self._draw_in(book)
        if draw is None:
            return mechanism
        known = _mechanism(draw)
        if (known.subset_rows, known.replacement) != (mechanism.subset_rows, mechanism.replacement):
            self._another(known, mechanism)
        return known

    def charged(self, mechanism: Subsampling) -> bool:
        """Tell whether a reply computed from this subset has been charged: further ones are post-processing."""
        with self.ledger.looked_at() as book:
            draw, (entries, _) = self._draw_in(book), book.first_of_kinds()
        if draw is None or _mechanism(draw) != mechanism:
            return False
        # to the rows that it was drawn from, or else to those held now
        data = {draw["data"], self.ledger.rows.digest}
        return any(entry.mechanism == mechanism.words and entry.data in data for entry in entries)

    def rows(self, mechanism: Subsampling, *, num_rows: int | None = None, rng: Rng = None) -> NDArray[np.int64]:
        """Return the numbers of the drawn rows, int64, ascending; drawn from the system's entropy the first time.

        ``mechanism`` is the draw as `claimed`; ``num_rows`` how many rows the file holds, by default as many as are
        claimed. If it holds fewer, the draw is of as many places as claimed, and those beyond the rows are empty. With
        replacement some may repeat, and rows that are no longer in the file are left out. ``rng`` is for tests: a
        seeded draw gives no privacy. Raises `RefusalError` (code ``subset-fixed``) if the stored draw is another or its
        rows cannot be known again, `DataError` if none of them is in the file (``subset-lost``) or the ledger is lost.
        """
        with self.ledger.held() as book:
            draw = self._draw_in(book)
            if draw is None:
                draw = self._draw(book, mechanism, mechanism.num_rows if num_rows is None else num_rows, rng)
        known = _mechanism(draw)
        if known != mechanism:
            self._another(known, mechanism)
        found = self._found(draw)
        if not len(found):
            way_out = (
                "It is never drawn again: a second subset beside the first is covered by no claim. Go on with a file "
                "that holds some of the rows, or leave this party out of such runs."
            )
            message = explain(f"file of {self.party}", "hold some of the rows that were drawn", "none of them", way_out)
            raise DataError(message, code=Code.SUBSET_LOST)
        return found

    def stored(self) -> NDArray[np.int64] | None:
        """Return the row numbers drawn from the data set held now, None if there are none; for simulations."""
        with self.ledger.looked_at() as book:
            draw = json.loads(book.parts.get("draw", b"null"))
        mine = draw is not None and draw["data"] == self.ledger.rows.digest
        return np.array(draw["rows"], dtype=np.int64) if mine else None

    # -------------------------------------------------------------------------------- in a transaction

    def _draw_in(self, book: Book) -> dict[str, Any] | None:
        """Return the party's draw, None before there is one; no private row decides anything of it."""
        draw: dict[str, Any] | None = json.loads(book.parts.get("draw", b"null"))
        held = self.ledger.rows
        if draw is not None and draw["data"] != held.digest and draw["form"] != held.form:
            rule = "be of rows with the columns of the schema it was drawn under"
            self._fixed(rule, "other columns or rules", _WAY_OUT)
        return draw

    def _draw(self, book: Book, mechanism: Subsampling, num_rows: int, rng: Rng) -> dict[str, Any]:
        held, table = self.ledger.rows, self.ledger.table(book)
        if table.column(held.digest) is None:
            self.ledger.with_rows(table)  # refuses another party's rows before anything is drawn from them
        rows = replace(mechanism, num_rows=max(mechanism.num_rows, num_rows)).draw(rng=rng)
        hashes = self.ledger.hashes(make_key=True)
        if (count := len(hashes)) not in (1, num_rows):
            raise ConfigError(explain("num_rows", f"be that of the data set, {count}", num_rows))
        if count == 1:  # rows that nobody knows apart
            hashes = np.repeat(hashes, num_rows)
        there = rows < num_rows
        at = np.where(there, rows, 0)
        draw = {
            "data": held.digest,
            "form": held.form,
            **asdict(mechanism),
            "rows": rows.tolist(),
            "hashes": np.where(there, hashes[at] if num_rows else 0, 0).tolist(),
            "copies": np.where(there, _copies(hashes)[at] if num_rows else -1, -1).tolist(),  # -1: an empty place
        }
        data = canonical(draw)
        book.put("draw", data)
        self.ledger.append(
            book,
            run_id="draw 1",
            server_round=0,
            algorithm="NFDP",
            mechanism=f"{mechanism.words}: drawn",
            unit="record",
            adversary="server",
            neighbouring_relation="add, remove or replace one record",
            events=(({"kind": "no-op"}, 1),),
            reply_digest=sha256(data).hexdigest(),
        )
        return draw

    def _found(self, draw: Mapping[str, Any]) -> NDArray[np.int64]:
        """Return where the drawn rows stand in the file that is held now, ascending."""
        rows = np.array(draw["rows"], dtype=np.int64)
        if draw["data"] == self.ledger.rows.digest:
            return rows
        hashes = self.ledger.hashes()
        order = np.argsort(hashes, kind="stable")
        wanted, copies = np.array(draw["hashes"], dtype=np.uint64), np.array(draw["copies"], dtype=np.int64)
        at = np.searchsorted(hashes[order], wanted) + copies
        there = (copies >= 0) & (at < np.searchsorted(hashes[order], wanted, side="right"))
        if not there.all():
            logger.info("%s: %d of %d drawn rows are no longer in the file", self.party, (~there).sum(), len(rows))
        return np.sort(order[at[there]]).astype(np.int64)

    def _another(self, known: Subsampling, asked: Subsampling) -> NoReturn:
        drawn = f"subset-rows {known.subset_rows} and paper.subset-replacement {str(known.replacement).lower()}"
        way_out = f"Ask for {drawn}: a second subset beside it would be covered by no claim."
        self._fixed(f"be the one drawn: {known.words}", asked.words, way_out)

    def _fixed(self, rule: str, seen: str, way_out: str) -> NoReturn:
        raise RefusalError(explain(f"subset of {self.party}", rule, seen, way_out), code=Code.SUBSET_FIXED)


def _mechanism(draw: Mapping[str, Any]) -> Subsampling:
    return Subsampling(**{field.name: draw[field.name] for field in fields(Subsampling)})


def _copies(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return for each row how many equal ones stand before it."""
    order = np.argsort(hashes, kind="stable")
    ascending = hashes[order]
    copies = np.empty(len(hashes), dtype=np.int64)
    copies[order] = np.arange(len(hashes)) - np.searchsorted(ascending, ascending)
    return copies
