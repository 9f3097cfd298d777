"""Readiness: what was found at a silo or a server before a run, and what to do.

`fedkd_flwr.silo.doctor` and `check_link` make the findings; the commands ``fedkd doctor`` and ``fedkd node run`` print
them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any

from fedkd_flwr.errors import FedkdError
from fedkd_flwr.report.formatting import one_line
from fedkd_flwr.stores.files import locked

__all__ = ["Finding", "Level"]
__all__ += ["as_json", "as_text", "check_disk", "exit_code", "fault", "finding_of", "ready", "warning"]


class Level(IntEnum):
    """How bad a finding is; the worst one is the exit code. 2 is that of a command given wrongly."""

    READY = 0
    WARNING = 1
    FAULT = 3


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    subject: str
    what: str  # what was found, in one line
    way_out: str = ""  # what to do: a complete command where there is one; "" where nothing needs to be done
    # whether private rows decided it. Beside a privacy claim such a finding must not show outside of the silo.
    private: bool = False


ready, warning, fault = (partial(Finding, level) for level in Level)


def finding_of(subject: str, error: Exception, way_out: str = "", *, private: bool = False) -> Finding:
    """Return an error as a fault. An error of this package says its way out itself, at its end."""
    text = " ".join(str(error).split()) or type(error).__name__
    known = isinstance(error, FedkdError)
    return fault(subject, text if known else f"{type(error).__name__}: {text}", way_out, private)


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 0 where all is ready, 1 where there are warnings, 3 where there is a fault."""
    return int(max((one.level for one in findings), default=Level.READY))


_WORDS = {Level.READY: "ready", Level.WARNING: "warning", Level.FAULT: "NOT READY"}


def as_text(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings as lines, with what to do.

    >>> print(*as_text([ready("rows", "1,200 rows")]), sep=chr(10))
    ready      rows          1,200 rows
    Ready: 0 faults, 0 warnings; 1 point was looked at.
    """
    for one in findings:
        lines = [(_WORDS[one.level], one.subject, one.what)]
        if one.way_out:
            lines.append(("", "", f"Do: {one.way_out}" if one.level else one.way_out))
        yield from (f"{word:<9}  {subject:<12}  {one_line(' '.join(text.split()))}" for word, subject, text in lines)
    counts = [sum(one.level == level for one in findings) for level in (Level.FAULT, Level.WARNING)]
    faults, warnings = (f"{n} {name}{'s' * (n != 1)}" for n, name in zip(counts, ("fault", "warning"), strict=True))
    looked = f"{len(findings)} point{'s were' if len(findings) != 1 else ' was'} looked at."
    yield f"{'Not ready' if exit_code(findings) == Level.FAULT else 'Ready'}: {faults}, {warnings}; {looked}"


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings as plain values, with the exit code."""
    told = [asdict(one) | {"level": one.level.name.lower()} for one in findings]
    return {"exit_code": exit_code(findings), "findings": told}


_LEAST_BYTES, _FEW_BYTES = 50 * 10**6, 10**9


def check_disk(folder: Path, key: str) -> Finding:
    """Try a lock in the folder that ``key`` names, or in the nearest there is, and look at what is free."""
    place = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    try:
        probe = place / f".fedkd-check-{os.getpid()}"
        try:
            with locked(probe, timeout_s=0.0):
                pass
        finally:
            probe.unlink(missing_ok=True)
        free = shutil.disk_usage(place).free
    except FedkdError as error:
        return finding_of("disk", error)
    except OSError as error:
        way_out = f"Make room there, or give this user the right to write; or set {key} to a folder on another disk."
        return fault("disk", f"{place} cannot be written: {error.strerror or error}", way_out)
    what = f"{free / 1e9:,.1f} GB free for {folder}"
    if free < _FEW_BYTES:
        full = free < _LEAST_BYTES
        what = f"{free / 1e6:,.0f} MB free for {folder}{', which is next to nothing' if full else ''}"
        way_out = f"Make room (`du -xh {place} | sort -h | tail` shows what is large), or set {key} to another disk."
        return Finding(Level.FAULT if full else Level.WARNING, "disk", what, way_out)
    return ready("disk", what)
