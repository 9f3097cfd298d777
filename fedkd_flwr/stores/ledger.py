"""A party's privacy ledger on its disk: the charge and the exact reply are on the disk before the reply leaves."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, DataError, RefusalError, explain
from fedkd_flwr.files import make_folder, remove_leftovers, write_atomic
from fedkd_flwr.privacy.ledger.entry import OLD_WAY_OUT, lost, plain_events
from fedkd_flwr.privacy.ledger.ledger import Budget, Entry, Events, Head, Ledger
from fedkd_flwr.privacy.ledger.rows import PrivateRows, RowTable, hash_rows
from fedkd_flwr.stores.files import file_name, locked
from fedkd_flwr.stores.party_state import StoredReply
from fedkd_flwr.stores.plans import HOLD_S, Plans

__all__ = ["NO_NOISE", "REPLIES_KEPT", "LedgerStore", "read_table"]

logger = logging.getLogger("flwr.party")

REPLIES_KEPT = 3
NO_NOISE = "none: replies without noise"
"""The mechanism of a note that a run sent replies which nothing at the party made private."""

_PENDING = ".pending"
_KEY_BYTES = 16
_noted: set[tuple[str, str, str]] = set()
_warned: set[str] = set()


class LedgerStore:
    """What the rows of one party have released, over all runs and all versions of its file. Nothing here resets it.

    In ``root/ledgers/``:

    | file | holds |
    |---|---|
    | ``rows.key`` | the key that rows are hashed with, one for the whole state directory |
    | ``<party>/ledger.json`` | `fedkd_flwr.privacy.ledger.ledger.Ledger`; replacing this file is the charge |
    | ``<party>/head.json`` | the ledger's length when it was last written, so that an older copy is noticed |
    | ``<party>/rows-<digest>.table`` | `fedkd_flwr.privacy.ledger.rows.RowTable`: which rows took part in what |
    | ``<party>/replies/<run>-<round>.npz`` | replies to a run's last three rounds; ``.pending`` until charged |
    | ``<party>/plans.json`` | `fedkd_flwr.stores.plans.Plans`: what runs that have begun are still going to ask |
    | ``<party>/lock`` | held while reading or charging |

    A charge writes the table of rows (for a new data set), the reply as pending, then the ledger, then the head, then
    renames the reply. A crash at any point leaves either no charge and a pending reply that was not sent and is
    deleted, or one charge and its reply. A table is never changed: the ledger names the one that holds.

    Parameters
    ----------
    root : str or Path
        The party's state directory.
    party : str
        The party's name.
    data_digest : str
        Digest of the data set that it holds now, in hexadecimal, for instance SHA-256 of its file.
    rows : PrivateRows, optional
        Its rows, so that spend follows them into other files. Without it, and until a `Party` gives its arrays
        (`know`), each data set is counted as if it were one row: another digest starts afresh.
    apart : bool
        Refuse rows that another party of this state directory has charged. False for simulations, whose parties may
        hold equal rows; the very same data set is refused even there.
    lock_timeout_s : float
        How long to wait for another process of this party, in seconds.

    Notes
    -----
    Three things cannot be noticed: the whole folder restored from a backup, an empty disk in place of the right one,
    and an owner who writes a new ledger. Without ``fcntl`` (Windows) nothing is locked: run one process per party.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        party: str,
        data_digest: str,
        rows: PrivateRows | None = None,
        apart: bool = True,
        lock_timeout_s: float = 60.0,
    ) -> None:
        self.new = Ledger(party=party, data_digest=data_digest)  # checks both
        self.apart = apart
        self.lock_timeout_s = lock_timeout_s
        self.ledgers = Path(root).expanduser() / "ledgers"
        self.directory = self.ledgers / file_name(party)
        self.path = self.directory / "ledger.json"
        self.head_path = self.directory / "head.json"
        self.replies = self.directory / "replies"
        self.plans_path = self.directory / "plans.json"
        self.key_path = self.ledgers / "rows.key"
        self.rows = PrivateRows(
            digest=data_digest,
            form="one data set",
            blocks=lambda: [np.array([[data_digest]], dtype=object)],
        )
        self.knows_rows = False
        self._values: Sequence[NDArray[Any]] | None = None
        self._hashes: NDArray[np.uint64] | None = None
        self._parsed: tuple[tuple[bytes, str], Ledger] | None = None
        if rows is not None:
            self.know(rows, apart=apart)

    def know(self, rows: PrivateRows, *, apart: bool) -> None:
        """Say which rows this party holds; without effect where that is known already."""
        if not self.knows_rows:
            self.rows, self.apart, self.knows_rows = rows, apart, True
            self.new = replace(self.new, data_digest=rows.digest)

    def load(self) -> Ledger:
        """Return the ledger; a new one only if no file of an old one exists.

        Raises `DataError` if it is damaged, another party's, older than its head or its replies, or written by another
        release (code ``ledger-lost``); or if another process keeps it locked.
        """
        if not os.path.lexists(self.directory):
            self._refuse_old()
            return self.new
        with self.held() as ledger:
            return ledger

    def answered(self, run_id: str, server_round: int) -> StoredReply | None:
        """Return the reply that was charged for this request, byte for byte; None if none was charged.

        Raises `DataError` as `load`, and if a reply was charged but was deleted after three newer rounds of the run
        (code ``state-lost``), or is lost (``ledger-lost``). The charge stays.
        """
        if not os.path.lexists(self.directory):
            return None
        with self.held() as ledger:
            return self._stored(ledger, run_id, server_round)

    def ask(
        self, events: Events, budget: Budget, *, run_id: str = "", rounds: int = 1, continues: Collection[str] = ()
    ) -> None:
        """Check, before anything is learnt, that the budget covers ``events`` for each row that is held now.

        A run's first visit asks for all the ``rounds`` it is going to ask for, on top of what runs that have begun are
        still going to ask (`fedkd_flwr.stores.plans`): a run that cannot be paid whole is refused before it pays. The
        plans of the runs that it ``continues`` are not counted.

        Raises as `Ledger.ask` and `load`, and `RefusalError` (code ``wrong-config``) for rows that another party of
        this state directory has charged.
        """
        events, planned = plain_events(events), bool(run_id) and budget.epsilon < np.inf
        with contextlib.ExitStack() as stack:
            if planned or os.path.lexists(self.directory):
                ledger = stack.enter_context(self.held())
                table = self.table(ledger)
            else:
                self._refuse_old()
                ledger, table = self.new, RowTable()
            if table.column(self.rows.digest) is None:
                table = self.with_rows(table)
            if not planned:
                self._ask(ledger, table, events, budget)
                return
            begun = any(entry.run_id == run_id for entry in ledger.entries)
            plans = Plans(self.plans_path)
            others = {} if begun else plans.others(run_id, *continues)
            asked = [(event, count * (1 if begun else rounds)) for event, count in events]
            for plan in others.values():
                asked += [(event, count * plan.rounds) for event, count in plan.events]
            what = "what is asked" if begun or rounds == 1 else f"the {rounds} rounds of this run"
            if others:
                kept = ", ".join(f"{plan.rounds} of run {other}" for other, plan in others.items())
                what += f" beside rounds kept for runs that have begun ({kept}; for {HOLD_S / 60:g} min at most)"
            self._ask(ledger, table, asked, budget, what)
            plans.hold(run_id, events, rounds)

    def end_plan(self, run_id: str) -> None:
        """Keep nothing more for a run: it is over."""
        if os.path.lexists(self.plans_path):
            with self.held():
                Plans(self.plans_path).hold(run_id, (), 0)

    def charge(
        self,
        *,
        run_id: str,
        server_round: int,
        events: Events,
        reply: StoredReply,
        budget: Budget,
        **words: str,
    ) -> StoredReply:
        """Charge for a reply, write charge and reply to disk, and return the reply that may be sent.

        If the request was charged before, that is the reply of that time, and nothing is charged.

        Parameters
        ----------
        run_id, server_round
            The request.
        events : sequence of (event, int)
            What the reply releases.
        reply : StoredReply
            The reply to send.
        budget : Budget
            Checked here too, because another process may have charged since `ask`.
        **words
            The other fields of `fedkd_flwr.privacy.ledger.entry.Entry`: algorithm, mechanism, unit, adversary and
            neighbouring_relation.

        Raises
        ------
        RefusalError
            If the budget does not cover it (code ``budget-exceeded``); nothing is charged.
        DataError
            As in `load` and `answered`.
        """
        data, plain = reply.to_bytes(), plain_events(events)
        with self.held() as ledger:
            known = self._stored(ledger, run_id, server_round)
            if known is not None:
                return known
            words |= {"run_id": run_id, "reply_digest": sha256(data).hexdigest()}
            self.append(ledger, server_round=server_round, events=plain, budget=budget, reply=data, **words)
            if os.path.lexists(self.plans_path) and (plan := (plans := Plans(self.plans_path)).of(run_id)):
                with contextlib.suppress(OSError):  # the charge is made; a plan that stays a while does no harm
                    plans.hold(run_id, plan.events, plan.rounds - 1)
            return StoredReply.from_bytes(data)

    def note_no_noise(self, *, run_id: str, algorithm: str) -> None:
        """Write down that this run gets replies without noise from these rows: one entry, before the first leaves.

        Raises as `load` and `ask`.
        """
        key = (str(self.path), run_id, self.rows.digest)
        if key in _noted and os.path.lexists(self.path):
            return
        with self.held() as ledger:
            mine = (run_id, self.rows.digest, NO_NOISE)
            if all((entry.run_id, entry.data, entry.mechanism) != mine for entry in ledger.entries):
                self.append(
                    ledger,
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
        _noted.add(key)

    # -------------------------------------------------------------------------------- under the lock

    @contextlib.contextmanager
    def held(self) -> Iterator[Ledger]:
        """Hold the party's lock, and return the ledger as it lies there."""
        make_folder(self.directory)
        with locked(self.directory / "lock", timeout_s=self.lock_timeout_s):
            self._refuse_old()
            remove_leftovers(self.directory)
            remove_leftovers(self.replies)
            yield self._load()

    def append(
        self,
        ledger: Ledger,
        *,
        events: Events,
        server_round: int,
        budget: Budget | None = None,
        reply: bytes | None = None,
        **words: str,
    ) -> Ledger:
        """Write one entry more, with its reply if there is one; the lock must be `held`. Return the ledger.

        ``events`` are plain already: a note must not wait for the accountant to be imported.
        """
        with contextlib.ExitStack() as stack:
            table = self.table(ledger)
            new = table.column(self.rows.digest) is None
            if new:
                stack.enter_context(locked(self.ledgers / "rows.lock", timeout_s=self.lock_timeout_s))
                ledger = replace(ledger, key=_key_name(self._key(make=True)))
                table = self.with_rows(table)
            if budget is not None:
                self._ask(ledger, table, events, budget)
            self._settle(ledger)
            if new:
                rows = table.to_bytes()
                name = _digest(rows)
                write_atomic(self._table_path(name), rows)
            else:
                name = ledger.entries[-1].table
            entry = Entry(
                server_round=server_round,
                events=tuple(events),
                when=_now().isoformat(timespec="seconds"),
                data=self.rows.digest,
                table=name,
                **words,
            )
            charged = ledger.charge(entry)
            path = self.replies / _reply_name(entry)
            if reply is not None:
                write_atomic(Path(f"{path}{_PENDING}"), reply)
            data = charged.to_json()
            write_atomic(self.path, data)  # this line is the charge
            self._parsed = ((sha256(data).digest(), charged.data_digest), charged)
            write_atomic(self.head_path, charged.head.to_json())
            if reply is not None:
                os.replace(f"{path}{_PENDING}", path)
                self._forget_old(charged, entry.run_id)
            return charged

    def _ask(
        self, ledger: Ledger, table: RowTable, events: Events, budget: Budget, what: str = "what is asked"
    ) -> None:
        histories = table.histories(self.rows.digest) if budget.epsilon < np.inf else None
        ledger.ask(events, budget, histories, what=what)

    def table(self, ledger: Ledger) -> RowTable:
        """Return the table of rows that a ledger's last entry names."""
        if not ledger.entries:
            return RowTable()
        if _key_name(self._key(make=False)) != ledger.key:
            raise lost(f"key {self.key_path}", "be the one that the ledger's rows were hashed with", "another one")
        return read_table(self.directory, ledger)

    def with_rows(self, table: RowTable) -> RowTable:
        """Return the table with the rows held now, after a look whether another party's ledger knows them."""
        rows, hashes = self.rows, self.hashes()
        for path in sorted(self.ledgers.glob("*/rows-*.table")):
            data = _read(path) if path.parent != self.directory else None
            if data is None:
                continue
            other = RowTable.from_bytes(data, source=f"rows {path}")
            same = other.column(rows.digest) is not None
            shared = int(np.isin(hashes, other.hashes).sum()) if self.apart else 0
            strange = self.apart and any(form != rows.form for _, form in other.data_sets)
            if same or shared or strange:
                seen = "the same data set" if same else f"{shared} of {len(hashes)} rows that are"
                seen = seen if same or shared else "rows under another schema, which may be these,"
                way_out = (
                    "Give this party the name it had: its rows keep what they have spent. If they are another "
                    "organisation's rows, give it a state-dir of its own."
                )
                message = explain(
                    f"party {self.new.party}",
                    "hold rows of its own in this state-dir",
                    f"{seen} in the ledger of {path.parent.name}",
                    way_out,
                )
                raise RefusalError(message, code=Code.WRONG_CONFIG)
        return table.with_data_set(rows.digest, rows.form, hashes)

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
        key = _read(self.key_path)
        if key is None and make and not any(self.ledgers.glob("*/ledger.json")):
            key = os.urandom(_KEY_BYTES)
            write_atomic(self.key_path, key)
        if key is None or len(key) != _KEY_BYTES:
            seen = "no such file, and ledgers whose rows were hashed with it" if key is None else f"{len(key)} bytes"
            raise lost(f"key {self.key_path}", f"be there, {_KEY_BYTES} bytes", seen)
        return key

    def _table_path(self, name: str) -> Path:
        return self.directory / f"rows-{name[:32]}.table"

    def _refuse_old(self) -> None:
        """Refuse to start a new ledger beside one of release 0.1.0, which had another layout."""
        if os.path.lexists(self.path) or not os.path.lexists(self.ledgers):
            return
        for name in os.listdir(self.ledgers):
            if re.fullmatch(r".*-[0-9a-f]{16}", name) and (old := _read(self.ledgers / name / "ledger.json")):
                version = None
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    version = json.loads(old)["version"]
                if version == 1:
                    raise lost(f"ledger {self.ledgers / name}", "be of version 2", "version 1", OLD_WAY_OUT)

    def _load(self) -> Ledger:
        raw, raw_head = _read(self.path), _read(self.head_path)
        released = [name for name in self._reply_files() if not name.endswith(_PENDING)]
        if raw is None:
            if raw_head is None and not self._reply_files() and not any(self.directory.glob("rows-*.table")):
                return self.new
            seen = "no such file, and a head, replies or rows of one"
            raise lost(f"ledger {self.path}", "be there", seen)
        bytes_read = (sha256(raw).digest(), self.new.data_digest)
        if self._parsed is None or self._parsed[0] != bytes_read:  # a round asks, then charges
            ledger = Ledger.from_json(raw, data_digest=self.new.data_digest, source=f"ledger {self.path}")
            self._parsed = (bytes_read, ledger)
        ledger = self._parsed[1]
        ledger.check_owner(self.new.party, source=f"ledger {self.path}")
        if raw_head is not None:
            ledger.check_head(Head.from_json(raw_head, source=f"head {self.head_path}"), source=f"ledger {self.path}")
        elif ledger.entries:  # `_settle` writes the head of an empty ledger before the first charge
            raise lost(f"head {self.head_path}", "be there", "no such file, and a ledger with charges")
        charged = {_reply_name(entry) for entry in ledger.entries}
        if unknown := [name for name in released if name not in charged]:
            seen = f"none for {unknown[0]}: an older copy"
            raise lost(f"ledger {self.path}", "hold an entry for every reply in replies", seen)
        if ledger.entries and not os.path.lexists(self._table_path(ledger.entries[-1].table)):
            raise lost(f"rows {self._table_path(ledger.entries[-1].table)}", "be there", "no such file")
        if (late := ledger.from_the_future(_now())) and str(self.path) not in _warned:
            _warned.add(str(self.path))  # every message makes a new store, but one warning is enough
            logger.warning(
                "%s: %d entries are dated in the future, the first %s: this machine's clock was wrong when they were "
                "written, or is wrong now. They count in full.",
                self.path,
                len(late),
                late[0].when,
            )
        return ledger

    def _stored(self, ledger: Ledger, run_id: str, server_round: int) -> StoredReply | None:
        entry = ledger.entry(run_id, server_round)
        if entry is None:
            return None
        path = self.replies / _reply_name(entry)
        for place in (path, Path(f"{path}{_PENDING}")):  # still pending if the process ended right after the charge
            data = _read(place)
            if data is not None and sha256(data).hexdigest() == entry.reply_digest:
                return StoredReply.from_bytes(data)
        if entry not in _kept(ledger, run_id):
            seen = f"round {server_round} of run {run_id}: charged and answered, its reply deleted since"
            rule = f"be among the last {REPLIES_KEPT} that {self.new.party} answered in its run"
            raise DataError(explain("repeated request", rule, seen, "Ask for a newer round."), code=Code.STATE_LOST)
        way_out = "The charge stays: the reply may have left. Restore it from a backup, or go on with the next round."
        rule = f"hold the reply charged for round {server_round} of run {run_id}"
        raise lost(f"reply {path}", rule, "other bytes" if os.path.lexists(path) else "no such file", way_out)

    def _settle(self, ledger: Ledger) -> None:
        """Finish or undo what a crash left half done, before the next charge."""
        if not os.path.lexists(self.path):
            write_atomic(self.path, ledger.to_json())
        if _read(self.head_path) != ledger.head.to_json():
            write_atomic(self.head_path, ledger.head.to_json())
        named = self._table_path(ledger.entries[-1].table) if ledger.entries else None
        for table in self.directory.glob("rows-*.table"):
            if table != named:  # of a charge that did not come, or of earlier data sets
                table.unlink()
        charged = {_reply_name(entry) for entry in ledger.entries}
        for name in self._reply_files():
            pending, final = self.replies / name, name.removesuffix(_PENDING)
            if name == final:
                continue
            if final not in charged:
                pending.unlink()
            elif not os.path.lexists(self.replies / final):
                os.replace(pending, self.replies / final)

    def _forget_old(self, ledger: Ledger, run_id: str) -> None:
        kept = {_reply_name(entry) for entry in _kept(ledger, run_id)}
        for entry in ledger.entries:
            if entry.run_id == run_id and _reply_name(entry) not in kept:
                with contextlib.suppress(OSError):  # a file that cannot be deleted does no harm
                    (self.replies / _reply_name(entry)).unlink()

    def _reply_files(self) -> list[str]:
        ends = (".npz", f".npz{_PENDING}")
        return sorted(p.name for p in self.replies.glob("*") if p.name.endswith(ends))


def _reply_name(entry: Entry) -> str:
    return f"{file_name(entry.run_id)}-{entry.server_round}.npz"


def _kept(ledger: Ledger, run_id: str) -> list[Entry]:
    return [entry for entry in ledger.entries if entry.run_id == run_id and entry.server_round][-REPLIES_KEPT:]


def read_table(directory: Path, ledger: Ledger) -> RowTable:
    """Return the table of rows that the last entry of the ledger in ``directory`` names; raises `DataError` if lost."""
    if not ledger.entries:
        return RowTable()
    name = ledger.entries[-1].table
    path = directory / f"rows-{name[:32]}.table"
    data = _read(path)
    if data is None or _digest(data) != name:
        raise lost(
            f"rows {path}", "be the table that the ledger names", "no such file" if data is None else "other bytes"
        )
    table = RowTable.from_bytes(data, source=f"rows {path}")
    known = {digest for digest, _ in table.data_sets}
    if missing := {entry.data for entry in ledger.entries} - known:
        raise lost(f"rows {path}", "hold every data set that was charged", f"none of digest {min(missing)[:16]}")
    return table


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest()


def _key_name(key: bytes) -> str:
    """Return what names a key without telling it."""
    return blake2b(b"fedkd rows key", key=key, digest_size=16).hexdigest()


def _read(path: Path) -> bytes | None:
    """Return a file's bytes, or None if it does not exist; a file that cannot be read raises."""
    if not os.path.lexists(path):
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise lost(f"file {path}", "be readable", f"this: {error}", "Give this user the right to read it.") from error


def _now() -> datetime:
    return datetime.now(UTC)
