"""Text for a terminal: foreign text as one line, and rows whose columns stand under each other."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["columns", "one_line"]


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
