"""The pictures of docs/understand/votes.md show the figures on record."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("vote_pictures", ROOT / "docs" / "vote_pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def test_the_worst_lie_is_that_of_the_figures(pictures):
    found = json.loads((ROOT / "benchmarks" / "results" / "liars.json").read_text())["found"]["a9a, 0.1"]
    shown = dict(pictures.worst_lies())["Adult, 0.1"]["density-ratio"]
    means = {
        attack: sum(seed[attack]["density-ratio"]["right auto"] for seed in found.values()) / len(found)
        for attack in next(iter(found.values()))
        if "density-ratio" in next(iter(found.values()))[attack]
    }
    assert shown == (pytest.approx(means["none"]), pytest.approx(min(means.values())), "together")


def test_every_federation_of_the_table_is_drawn_with_what_auto_takes(pictures):
    rows = pictures.vote_rows(ROOT)
    assert len(rows) == 15
    assert {auto for _, _, auto in rows} == {"density-ratio", "dawid-skene"}
    assert all(
        0 <= means[rule][0] <= 1 for _, means, _ in rows for rule in ("majority", "dawid-skene", "density-ratio")
    )
