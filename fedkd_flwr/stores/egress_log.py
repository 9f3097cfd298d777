"""What has left a party, line by line: each line holds the digest of the one before, so no change stays unseen.

In ``state-dir/egress/<party>/`` lies ``log.jsonl``: JSON in canonical form (sorted keys, no spaces), only ever appended
to; beside it ``head.json``: how many lines there are, and the digest of the last, so that a cut at the end is noticed.

A line is on the disk, and the head after it, before its reply leaves. A crash in between leaves a line whose reply did
not leave, or half a line, which the next writer removes; never a reply without its line.

Whoever can write to both files can write another log and a head that fits it. So compare the head's short form
(`short_head`) with one that was kept elsewhere.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedkd_flwr.errors import Code, ConfigError, DataError, explain
from fedkd_flwr.files import make_folder, read_sealed, without_nan, write_sealed
from fedkd_flwr.privacy.ledger.entry import canonical
from fedkd_flwr.stores.files import file_name, locked
from fedkd_flwr.stores.party_state import StoredReply

VERSION = 1
_FIRST = "0" * 64  # what the first line names as the one before
_LOCK_S = 60.0  # how long to wait for another process of this party
_HEAD_KEYS = {"version", "party", "lines", "digest", "start", "size"}
_WAY_OUT = (
    "Move its folder away and keep it as evidence, or restore its newest backup if nothing left after it; "
    "`fedkd node egress verify` says which line is wrong."
)


def output_of(reply: StoredReply, *, num_examples: int = 0) -> dict[str, Any]:
    """Describe what a reply holds, as plain JSON without its arrays' values: names, shapes, dtypes, bytes and digests.

    An array's digest is SHA-256 of its bytes as it travels, row by row, without Flower's header of 128 bytes.
    """
    arrays = [
        {
            "name": name,
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "bytes": array.nbytes,
            "sha256": sha256(array.tobytes()).hexdigest(),
        }
        for name, array in reply.arrays.items()
    ]
    metrics = {
        name: {"bytes": len(value), "sha256": sha256(value).hexdigest()}
        if isinstance(value, bytes)
        else without_nan(value)
        for name, value in reply.metrics.items()
    }
    return {
        "sha256": reply.digest,
        "bytes": sum(array.nbytes for array in reply.arrays.values()),
        "arrays": arrays,
        "metrics": metrics,
        "num_examples": num_examples,
    }


def short_head(lines: int, digest: str) -> str:
    """Return a head that can be read out on the telephone: the number of lines and the start of the last digest.

    >>> short_head(12, "3f2a9c0177b1e0d4" + 48 * "0")
    '12-3f2a-9c01-77b1-e0d4'
    """
    return "-".join([str(lines), *(digest[i : i + 4] for i in range(0, 16, 4))])


class EgressLog:
    """The log of one party in its state directory, ``root``. Nothing here removes or changes a line."""

    def __init__(self, root: str | Path, *, party: str) -> None:
        self.party = party
        self.directory = Path(root).expanduser() / "egress" / file_name(party)
        self.path = self.directory / "log.jsonl"
        self.head_path = self.directory / "head.json"

    def append(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Write one line and the head, to the disk, and return the line: these fields, number, time, party and digests.

        Raises `DataError` if the log does not fit its head (code ``ledger-lost``): nothing is written then, and nothing
        may leave. Raises `OSError` if the disk is full, for instance; the log is then as it was.
        """
        make_folder(self.directory)
        with locked(self.directory / "lock", timeout_s=_LOCK_S):
            number, previous, size = self._end()
            line = {
                **fields,
                "version": VERSION,
                "number": number + 1,
                "when": datetime.now(UTC).isoformat(timespec="seconds"),
                "party": self.party,
                "previous": previous,
            }
            line["line"] = _digest(line)
            data = canonical(line) + b"\n"
            self._write(data, size)
            self._write_head(number + 1, str(line["line"]), size, size + len(data))
            return line

    def _write(self, data: bytes, size: int) -> None:
        """Append bytes behind ``size``; what a crash left behind it was never a line."""
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "wb", buffering=0) as file:
            file.truncate(size)
            file.seek(size)
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(file.fileno(), left) :]
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(size)
                raise

    def _write_head(self, lines: int, digest: str, start: int, size: int) -> None:
        head = {"version": VERSION, "party": self.party, "lines": lines, "digest": digest, "start": start, "size": size}
        write_sealed(self.head_path, head)  # syncs the folder, and so the log's name

    def _end(self) -> tuple[int, str, int]:
        """Return the number of lines, the last one's digest, and the bytes of whole lines; only the end is read."""
        if not self.path.exists() and not self.head_path.exists():
            self._write_head(0, _FIRST, 0, 0)  # first, so that a log without a head is one whose head was removed
            return 0, _FIRST, 0
        head, source = _read_head(self.head_path), f"egress log {self.path}"
        if head is None:
            raise _lost(f"head {self.head_path}", "be there", "no such file, and a log")
        if head["party"] != self.party:
            raise _lost(source, f"be of {self.party}", str(head["party"]))
        lines, digest, start, size = int(head["lines"]), str(head["digest"]), int(head["start"]), int(head["size"])
        if (held := self.path.stat().st_size if self.path.exists() else 0) < size:
            rule, seen = f"hold its {lines} lines", f"{held} bytes of {size}: it was rotated, moved or cut"
            way_out = "Put the file back that was moved, and take it out of log rotation: only ever append to it."
            raise _lost(source, rule, seen, f"{way_out} Else: {_WAY_OUT}")
        data = b""
        if held:
            with self.path.open("rb") as file:
                file.seek(start)
                data = file.read()
        if lines and (_read_line(data[: size - start].removesuffix(b"\n")) or {}).get("line") != digest:
            raise _lost(source, f"end with line {lines}, of digest {digest[:16]}", "another end")
        if whole := data[size - start :].split(b"\n")[:-1]:  # the process ended between a line and its head
            line = _read_line(whole[0])
            if len(whole) > 1 or line is None or (line.get("number"), line.get("previous")) != (lines + 1, digest):
                raise _lost(source, f"go on after line {lines}", "lines that do not follow it")
            start, lines, digest, size = size, lines + 1, str(line["line"]), size + len(whole[0]) + 1
            self._write_head(lines, digest, start, size)  # before the next line, or two would be ahead of it
        return lines, digest, size


def last_charged(path: Path) -> str:
    """Return the digest of the last reply with a claim that a log names, "" for none.

    Such a reply was charged before its line was written: a ledger that does not know it is an older copy.
    """
    data = path.read_bytes() if path.exists() else b""
    at = len(data)
    while (at := data.rfind(b'"claim":{', 0, at)) >= 0:
        begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        line = _read_line(data[begin : end if end >= 0 else None])
        if line and line["output"] and isinstance(line["round"], int):
            return str(line["output"]["sha256"])
    return ""


@dataclass(frozen=True)
class ReadLog:
    """A log as it was read."""

    path: Path  # its file
    lines: list[dict[str, Any]]  # its lines, as far as they are JSON
    # what is wrong with it, in whole sentences; none for a log that holds
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what else to know

    @property
    def head(self) -> str:
        """The short form of the last line."""
        return short_head(len(self.lines), str(self.lines[-1].get("line", "")) if self.lines else _FIRST)

    def check_kept(self, kept: str) -> str:
        """Return why the log does not go on from a kept `short_head`, "" if it does; `ConfigError` for none."""
        if not re.fullmatch(r"\d+(-[0-9a-f]{4}){4}", kept):
            raise ConfigError(explain("--head", "be a head as `fedkd node egress verify` prints it", kept))
        number = int(kept.partition("-")[0])
        if number > len(self.lines):
            return f"The kept head {kept} is of line {number}, and the log has {len(self.lines)}: lines were removed."
        found = short_head(number, str(self.lines[number - 1].get("line", "")) if number else _FIRST)
        return "" if found == kept else f"Line {number} has the head {found}, and not {kept}: the log was rewritten."


def read_log(path: Path) -> ReadLog:
    """Read a ``log.jsonl`` with its head, check each line, and take no lock; raises `DataError` if there is neither."""
    head_path = path.with_name("head.json")
    if not path.exists() and not head_path.exists():
        raise DataError(explain(f"egress log {path}", "be there", "no such file", "Give a party's state-dir."))
    found = ReadLog(path, [])
    head: dict[str, Any] | None = {}
    try:  # before the log: a line that is written meanwhile only makes the log longer
        head = _read_head(head_path)
    except DataError as error:
        found.problems.append(str(error))
    previous = _FIRST
    *raws, torn = (path.read_bytes() if path.exists() else b"").split(b"\n")
    for number, raw in enumerate(raws, start=1):
        line = _read_line(raw)
        if line is None:
            found.problems.append(f"Line {number} was altered: its digest is not that of its content.")
            line = {"line": "", "previous": "", "number": number, "unreadable": True}
        elif line.get("previous") != previous or line.get("number") != number:
            found.problems.append(
                f"Line {number} does not follow the one before it: lines were removed, added or put in another order."
            )
        elif head and line.get("party") != head.get("party"):
            found.problems.append(f"Line {number} is of another party, {line.get('party')!r}.")
        previous = str(line.get("line", ""))
        found.lines.append(line)
    if torn:
        found.notes.append("Half a line stands at the end: a process ended while it wrote, and nothing left with it.")
    lines, count = int(head["lines"]) if head else 0, len(raws)
    if head is None:
        found.problems.append(f"The head {head_path} is missing: lines may have been cut off.")
    elif head and lines > count:
        found.problems.append(f"The head names {lines} lines, and there are {count}: lines were cut off at the end.")
    elif lines and found.lines[lines - 1].get("line") != head["digest"]:
        found.problems.append(f"Line {lines} is not the one that the head names: it was replaced.")
    elif head and count > lines + 1:
        found.problems.append(f"The head names {lines} lines, and there are {count}: lines were added without it.")
    elif head and count > lines:
        found.notes.append("The head is one line behind: a process ended, or is writing. That line counts.")
    return found


def egress_logs_in(path: Path) -> list[Path]:
    """Return the egress logs in a state directory, or a folder in it, or the file itself; `DataError` for none."""
    if path.is_file():
        return [path]
    folders = (one for one in (path, *path.glob("*"), *path.glob("egress/*")) if one.parent.name == "egress")
    found = [one / "log.jsonl" for one in folders if any((one / name).exists() for name in ("log.jsonl", "head.json"))]
    if not found:
        way_out = "Give a party's state-dir: fedkd node egress log /srv/st-mary/state"
        raise DataError(explain(f"path {path}", "hold an egress log", "none", way_out))
    return sorted(found)


def _digest(line: Mapping[str, Any]) -> str:
    return sha256(canonical({key: value for key, value in line.items() if key != "line"})).hexdigest()


def _read_line(raw: bytes) -> dict[str, Any] | None:
    """Return a line; None for bytes that this module did not write as they are."""
    try:
        line = json.loads(raw)
        whole = isinstance(line, dict) and canonical(line) == raw and line.get("line") == _digest(line)
    except (ValueError, ConfigError, RecursionError):
        return None
    return line if whole else None


def _read_head(path: Path) -> dict[str, Any] | None:
    """Return a head; None if there is no such file."""
    if not path.exists():
        return None
    try:
        head = read_sealed(path)
        if head.keys() != _HEAD_KEYS or head["version"] != VERSION:
            raise ValueError(f"keys {', '.join(head)}")
    except (OSError, ValueError) as error:
        raise _lost(f"head {path}", "be whole", str(error)) from error
    return head


def _lost(source: str, rule: str, seen: str, way_out: str = _WAY_OUT) -> DataError:
    return DataError(explain(source, rule, seen, way_out), code=Code.LEDGER_LOST)
