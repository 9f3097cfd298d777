"""The pictures of docs/understand/votes.md show the figures on record."""

import re

import pytest
from scripts import ROOT, script


@pytest.fixture(scope="module")
def pictures():
    return script("docs/vote_pictures.py")


def _texts(path):
    """Return the texts of a picture: rows, rules, lies and their figures. Where they stand differs with fonts."""
    return re.findall(r"<text [^>]*>([^<]*)</text>", path.read_text())


@pytest.mark.parametrize("name", ["votes", "liars"])
def test_a_picture_in_the_docs_is_what_the_figures_on_record_draw(pictures, tmp_path, name):
    pytest.importorskip("matplotlib")
    {"votes": pictures.draw_rules, "liars": pictures.draw_liars}[name](tmp_path / "new.svg")
    texts = _texts(tmp_path / "new.svg")
    assert texts == _texts(ROOT / "docs" / "pictures" / f"{name}.svg"), "Run: python docs/vote_pictures.py"
    assert sum(bool(re.search(r"0\.\d\d$", text)) for text in texts) >= 15
