"""One party's ledger file: SQLite, in which every value stands under a digest that leads to one head.

| table | holds |
|---|---|
| ``entries`` | a row for each release: the request, when, the reply's digest; and the number of its kind |
| ``kinds`` | what entries share: algorithm, mechanism, events, data set, and whom they protect |
| ``replies`` | the replies to each run's last rounds, byte for byte; their entries hold their digests |
| ``parts`` | ``head``, and what the head holds the digests of: ``rows`` and ``draw`` |

SQLite makes a change whole or not at all, but it believes a changed byte. So the head holds the number of entries and
their digest, and is sealed by a digest of its own. All but the replies is checked whenever the file is opened. Entries
are found by reading them: what a damaged index does not find would be charged again. A lost reply's charge stays.

The file has a rollback journal (``synchronous=EXTRA``) and no write-ahead log. A changed byte in such a log ends it
earlier without an error (in 200 of 200 tries the last charge was gone), and reading one writes files.

Beside it lies ``head.json``, which each commit is followed by: a file that is older than it is refused, and so is one
without the last charged reply that the party's egress log names.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from fedkd_flwr.errors import Code, DataError, explain
from fedkd_flwr.files import canonical, digest_of, make_folder, read_sealed, sealed, unsealed, write_sealed
from fedkd_flwr.privacy.ledger.entry import Entry, lost
from fedkd_flwr.privacy.ledger.ledger import Ledger
from fedkd_flwr.privacy.ledger.rows import RowTable
from fedkd_flwr.stores.egress_log import last_charged
from fedkd_flwr.stores.party_state import StoredReply

__all__ = ["FILE", "HEAD", "Book", "Head", "changed", "head_of", "ledger_in", "looked_at", "rows_in"]

FILE, HEAD = "ledger.sqlite3", "head.json"
SYNC = "EXTRA"  # what is committed survives a power cut
_VERSION = 5
_OWN = ("run_id", "server_round", "when", "reply_digest")  # fields of an entry that it shares with no other
_TABLES = (
    "CREATE TABLE parts (name TEXT NOT NULL, data BLOB NOT NULL)",
    "CREATE TABLE kinds (number INTEGER PRIMARY KEY, said TEXT NOT NULL)",
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, kind INTEGER NOT NULL, said TEXT NOT NULL)",
    "CREATE TABLE replies (run TEXT NOT NULL, round INTEGER NOT NULL, data BLOB NOT NULL)",
    "CREATE INDEX replies_of_run ON replies (run, round)",
)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DISK = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


@dataclass(kw_only=True)
class Head:
    """Where a ledger ends, and the digests of what else it holds."""

    party: str  # whose
    key: str = ""  # names the key that rows are hashed with, "" before the first charge
    # entries, link: How many there are, and the digest of all
    entries: int = 0
    link: str = ""
    sets: list[list[str]] = field(default_factory=list)  # digest and form of each data set that was charged
    parts: dict[str, str] = field(default_factory=dict)  # the digest of each part
    version: int = _VERSION

    def __post_init__(self) -> None:
        if self.version != _VERSION:
            raise ValueError(f"version {self.version}")


@dataclass(kw_only=True)
class Book:
    """What was read of one party's file, and in `changed` what is written to it."""

    path: Path  # the file
    head: Head  # where it ends
    db: sqlite3.Connection | None = None  # the open file; None where there is none yet
    parts: dict[str, bytes] = field(default_factory=dict)  # by name
    kinds: dict[int, str] = field(default_factory=dict)  # by number, as JSON
    rows: list[tuple[int, str]] = field(default_factory=list)  # the entries: number of the kind, and the rest as JSON
    locks: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def entries(self, run_id: str | None = None, server_round: int | None = None) -> list[Entry]:
        """Return the entries, oldest first: all, those of a run, or that of a request."""
        asked = [one for one in (run_id, server_round) if one is not None]
        start = canonical(asked).decode()[:-1] + ("," if asked else "")
        return self._built(row for row in self.rows if row[1].startswith(start))

    def first_of_kinds(self) -> tuple[list[Entry], list[int]]:
        """Return the first entry of each kind, oldest first, and how many there are of each."""
        counts = Counter(kind for kind, _ in self.rows)
        first = dict(reversed(self.rows))  # by kind: what came later is written over
        return self._built((kind, first[kind]) for kind in counts), list(counts.values())

    def _built(self, rows: Iterable[tuple[int, str]]) -> list[Entry]:
        kinds = {number: json.loads(shared) for number, shared in self.kinds.items()}
        for shared in kinds.values():
            shared["events"] = tuple((event, count) for event, count in shared["events"])
        return [Entry(**kinds[kind], **dict(zip(_OWN, json.loads(said), strict=True))) for kind, said in rows]

    def reply(self, entry: Entry) -> StoredReply | None:
        """Return the reply of an entry; None where it is not there as it was charged."""
        asked = "SELECT data FROM replies WHERE run = ? AND round = ?"
        for (data,) in self._open.execute(asked, (_run(entry), entry.server_round)).fetchall():
            with contextlib.suppress(ValueError, TypeError):  # the latter where it is no bytes
                return StoredReply.from_bytes(data, entry.reply_digest)
        return None

    def put(self, name: str, data: bytes) -> None:
        """Replace a part."""
        self.parts[name], self.head.parts[name] = data, digest_of(data)
        self._write(name, data)

    def add(self, entry: Entry, reply: bytes | None, *, kept: int) -> None:
        """Write one entry more, with its reply if there is one; of its run the last ``kept`` replies stay."""
        values = vars(entry)
        shared = canonical({name: value for name, value in values.items() if name not in _OWN}).decode()
        said = canonical([values[name] for name in _OWN]).decode()
        kind = next((number for number, known in self.kinds.items() if known == shared), None)
        if kind is None:
            kind = len(self.kinds) + 1
            self.kinds[kind] = shared
            self._open.execute("INSERT INTO kinds VALUES (?, ?)", (kind, shared))
        self.rows.append((kind, said))
        self.head.entries = len(self.rows)
        self._open.execute("INSERT INTO entries VALUES (?, ?, ?)", (len(self.rows), kind, said))
        if reply is not None:
            self._open.execute("INSERT INTO replies VALUES (?, ?, ?)", (_run(entry), entry.server_round, reply))
            older = "SELECT rowid FROM replies WHERE run = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?"
            self._open.execute(f"DELETE FROM replies WHERE rowid IN ({older})", (_run(entry), kept))

    def _write(self, name: str, data: bytes) -> None:
        self._open.execute("DELETE FROM parts WHERE name = ?", (name,))
        self._open.execute("INSERT INTO parts VALUES (?, ?)", (name, data))

    @property
    def _open(self) -> sqlite3.Connection:
        if self.db is None:
            raise RuntimeError("there is no file to read or write")
        return self.db


# ------------------------------------------------------------------------------------------------ opening


@contextlib.contextmanager
def looked_at(folder: Path, *, party: str = "", timeout_s: float = 60.0) -> Iterator[Book]:
    """Read the file in a folder, which stays as it is meanwhile; where there is none, an empty book.

    Raises `DataError` (code ``ledger-lost``) where anything in it is not what was written, it is another party's, or
    it is older than ``head.json`` or than the party's egress log.
    """
    path = folder / FILE
    if not os.path.lexists(path):
        yield _checked(Book(path=path, head=Head(party=party)), party)
        return
    with _database(path, timeout_s, write=False) as db:
        db.execute("BEGIN")
        yield _checked(_read(path, db, party), party)


@contextlib.contextmanager
def changed(folder: Path, *, party: str, timeout_s: float) -> Iterator[Book]:
    """Read the file in a folder, or begin one, and write all that was changed in it when the block ends, or nothing.

    When it returns, everything is on the disk. Raises as `looked_at`; `DataError` (code ``internal``) if another
    process holds it for ``timeout_s`` seconds; `OSError` where the disk is full, for instance.
    """
    make_folder(folder)
    path = folder / FILE
    if not os.path.lexists(path):
        _checked(Book(path=path, head=Head(party=party)), party)  # before there is a file again
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # SQLite would let others read it
    with _database(path, timeout_s, write=True) as db:
        db.execute("BEGIN IMMEDIATE")
        book = _checked(_read(path, db, party), party)
        before, entries = sealed(asdict(book.head)), book.head.entries
        with book.locks:
            if not entries and not os.path.lexists(folder / HEAD):
                _write_head(book)  # first, so that a ledger without it is one whose head was removed
            if begun := not _tables(db):
                for table in _TABLES:
                    db.execute(table)
            yield book
            book.head.link = _digest(book, book.head.entries)
            if (after := sealed(asdict(book.head))) != before or begun:
                book._write("head", after)
            db.execute("COMMIT")  # this is the charge
            if book.head.entries != entries:
                _write_head(book)


@contextlib.contextmanager
def _database(path: Path, timeout_s: float, *, write: bool) -> Iterator[sqlite3.Connection]:
    """Open a file; what SQLite finds wrong is raised as an error of ours."""
    if not path.exists():
        raise lost(f"ledger {path}", "be readable", "a link to a file that is not there")
    # whoever may write also undoes what a killed process left half written
    mode = "rw" if write or os.access(path, os.W_OK) else "ro"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=timeout_s, isolation_level=None)) as db:
            if write:
                db.execute("PRAGMA journal_mode = DELETE")
                db.execute(f"PRAGMA synchronous = {SYNC}")
            yield db  # what is not committed is undone
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter where SQLite's own message is damaged text
        code = getattr(error, "sqlite_errorcode", 0)
        if code & 0xFF in _BUSY:
            way_out = "Another process holds it: run one process per party, or let this one wait longer."
            message = explain(f"ledger {path}", f"be free within {timeout_s:g} s", "held by another", way_out)
            raise DataError(message, code=Code.INTERNAL) from error
        if code & 0xFF in _DISK and code != sqlite3.SQLITE_IOERR_SHORT_READ:
            number = errno.ENOSPC if code == sqlite3.SQLITE_FULL else errno.EIO
            raise OSError(number, str(error), str(path)) from error
        raise lost(f"ledger {path}", "be whole", f"this: {error}") from error


def _tables(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master").fetchone() is not None


def _read(path: Path, db: sqlite3.Connection, party: str) -> Book:
    """Read all of a file but the replies, and check what its own digests say."""
    if path.stat().st_size % db.execute("PRAGMA page_size").fetchone()[0]:
        raise lost(f"ledger {path}", "be whole", "a part of a page at its end: it was cut")
    if not _tables(db):  # begun, and nothing was written yet
        return Book(path=path, head=Head(party=party), db=db)
    try:
        parts = dict(db.execute("SELECT name, data FROM parts").fetchall())
        head = Head(**unsealed(parts["head"]))
        book = Book(path=path, head=head, db=db, parts={name: parts[name] for name in head.parts})
        wrong = [name for name, digest in head.parts.items() if digest_of(book.parts[name]) != digest]
        book.kinds = dict(db.execute("SELECT number, said FROM kinds ORDER BY number").fetchall())
        book.rows = db.execute("SELECT kind, said FROM entries ORDER BY number").fetchall()
        if wrong or len(book.rows) != head.entries or _digest(book, head.entries) != head.link:
            raise ValueError(f"other {wrong[0] if wrong else 'entries'} than its head says")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise lost(f"ledger {path}", "be whole", f"this: {error!r}") from error
    return book


def _checked(book: Book, party: str) -> Book:
    """Compare a book with its owner, and with what lies outside its file."""
    source, head, held = f"ledger {book.path}", head_of(book.path.parent), book.head
    if party and held.party != party:
        raise lost(source, f"belong to party {party}", f"party {held.party}")
    if head is None and held.entries:
        raise lost(f"head {book.path.with_name(HEAD)}", "be there", "no such file, and a ledger with charges")
    if head is not None and head.entries > held.entries:
        seen = f"{held.entries} entries: an older copy" if book.db else "no such file"
        raise lost(source, f"hold the {head.entries} entries that {HEAD} counts", seen)
    if head is not None and head.link != (held.link if head.entries == held.entries else _digest(book, head.entries)):
        raise lost(source, f"agree with {HEAD} after {head.entries} entries", "another past")
    folder = book.path.parent
    log = folder.parents[1] / "egress" / folder.name / "log.jsonl"
    if (reply := last_charged(log)) and not any(reply in said for _, said in reversed(book.rows)):
        rule = f"hold the charge of the last reply that {log} names, {reply[:16]}"
        raise lost(source, rule, "none: an older copy")
    return book


def _digest(book: Book, entries: int) -> str:
    """Return the digest of so many entries, in their order and with their kinds; "" for none."""
    made = sha256(canonical([_VERSION, book.head.party, book.head.key]))
    for kind, said in book.rows[:entries]:
        made.update(f"\n{book.kinds[kind]}\n{said}".encode())  # JSON: there is no line break in either
    return made.hexdigest() if entries else ""


def _run(entry: Entry) -> str:
    return canonical(entry.run_id).decode()  # SQLite takes no lone surrogates


def head_of(folder: Path) -> Head | None:
    """Return what ``head.json`` in a folder says, None without one; raises `DataError` if it was changed."""
    path = folder / HEAD
    if not os.path.lexists(path):
        return None
    try:
        return Head(**read_sealed(path))
    except (OSError, ValueError, TypeError) as error:
        raise lost(f"head {path}", "be whole", str(error)) from error


def _write_head(book: Book) -> None:
    write_sealed(book.path.with_name(HEAD), asdict(book.head) | {"parts": {}})


def ledger_in(folder: Path) -> tuple[Ledger, RowTable]:
    """Read the ledger in a party's folder and the table of its rows, or raise `DataError` (``ledger-lost``)."""
    if not os.path.lexists(folder / FILE):
        raise lost(f"ledger {folder / FILE}", "be there", "no such file")
    with looked_at(folder) as book:
        entries = tuple(book.entries())
        held = entries[-1].data if entries else "0" * 64
        return Ledger(party=book.head.party or folder.name, data_digest=held, entries=entries), rows_in(book)


def rows_in(book: Book) -> RowTable:
    """Return the table of the rows that were charged."""
    return RowTable.from_bytes(book.parts["rows"]) if "rows" in book.parts else RowTable()
