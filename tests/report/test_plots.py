import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from pages import texts

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.report import facts
from fedkd_flwr.report.plots import accuracy_plot, bytes_plot, rounds_plot

EVERY = [accuracy_plot, rounds_plot, bytes_plot]


@pytest.mark.parametrize("draw", EVERY)
@pytest.mark.parametrize("parties", [1, 5, 10, 50, 100])
def test_every_plot_is_one_whole_svg(make_record, draw, parties):
    plot = draw(make_record(parties, 3))
    assert ET.fromstring(plot.svg).tag.endswith("svg")
    assert plot.caption


@pytest.mark.parametrize("draw", EVERY)
def test_the_same_record_gives_the_same_bytes(make_record, draw):
    svg = draw(make_record(5, 3)).svg
    assert svg == draw(make_record(5, 3)).svg
    assert "<metadata" not in svg


@pytest.mark.parametrize("draw", EVERY)
def test_every_id_and_reference_has_the_prefix(make_record, draw):
    root = ET.fromstring(draw(make_record(5, 3), prefix="here").svg)
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids)) > 0
    assert all(i.startswith("here-") for i in ids)
    for element in root.iter():
        for key, value in element.attrib.items():
            if "url(#" in value:
                assert value.split("url(#")[1].split(")")[0] in ids
            if key.endswith("href"):
                assert value[1:] in ids


def test_settings_of_matplotlib_are_as_before(make_record):
    import matplotlib

    before = dict(matplotlib.rcParams)
    accuracy_plot(make_record(3, 2))
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_few_parties_are_named_worst_alone_lowest(make_record):
    record = make_record(10, 2)
    shown = [t for t in texts(accuracy_plot(record).svg) if t.startswith("party-")]
    assert shown == [p.name for p in sorted(record.parties, key=lambda p: p.solo["common"])]


def test_many_parties_stand_side_by_side_without_names(make_record):
    shown = texts(accuracy_plot(make_record(100, 2)).svg)
    assert not [t for t in shown if t.startswith("party-")]
    assert any("100 parties" in t for t in shown)


def test_reference_lines_are_labelled_with_their_values(make_record):
    shown = texts(accuracy_plot(make_record(5, 1, algorithm="fedkt")).svg)
    assert "server's model 0.893" in shown
    assert "centralised 0.934" in shown


def test_a_party_that_lost_is_not_counted_as_gaining(make_record):
    record = make_record(5, 2)
    record.parties[0].federated["common"] = record.parties[0].solo["common"] - 0.05
    plot = accuracy_plot(record)
    assert "4 of 5 parties gain" in plot.title
    assert "#d55e00" in plot.svg.lower()


def test_one_round_is_a_sentence_not_a_plot(make_record):
    plot = rounds_plot(make_record(5, 1, algorithm="fedkt"))
    assert plot.svg == ""
    assert "one round" in plot.caption


def test_rounds_without_accuracy_keep_the_votes_panel(make_record):
    record = make_record(5, 3)
    for r in record.rounds:
        r.accuracy, r.consensus_accuracy = {}, None
    plot = rounds_plot(record)
    assert "agreement with the consensus" in texts(plot.svg)
    assert "mean of the parties" not in texts(plot.svg)


def test_a_value_missing_in_one_round_leaves_a_gap(make_record):
    record = make_record(5, 4)
    record.rounds[1].agreement = None
    record.rounds[2].agreement = float("nan")
    assert rounds_plot(record).svg


def test_a_falling_accuracy_is_called_falling(make_record):
    record = make_record(5, 2)
    record.rounds[1].accuracy = {"party-000": 0.1}
    assert "falls from" in rounds_plot(record).title


def test_bytes_are_written_plainly_beside_fedavg(make_record):
    plot = bytes_plot(make_record(5, 3, model="cnn"))
    shown = texts(plot.svg)
    assert {"5.1 KB", "590 B", "2.6 MB", "the model (FedAvg), up"} <= set(shown)
    assert "FedAvg of the same model" in plot.title


def test_the_ratio_in_the_title_is_model_bytes_over_label_bytes(make_record):
    record = make_record(4, 1, model="mlp")
    record.rounds[0].bytes_up, record.rounds[0].bytes_down = 4 * 5_000, 4 * 5_000
    assert bytes_plot(record).title == "Labels need 520 times fewer bytes than FedAvg of the same model"


def test_labels_heavier_than_a_small_model_are_said_to_be(make_record):
    record = make_record(5, 1, model="logistic-regression")
    for party in record.parties:
        party.model_bytes = 1_000
    assert "2.6 times as many bytes" in bytes_plot(record).title


def test_trees_are_shown_as_the_model_itself(make_record):
    plot = bytes_plot(make_record(5, 3, model="decision-tree"))
    assert "the model itself, up" in texts(plot.svg)
    assert "FedAvg does not exist for these models" in plot.caption


def test_mixed_models_have_no_fedavg(make_record):
    record = make_record(2, 1, model="mlp")
    record.parties[1].model = "cnn"
    assert facts.model_sharing(record) == (2_600_000, False)


def test_nothing_recorded_is_said_three_times(failed_record):
    failed_record.rounds = []
    assert [draw(failed_record).svg for draw in EVERY] == ["", "", ""]


def test_a_hostile_name_is_drawn_as_text(hostile_record, hostile):
    root = ET.fromstring(accuracy_plot(hostile_record).svg)
    assert not [e for e in root.iter() if e.tag.endswith("script")]
    assert any(t.startswith("<script>") for t in texts(accuracy_plot(hostile_record).svg))


@pytest.mark.parametrize("name", ["工厂", r"$\frac{$", "a" * 500, "\u0000\u202e", "", "<!-- -->", 'id="a" url(#b)'])
def test_no_name_breaks_the_drawing(make_record, name):
    record = make_record(2, 1)
    record.parties[0].name = name
    ET.fromstring(accuracy_plot(record).svg)


def test_without_matplotlib_it_says_what_to_install(make_record, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r'pip install "fedkd-flwr\[report\]"'):
        accuracy_plot(make_record(3, 2))


@pytest.mark.parametrize("line", ["import fedkd_flwr.report", "import fedkd_flwr.report, matplotlib"])
def test_importing_the_room_imports_no_matplotlib(line):
    code = f"{line}\nimport sys\nsys.exit(any(m in sys.modules for m in ('matplotlib', 'flwr', 'torch')))"
    found = subprocess.run([sys.executable, "-c", code], check=False).returncode
    assert found == (1 if "matplotlib" in line else 0)  # the second line shows that the first can fail
