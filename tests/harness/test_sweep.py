import pytest

from benchmarks.harness.sweep import Point
from fedkd_flwr.errors import DataError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": []}, "points must hold at least one point"),
        ({"points": [Point(value=1, epsilon=0.0, accuracies=[0.5])]}, "epsilon of a point must be finite and > 0"),
        ({"points": [Point(value=1, epsilon=1.0, accuracies=[])]}, "accuracies of a point must hold"),
        ({"alone": [1.5]}, r"accuracy must be within \[0, 1\], got 1.5"),
        ({"without_noise": [None]}, r"accuracy must be within \[0, 1\], got None"),
    ],
)
def test_numbers_that_are_not_results_of_a_sweep_are_refused(changes, message, make_sweep):
    with pytest.raises(DataError, match=message):
        make_sweep(**changes)
