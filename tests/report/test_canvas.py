"""What every picture has in common, whatever it shows."""

import sys
import xml.etree.ElementTree as ET

import pytest

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.report import accuracy_plot, rounds_plot
from fedkd_flwr.report.canvas import BLUE


@pytest.mark.parametrize(("draw", "parties"), [(accuracy_plot, 1), (rounds_plot, 100)])
def test_a_plot_of_one_party_or_many_is_one_whole_svg(make_record, draw, parties):
    plot = draw(make_record(parties, 3))
    assert ET.fromstring(plot.svg).tag.endswith("svg")
    assert plot.caption


def test_without_matplotlib_it_says_what_to_install(make_record, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r'pip install "fedkd-flwr\[report\]"'):
        accuracy_plot(make_record(3, 2))


@pytest.mark.parametrize(("draw", "prefix"), [(accuracy_plot, "accuracy-"), (rounds_plot, "rounds-")])
def test_a_picture_has_its_own_ids_the_page_s_colours_and_the_same_bytes_of_the_same_record(make_record, draw, prefix):
    svg = draw(make_record(5, 3)).svg
    assert svg == draw(make_record(5, 3)).svg
    assert "<metadata" not in svg
    root = ET.fromstring(svg)
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids)) > 0
    assert all(i.startswith(prefix) for i in ids)
    for element in root.iter():
        for key, value in element.attrib.items():
            assert "url(#" not in value or value.split("url(#")[1].split(")")[0] in ids
            assert not key.endswith("href") or value[1:] in ids
    styles = [e.get("style", "") for e in root.iter()]
    written = [e.get("style", "") for e in root.iter() if e.tag.endswith("text")]
    assert written
    assert all("fill: currentColor" in style for style in written)
    assert any("var(--blue,#0072b2)" in style for style in styles)
    fixed = ("#222222", "#ffffff", "#dddddd", BLUE)  # which a dark page must change
    assert not [style for style in styles for colour in fixed if f": {colour}" in style]
