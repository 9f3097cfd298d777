"""Pages made from jinja2 templates. Whatever text enters a page is escaped by default.

The templates end in ``.md`` because a Flower bundle takes no file that ends in ``.html``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.files import write_atomic
from fedkd_flwr.report.canvas import Plot
from fedkd_flwr.report.formatting import plain

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Table", "drawn", "environment", "save_page"]


class Table(NamedTuple):
    """A table of a page: its name for screen readers, its cells, and the positions of columns that hold numbers."""

    label: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[int] = ()


def _visible(value: Any) -> Any:
    """Replace control characters, but for line breaks, in what is not markup already."""
    return value if hasattr(value, "__html__") else "\n".join(plain(line) for line in str(value).split("\n"))


@functools.cache
def environment(markdown: Callable[[Any], str] | None = None) -> Environment:
    r"""Return the jinja2 environment of the templates: it escapes every value, and a missing name is an error.

    ``markdown`` is what escapes a value in Markdown; without it pages are HTML.

    >>> environment().from_string("<p title='{{ text }}'>{{ text }}</p>").render(text="<b>'\x1b")
    "<p title='&lt;b&gt;&#39;�'>&lt;b&gt;&#39;�</p>"
    """
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=markdown is None,
        finalize=markdown or _visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def save_page(path: Path, template: str, *, title: str, **values: Any) -> Path:
    """Write a complete page that loads no other file, and return its path. An existing page is replaced.

    Raises `OSError` if the file cannot be written.
    """
    text = environment().get_template(template).render(title=title, **values)
    # A lone surrogate in a name has no UTF-8 form; "replace" writes a question mark for it.
    return write_atomic(path, f"{text}\n".encode(errors="replace"))


def drawn(makers: Sequence[Callable[[Any], Plot]], subject: Any) -> tuple[list[Plot], str]:
    """Return the pictures of a subject, or none and how to install what draws them."""
    try:
        return [make(subject) for make in makers], ""
    except MissingExtraError as error:
        return [], str(error)
