"""HTML elements as text. Any text that is not already `Html` is escaped when it enters an element."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path

from fedkd_flwr.files import write_atomic
from fedkd_flwr.report.formatting import plain

__all__ = ["STYLE", "Html", "join", "save_document", "table", "tag"]

# A second protection: even if hostile markup were not escaped, the browser would load and run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_EMPTY = frozenset({"meta", "br", "hr"})


class Html(str):
    """Text that is already markup. A plain `str` is always treated as text to escape."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str) -> Html:
    """Return one element. In attribute names a trailing underscore is dropped and other underscores become hyphens.

    >>> tag("p", "a < b", tag("b", "c"), class_="note")
    '<p class="note">a &lt; b<b>c</b></p>'
    """
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(plain(value))}"' for key, value in attributes.items()
    )
    if name in _EMPTY:
        return Html(f"<{name}{pairs}>")
    return Html(f"<{name}{pairs}>{join(children)}</{name}>")


def join(children: Iterable[str]) -> Html:
    """Return the children one after the other; those that are plain text are escaped."""
    return Html("".join(c if isinstance(c, Html) else html.escape(_lines(c)) for c in children))


def _lines(text: str) -> str:
    return "\n".join(plain(line) for line in str(text).split("\n"))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = (), label: str) -> Html:
    """Return a table in a box that scrolls if the table is too large.

    Parameters
    ----------
    header : sequence of str
        The names of the columns.
    rows : iterable of sequences of str
        One cell for each column.
    numbers : iterable of int
        Positions of the columns to align to the right.
    label : str
        The table's name for screen readers.
    """
    right = set(numbers)

    def cell(kind: str, index: int, text: str) -> Html:
        scope = {"scope": "col"} if kind == "th" else {}
        return tag(kind, text, **({"class_": "num"} if index in right else {}), **scope)

    head = tag("thead", tag("tr", *(cell("th", i, text) for i, text in enumerate(header))))
    body = tag("tbody", *(tag("tr", *(cell("td", i, text) for i, text in enumerate(row))) for row in rows))
    return tag("div", tag("table", head, body), class_="box", tabindex="0", role="region", aria_label=label)


def save_document(path: Path, title: str, *parts: Html, reload_s: int = 0) -> Path:
    """Write a complete page that loads no other file, and return its path. An existing page is replaced.

    With ``reload_s`` the browser loads the page again after so many seconds.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="referrer", content="no-referrer"),
        *([tag("meta", http_equiv="refresh", content=str(reload_s))] if reload_s else []),
        tag("title", title),
        tag("style", STYLE),
    )
    text = f'<!DOCTYPE html>\n<html lang="en">\n{head}\n{tag("body", tag("main", *parts))}\n</html>\n'
    # A lone surrogate in a name has no UTF-8 form; "replace" writes a question mark for it.
    return write_atomic(path, text.encode("utf-8", errors="replace"))


STYLE = Html(
    """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--line:#d5dae0;--card:#f5f7f9;--back:#fff;
--bad:#a3280d;--badback:#fdeee9;--warn:#6b4e00;--warnback:#fff6dc;--head:#e9edf1}
@media (prefers-color-scheme:dark){:root{--ink:#e8ebee;--soft:#a5afb9;--line:#3a424b;--card:#20262c;--back:#14181c;
--bad:#ffb4a0;--badback:#40190f;--warn:#f3d98b;--warnback:#372c0b;--head:#2a3138}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{text-wrap:balance;font-size:1.6rem;line-height:1.25;margin:.2rem 0 .6rem}
h2{font-size:1.2rem;margin:2.4rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.6rem 0 .4rem}
h1,h2,p,li,dd{overflow-wrap:anywhere}
.soft,figcaption{color:var(--soft);font-size:.9rem}
.bad,.warn{border-left:4px solid;padding:.6rem .9rem;margin:1rem 0;border-radius:4px}
.bad{color:var(--bad);background:var(--badback)}
.warn{color:var(--warn);background:var(--warnback)}
.warn ul{margin:.2rem 0;padding-left:1.2rem}
.keys{display:grid;grid-template-columns:repeat(auto-fit,minmax(12.5rem,1fr));gap:.7rem;margin:1.2rem 0;padding:0}
.keys div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.7rem .9rem}
.keys dt{font-size:.85rem;color:var(--soft)}
.keys dd{margin:0;font-size:1.3rem;font-weight:650;line-height:1.3}
.keys dd small{display:block;font-size:.82rem;font-weight:400;color:var(--soft)}
progress{width:100%;height:1rem}
figure{margin:1.4rem 0 2rem}
figcaption{margin-top:.5rem}
.plot{background:#fff;border:1px solid var(--line);border-radius:8px;padding:.8rem;overflow-x:auto}
.plot svg{display:block;width:100%;min-width:27rem;height:auto}
.plot svg *{stroke-linejoin:round;stroke-linecap:butt}
.box{overflow:auto;max-height:36rem;border:1px solid var(--line);border-radius:8px;margin:.8rem 0}
table{border-collapse:collapse;width:100%;font-size:.88rem}
th,td{padding:.36rem .55rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
tbody tr:last-child td{border-bottom:0}
th{position:sticky;top:0;background:var(--head);font-weight:600}
td:first-child:not(.num){min-width:6.2rem}
td{max-width:26rem;overflow-wrap:break-word}
.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
th.num{white-space:normal;vertical-align:bottom}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.8rem;overflow:auto;font-size:.85rem}
code{font-family:ui-monospace,SFMono-Regular,Consolas,"Liberation Mono",monospace;font-size:.9em}
@media print{:root{color-scheme:light;--ink:#000;--soft:#444;--line:#bbb;--card:#fff;--back:#fff;--head:#eee;
--bad:#8a1f08;--badback:#fff;--warn:#4d3900;--warnback:#fff}
main{max-width:none;padding:0}.box{max-height:none;overflow:visible}.plot svg{min-width:0}
figure,.keys div,tr{break-inside:avoid}h2{break-after:avoid}th{position:static}pre{white-space:pre-wrap}}
"""
)
