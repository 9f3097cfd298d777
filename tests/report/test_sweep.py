import json

import pytest

from fedkd_flwr.errors import DataError
from fedkd_flwr.report.sweep import Sweep


def test_a_sweep_reads_back_as_it_was(tmp_path, make_sweep):
    (tmp_path / "s.json").write_text(make_sweep().to_json())
    assert Sweep.load(tmp_path / "s.json") == make_sweep()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": []}, "points must hold at least one point"),
        ({"points": [{"value": 1, "epsilon": None, "accuracies": [0.5]}]}, "epsilon of a point must be finite and > 0"),
        ({"points": [{"value": 1, "epsilon": 0.0, "accuracies": [0.5]}]}, "epsilon of a point must be finite and > 0"),
        ({"points": [{"value": 1, "epsilon": True, "accuracies": [0.5]}]}, "epsilon of a point must be finite and > 0"),
        ({"points": [{"value": 1, "epsilon": 1.0, "accuracies": []}]}, "accuracies of a point must hold"),
        ({"points": [{"value": 1, "epsilon": 1.0, "accuracies": 0.5}]}, "accuracies of a point must be a list"),
        ({"points": [{"epsilon": 1.0}]}, "a point must have value, epsilon and accuracies"),
        ({"alone": [1.5]}, r"accuracy must be within \[0, 1\], got 1.5"),
        ({"without_noise": [None]}, r"accuracy must be within \[0, 1\], got None"),
        ({"claim": "none"}, "sweep: claim must be a dict"),
        ({"colour": 1}, "sweep must be an object with the fields"),
    ],
)
def test_a_file_that_is_not_the_results_of_a_sweep_is_refused(changes, message, make_sweep):
    with pytest.raises(DataError, match=message):
        Sweep.from_dict(json.loads(make_sweep().to_json()) | changes)


@pytest.mark.parametrize("text", ["", "[", '"text"', "[1]"])
def test_a_damaged_file_is_refused(tmp_path, text):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(DataError, match="sweep must be"):
        Sweep.load(tmp_path / "s.json")
