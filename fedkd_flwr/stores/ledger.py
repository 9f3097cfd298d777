"""A party's privacy ledger on its disk: the charge and the exact reply are on the disk before the reply leaves."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from fedkd_flwr.errors import Code, DataError, explain
from fedkd_flwr.files import make_folder, write_atomic
from fedkd_flwr.privacy.ledger.entry import lost, plain_events
from fedkd_flwr.privacy.ledger.ledger import Budget, Entry, Events, Head, Ledger
from fedkd_flwr.stores.files import file_name, locked
from fedkd_flwr.stores.party_state import StoredReply

__all__ = ["REPLIES_KEPT", "LedgerStore"]

logger = logging.getLogger("flwr.party")

REPLIES_KEPT = 3
_PENDING = ".pending"
_warned: set[Path] = set()


class LedgerStore:
    """What one party has released from one set of private rows, over all runs. Nothing here ever resets it.

    In ``root/ledgers/<party>-<digest>/``:

    | file | holds |
    |---|---|
    | ``ledger.json`` | `fedkd_flwr.privacy.ledger.ledger.Ledger`; replacing this file is the charge |
    | ``head.json`` | the ledger's length when it was last written, so that an older copy is noticed |
    | ``replies/<run>-<round>.npz`` | the exact replies to each run's last three rounds; ``.pending`` until charged |
    | ``lock`` | held while reading or charging |

    A charge writes the reply as pending, then the ledger, then the head, then renames the reply. A crash at any point
    leaves either no charge and a pending reply that was not sent and is deleted, or one charge and its reply.

    Parameters
    ----------
    root : str or Path
        The party's state directory.
    party : str
        The party's name.
    data_digest : str
        SHA-256 of its private rows, in hexadecimal.
    lock_timeout_s : float
        How long to wait for another process of this party, in seconds.

    Notes
    -----
    Three things cannot be noticed: the whole folder restored from a backup, an empty disk in place of the right one,
    and an owner who writes a new ledger. Without ``fcntl`` (Windows) nothing is locked: run one process per party.
    """

    def __init__(self, root: str | Path, *, party: str, data_digest: str, lock_timeout_s: float = 60.0) -> None:
        self.new = Ledger(party=party, data_digest=data_digest)  # checks both
        self.lock_timeout_s = lock_timeout_s
        name = file_name(party)
        ledgers = Path(root).expanduser() / "ledgers"
        self.directory = ledgers / f"{name}-{data_digest[:16]}"
        self.path = self.directory / "ledger.json"
        self.head_path = self.directory / "head.json"
        self.replies = self.directory / "replies"
        others = [
            p.name for p in ledgers.glob(f"{name}-*") if re.fullmatch(f"{re.escape(name)}-[0-9a-f]{{16}}", p.name)
        ]
        if self.directory not in _warned and (others := sorted(set(others) - {self.directory.name})):
            _warned.add(self.directory)  # every message makes a new store, but one warning is enough
            logger.warning(
                "%s has ledgers of other private rows too: %s. Each counts its own releases only: rows that are in "
                "several of these data sets have paid in each of them.",
                party,
                ", ".join(others),
            )

    def load(self) -> Ledger:
        """Return the ledger; a new one only if no file of an old one exists.

        Raises `DataError` if it is damaged, another party's, older than its head or its replies, dated in the future or
        written by a newer release (code ``ledger-lost``); or if another process keeps it locked.
        """
        if not os.path.lexists(self.directory):
            return self.new
        with self._lock():
            return self._load()

    def answered(self, run_id: str, server_round: int) -> StoredReply | None:
        """Return the reply that was charged for this request, byte for byte; None if none was charged.

        Raises `DataError` as `load`, and if a reply was charged but was deleted after three newer rounds of the run
        (code ``state-lost``), or is lost (``ledger-lost``). The charge stays.
        """
        if not os.path.lexists(self.directory):
            return None
        with self._lock():
            return self._stored(self._load(), run_id, server_round)

    def ask(self, events: Events, budget: Budget) -> None:
        """Check, before anything is learnt, that the budget covers ``events``; raises as `Ledger.ask` and `load`."""
        self.load().ask(events, budget)

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
        with self._lock():
            ledger = self._load()
            known = self._stored(ledger, run_id, server_round)
            if known is not None:
                return known
            ledger.ask(plain, budget)
            entry = Entry(
                run_id=run_id,
                server_round=server_round,
                events=plain,
                when=_now().isoformat(timespec="seconds"),
                reply_digest=sha256(data).hexdigest(),
                **words,
            )
            charged = ledger.charge(entry)
            self._settle(ledger)
            path = self.replies / _reply_name(entry)
            write_atomic(Path(f"{path}{_PENDING}"), data)
            write_atomic(self.path, charged.to_json())  # this line is the charge
            write_atomic(self.head_path, charged.head.to_json())
            os.replace(f"{path}{_PENDING}", path)
            self._forget_old(charged, run_id)
            return StoredReply.from_bytes(data)

    # -------------------------------------------------------------------------------- under the lock

    def _load(self) -> Ledger:
        raw, raw_head = _read(self.path), _read(self.head_path)
        released = [name for name in self._reply_files() if not name.endswith(_PENDING)]
        if raw is None:
            if raw_head is None and not self._reply_files():
                return self.new
            seen = "no such file, and a head or replies of one"
            raise lost(f"ledger {self.path}", "be there", seen)
        ledger = Ledger.from_json(raw, now=_now(), source=f"ledger {self.path}")
        ledger.check_owner(self.new.party, self.new.data_digest, source=f"ledger {self.path}")
        if raw_head is not None:
            ledger.check_head(Head.from_json(raw_head, source=f"head {self.head_path}"), source=f"ledger {self.path}")
        elif ledger.entries:  # `_settle` writes the head of an empty ledger before the first charge
            raise lost(f"head {self.head_path}", "be there", "no such file, and a ledger with charges")
        charged = {_reply_name(entry) for entry in ledger.entries}
        if unknown := [name for name in released if name not in charged]:
            seen = f"none for {unknown[0]}: an older copy"
            raise lost(f"ledger {self.path}", "hold an entry for every reply in replies", seen)
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

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        make_folder(self.directory)
        with locked(self.directory / "lock", timeout_s=self.lock_timeout_s):
            yield


def _reply_name(entry: Entry) -> str:
    return f"{file_name(entry.run_id)}-{entry.server_round}.npz"


def _kept(ledger: Ledger, run_id: str) -> list[Entry]:
    return [entry for entry in ledger.entries if entry.run_id == run_id][-REPLIES_KEPT:]


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
