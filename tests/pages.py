"""Reads a written page: its tags, ids, references and visible text. Checks that the page loads nothing else."""

import xml.etree.ElementTree as ET
from html.parser import HTMLParser

from fedkd_flwr.report import write_page

VOID = {"meta", "br", "hr", "link", "img", "input"}
REFERENCES = {"src", "href", "xlink:href", "action", "data", "srcset", "poster", "formaction", "background"}


class Page(HTMLParser):
    """The tags, ids and visible text of a page. A tag that is left open or closed twice is an error."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.references, self.handlers, self.open, self.words = [], [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.append(value)
            if key in REFERENCES:
                self.references.append(value)
            if key.startswith("on") or "javascript:" in (value or ""):
                self.handlers.append((key, value))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words.append(data)


def written(record, tmp_path, **options):
    path = write_page(record, tmp_path / "report.html", **options)
    return path.read_text(encoding="utf-8")


def check_safe_and_alone(text):
    page = Page(text)
    assert not {"script", "img", "iframe", "link", "object", "embed", "form", "base"} & set(page.tags)
    assert page.handlers == []
    assert all(r.startswith("#") for r in page.references)
    assert len(page.ids) == len(set(page.ids))
    assert "@import" not in text
    assert "url(" not in text.replace("url(#", "")
    return page


def texts(svg):
    return [e.text for e in ET.fromstring(svg).iter() if e.tag.endswith("text") and e.text]
