"""The only rows a party ever learns from under NFDP: drawn once, kept for good, for all runs and files.

Learning from a random subset of the rows is differentially private only if nothing is ever learnt from the other rows;
a second draw would expose some of them. So the drawn rows are stored beside the party's ledger, by their keyed hashes:
an edited, reordered or re-encoded file does not draw again.

| the file now | what is learnt from |
|---|---|
| is the one that was drawn from | the drawn rows |
| is any other | the drawn rows that are still there; no other row is learnt from, or looked at to decide anything |
| holds none of the drawn rows, or rows whose hashes cannot be compared | nothing |

So a party draws once. Were a file without any row of the draw to have a draw of its own, a single row that was never
drawn would decide between the two; its claim lets it decide nothing. New rows for NFDP need a party of another name.

Equal rows are not told apart: where one of several copies is deleted, the drawn copies are taken to be the first ones.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from hashlib import sha256
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, ConfigError, DataError, RefusalError, explain
from fedkd_flwr.files import make_folder, write_atomic
from fedkd_flwr.privacy.ledger.entry import Entry, canonical
from fedkd_flwr.privacy.ledger.ledger import Ledger
from fedkd_flwr.privacy.noise.sampling import Rng
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.stores.ledger import LedgerStore

__all__ = ["SubsetStore"]

logger = logging.getLogger("flwr.party")

_VERSION = 2
_DRAWN = ": drawn"
_WAY_OUT = "Go on with the file that the subset was drawn from, or leave this party out of such runs."


class SubsetStore:
    """One party's subset.

    ``subset.json`` in the ledger's folder holds the draws; a note in the ledger, written second and before anything
    learns from a draw, holds its digest.

    Parameters
    ----------
    ledger : LedgerStore
        The party's ledger, which knows the rows that are held now.

    Notes
    -----
    If the process stops between writing file and note, nothing has learnt from the subset yet, and it counts as drawn.
    The loss of the whole folder cannot be noticed, as for the ledger.
    """

    def __init__(self, ledger: LedgerStore) -> None:
        self.ledger = ledger
        self.party = ledger.new.party
        self.path = ledger.directory / "subset.json"

    def claimed(self, mechanism: Subsampling) -> Subsampling:
        """Return the draw that a claim is about: ``mechanism``, or what was claimed when these rows were drawn.

        Raises `RefusalError` (code ``subset-fixed``) if that draw was of another k or kind, or of rows with other
        columns, and `DataError` (``subset-lost``) if its file is missing or damaged. Rows that cannot have one draw are
        no matter for a refusal, which would tell of them: `rows` raises there.
        """
        draw = self._known()
        if draw is None:
            return mechanism
        known = _mechanism(draw)
        if (known.subset_rows, known.replacement) != (mechanism.subset_rows, mechanism.replacement):
            self._another(known, mechanism)
        return known

    def charged(self, mechanism: Subsampling) -> bool:
        """Tell whether a reply computed from this subset has been charged: further ones are post-processing."""
        draw = self._known()
        return draw is not None and _mechanism(draw) == mechanism and self._paid(draw)

    def rows(self, mechanism: Subsampling, *, num_rows: int | None = None, rng: Rng = None) -> NDArray[np.int64]:
        """Return the party's subset; if there never was one, draw it from the operating system's entropy.

        ``mechanism`` is the draw as `claimed`, and ``num_rows`` how many rows the file holds, by default as many as are
        claimed. If it holds fewer, the draw is of as many places as claimed, and those beyond the rows are empty.

        The row numbers are int64, ascending; with replacement some may repeat. There are ``subset_rows`` of them, or
        fewer where drawn rows are no longer in the file. ``rng`` is for tests only, because a seeded draw gives no
        privacy. Raises `RefusalError` (code ``subset-fixed``) if the stored subset has another n, k or kind of draw
        than ``mechanism`` or its rows cannot be known again, and `DataError` (``subset-lost``) if a subset was drawn
        and its file, or all of its rows, are missing or damaged.
        """
        make_folder(self.ledger.directory)
        with self.ledger.held() as ledger:
            draw = self._draw_of_these(ledger)
            if draw is None:
                draw = self._draw(ledger, mechanism, mechanism.num_rows if num_rows is None else num_rows, rng)
            elif len(_notes(ledger)) < len(self._stored(ledger)):
                self._note(ledger, draw)
        known = _mechanism(draw)
        if known != mechanism:
            self._another(known, mechanism)
        found = self._found(draw)
        if not len(found):
            raise self._lost("a file without any of the drawn rows")
        return found

    def stored(self) -> NDArray[np.int64] | None:
        """Return the row numbers drawn from the data set held now, None if there are none; for simulations."""
        if not os.path.lexists(self.path):
            return None
        draws = json.loads(self.path.read_bytes())["draws"]
        mine = [draw["rows"] for draw in draws if draw["data"] == self.ledger.rows.digest]
        return np.array(mine[0], dtype=np.int64) if mine else None

    def _known(self) -> dict[str, Any] | None:
        """Return the party's draw; None where there is none, or `rows` raises."""
        if not os.path.lexists(self.ledger.directory):
            return None
        with self.ledger.held() as ledger:
            self._check_form(self._stored(ledger))
            try:
                return self._draw_of_these(ledger)
            except RefusalError:  # rows decided it
                return None

    # -------------------------------------------------------------------------------- under the ledger's lock

    def _stored(self, ledger: Ledger) -> list[dict[str, Any]]:
        """Return all draws, compared with the ledger's notes of them."""
        notes = _notes(ledger)
        if not os.path.lexists(self.path):
            if notes:
                raise self._lost("no such file")
            return []
        try:
            raw = json.loads(self.path.read_bytes())
            if (raw["version"], raw["party"]) != (_VERSION, self.party):
                raise ValueError(f"subsets of {raw['party']}, version {raw['version']}")
            draws: list[dict[str, Any]] = raw["draws"]
            for draw in draws:
                _mechanism(draw)
            if len(draws) not in (len(notes), len(notes) + 1):
                raise ValueError(f"{len(draws)} draws where the ledger has noted {len(notes)}")
        except (OSError, ValueError, KeyError, TypeError, ConfigError) as error:
            raise self._lost(f"this: {error}") from error
        if any(_witness(draw) != note.reply_digest for draw, note in zip(draws, notes, strict=False)):
            raise self._lost("another subset than the one that was drawn")
        return draws

    def _draw_of_these(self, ledger: Ledger) -> dict[str, Any] | None:
        """Return the party's draw, None before there is one; private rows decide nothing of it."""
        draws, held = self._stored(ledger), self.ledger.rows
        for draw in draws:
            if draw["data"] == held.digest:
                return draw
        if not draws:
            return None
        self._check_form(draws)
        if len(draws) > 1:  # as earlier releases drew for files that shared no row
            self._fixed("be one, for a file that none was drawn from", f"{len(draws)} draws", _WAY_OUT)
        return draws[0]

    def _paid(self, draw: Mapping[str, Any]) -> bool:
        """Tell whether the draw was charged to the rows that it was drawn from, or else to those held now."""
        words, data = _mechanism(draw).words, {draw["data"], self.ledger.rows.digest}
        return any(entry.mechanism == words and entry.data in data for entry in self.ledger.load().entries)

    def _check_form(self, draws: Sequence[Mapping[str, Any]]) -> None:
        held = self.ledger.rows
        if held.digest not in {draw["data"] for draw in draws} and any(draw["form"] != held.form for draw in draws):
            self._fixed(
                "be of rows with the columns of the schema it was drawn under", "other columns or rules", _WAY_OUT
            )

    def _draw(self, ledger: Ledger, mechanism: Subsampling, num_rows: int, rng: Rng) -> dict[str, Any]:
        draws, held, table = self._stored(ledger), self.ledger.rows, self.ledger.table(ledger)
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
        write_atomic(
            self.path, json.dumps({"version": _VERSION, "party": self.party, "draws": [*draws, draw]}).encode() + b"\n"
        )
        self._note(ledger, draw)
        return draw

    def _note(self, ledger: Ledger, draw: Mapping[str, Any]) -> None:
        self.ledger.append(
            ledger,
            run_id=f"draw {len(_notes(ledger)) + 1}",
            server_round=0,
            algorithm="NFDP",
            mechanism=f"{_mechanism(draw).words}{_DRAWN}",
            unit="record",
            adversary="server",
            neighbouring_relation="add, remove or replace one record",
            events=(({"kind": "no-op"}, 1),),
            reply_digest=_witness(draw),
        )

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
        way_out = (
            f"Ask for subset-rows {known.subset_rows} and subset-replacement {str(known.replacement).lower()}: a "
            "second subset beside it would be covered by no claim."
        )
        self._fixed(f"be the one drawn: {known.words}", asked.words, way_out)

    def _fixed(self, rule: str, seen: str, way_out: str) -> NoReturn:
        raise RefusalError(explain(f"subset of {self.party}", rule, seen, way_out), code=Code.SUBSET_FIXED)

    def _lost(self, seen: str) -> DataError:
        way_out = (
            "It is never drawn again: a second subset beside the first is covered by no claim. Restore "
            f"{self.path.parent} from its newest backup, or leave this party out of such runs."
        )
        return DataError(explain(f"subset {self.path}", "be there, whole", seen, way_out), code=Code.SUBSET_LOST)


def _notes(ledger: Ledger) -> list[Entry]:
    return [entry for entry in ledger.entries if entry.mechanism.endswith(_DRAWN)]


def _mechanism(draw: Mapping[str, Any]) -> Subsampling:
    known = Subsampling(**{field.name: draw[field.name] for field in fields(Subsampling)})
    if not len(draw["rows"]) == len(draw["hashes"]) == len(draw["copies"]) == known.subset_rows:
        raise ValueError("other numbers of rows than it announces")
    return known


def _copies(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return for each row how many equal ones stand before it."""
    order = np.argsort(hashes, kind="stable")
    ascending = hashes[order]
    copies = np.empty(len(hashes), dtype=np.int64)
    copies[order] = np.arange(len(hashes)) - np.searchsorted(ascending, ascending)
    return copies


def _witness(draw: Mapping[str, Any]) -> str:
    return sha256(canonical(dict(draw))).hexdigest()
