"""Where `fedkd choose` keeps a finished run, and how long one takes."""

import os

from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.app.choose_runs import about_seconds, kept_file
from fedkd_flwr.models.given import name_of
from fedkd_flwr.settings.config import parse_run_config

SMALL = {"dataset": "synthetic(rows=100)", "num-parties": 2, "model": "decision-tree"}


def test_a_finished_run_is_found_again_until_a_setting_or_a_file_of_its_rows_changes(tmp_path):
    (tmp_path / "rows.csv").write_text("x,y\n1,a\n")
    table = {**SMALL, "dataset": "table", "table": str(tmp_path / "rows.csv"), "label": "y"}

    def file(**changes):
        return kept_file(parse_run_config({**table, "output-dir": str(tmp_path), **changes}))

    first = file()
    assert file() == first
    assert first.parent == tmp_path / "choose"
    assert file(seed=2) != first
    os.utime(tmp_path / "rows.csv", (1, 1))
    assert file() != first


def test_a_run_whose_model_is_an_object_is_not_kept_because_no_name_tells_its_code(tmp_path):
    config = parse_run_config({**SMALL, "model": name_of(DecisionTreeClassifier()), "output-dir": str(tmp_path)})
    assert kept_file(config) is None


def test_a_run_takes_longer_with_more_rounds_and_fedkt_with_more_teachers(monkeypatch):
    monkeypatch.setattr("time.monotonic", iter(range(99)).__next__)  # each fit takes a second
    fedct = [about_seconds(parse_run_config({**SMALL, "num-rounds": rounds})) for rounds in (1, 3)]
    fedkt = [
        about_seconds(parse_run_config({**SMALL, "algorithm": "fedkt", "fedkt.teachers-per-student": teachers}))
        for teachers in (2, 5)
    ]
    assert fedct == [8.0, 16.0]
    assert fedkt == [16.0, 28.0]
