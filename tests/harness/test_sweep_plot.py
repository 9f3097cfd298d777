import xml.etree.ElementTree as ET

from pages import texts

from benchmarks.harness.sweep import Point
from benchmarks.harness.sweep_plot import accuracy_against_epsilon


def test_the_picture_says_whom_its_epsilons_are_about_and_is_drawn_to_a_file_as_well(tmp_path, make_sweep):
    plot = accuracy_against_epsilon(make_sweep(), picture=tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert plot.title == "The server's model: 0.713 at epsilon 1, 0.813 at 8, 0.830 without noise"
    shown = " ".join(texts(plot.svg))
    assert "epsilon of one party against all but the server, delta 1e-05 (replace one party; proven)" in shown
    assert {"1", "2", "8"} <= set(shown.split())
    assert "without noise 0.830" in shown
    assert "a party alone (SOLO) 0.670" in shown


def test_epsilons_too_close_to_be_written_beside_each_other_are_left_out_of_the_axis(make_sweep):
    points = [Point(value=e, epsilon=e, accuracies=[0.5]) for e in (1.0, 1.001, 10.0)]
    shown = texts(accuracy_against_epsilon(make_sweep(points=points)).svg)
    assert shown.count("1") == 1
    assert "10" in shown


def test_one_point_and_no_lines_are_drawn_too(make_sweep):
    plot = accuracy_against_epsilon(make_sweep(points=make_sweep().points[:1], without_noise=[], alone=[]))
    ET.fromstring(plot.svg)  # well formed
    shown = texts(plot.svg)
    assert "8" in shown
    assert not [text for text in shown if "without noise" in text or "SOLO" in text]
