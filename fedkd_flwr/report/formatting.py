"""How numbers and foreign text are written in a terminal, the table, the pictures and the pages."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Sequence

__all__ = ["columns", "count", "is_number", "one_line", "plain", "rounds_text", "share", "size", "time_span"]

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def is_number(value: object) -> bool:
    """Tell whether ``value`` is a finite number. A bool, NaN, infinity or text is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def plain(text: object, limit: int = 0) -> str:
    r"""Return text without control characters and those that change the writing direction, of at most ``limit``.

    Party names come from other organisations. They may hold terminal escape codes, or reverse the order of a line. Each
    such character becomes U+FFFD, each tab a space; 0 sets no limit.

    >>> plain("a\x1b[31mb"), plain("a very long name", 8)
    ('a�[31mb', 'a very …')
    """
    kept = str(text).replace("\t", " ")
    if not kept.isprintable():  # nearly all cells of a page are
        kept = "".join("\ufffd" if unicodedata.category(c) in _HIDDEN else c for c in kept)
    return kept if not limit or len(kept) <= limit else kept[: limit - 1] + "…"


def share(value: object, digits: int = 3) -> str:
    """Return a share with ``digits`` decimals, or a dash if ``value`` is not a finite number.

    >>> share(0.91234), share(None)
    ('0.912', '–')
    """
    return f"{value:.{digits}f}" if is_number(value) else "–"


def size(value: object) -> str:
    """Return a number of bytes in B, KB, MB or GB, or a dash if it is not a finite number. 1 KB is 1,000 bytes.

    >>> size(512), size(5_120), size(2_600_000)
    ('512 B', '5.1 KB', '2.6 MB')
    """
    if not is_number(value):
        return "–"
    left = float(value)  # type: ignore[arg-type]
    for unit in ("B", "KB", "MB"):
        if left < 999.5:
            return f"{left:.0f} {unit}" if unit == "B" or left >= 99.95 else f"{left:.1f} {unit}"
        left /= 1000
    return f"{left:.1f} GB"


def time_span(seconds: float) -> str:
    """Return a duration in seconds as text, or a dash if none was recorded (0, or not a finite number).

    >>> time_span(9.04), time_span(95), time_span(0.0)
    ('9.0 s', '1 min 35 s', '–')
    """
    if not is_number(seconds) or seconds <= 0:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 59.95 else "1 min 0 s"
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"


def count(amount: int, one: str, many: str = "") -> str:
    """Return an amount followed by its noun, in the singular or the plural.

    >>> count(1, "party", "parties"), count(3, "round")
    ('1 party', '3 rounds')
    """
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


def rounds_text(rounds: list[int]) -> str:
    """Return round numbers as text, with consecutive ones joined.

    >>> rounds_text([1, 2, 3, 5])
    'rounds 1-3, 5'
    """
    kept = sorted(set(rounds))
    runs = [[r for _, r in run] for _, run in itertools.groupby(enumerate(kept), key=lambda one: one[1] - one[0])]
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    return f"round{'s' if len(kept) > 1 else ''} {', '.join(parts)}"


def one_line(text: object) -> str:
    r"""Return text as one printable line: names come from elsewhere, and a terminal obeys some of them.

    >>> one_line("a\x1b[31mb")
    'a?[31mb'
    """
    return "".join(c if c.isprintable() else "?" for c in str(text))


def columns(rows: Sequence[Sequence[str]], *, left: int | None = None) -> list[str]:
    """Return rows as lines: the first ``left`` columns aligned left, by default all, the others (numbers) right.

    >>> columns([["name", "n"], ["a", "12"]], left=1)
    ['name   n', 'a     12']
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if left is None or i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
