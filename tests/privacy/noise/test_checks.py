"""What mechanisms take for votes and labels, to the last row and column."""

from dataclasses import dataclass

import numpy as np
import pytest

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.noise.checks import MOST_CLASSES, check_reports, check_votes, set_number, set_whole


@dataclass(frozen=True)
class _Mechanism:
    scale: float
    votes: int


def test_a_checked_field_is_kept_as_a_plain_number():
    noise = _Mechanism(scale=np.float32(0.5), votes=np.int64(3))
    set_number(noise, "scale", least=0.5, most=0.5)
    set_whole(noise, "votes", 3, 3)
    assert (type(noise.scale), type(noise.votes)) == (float, int)
    assert noise == _Mechanism(0.5, 3)
    with pytest.raises(ConfigError, match=r"scale must be finite and > 0\.5, got 0\.5"):
        set_number(noise, "scale", above=0.5)
    with pytest.raises(ConfigError, match=r"votes must be a whole number >= 4, got 3"):
        set_whole(noise, "votes", 4)
    with pytest.raises(ConfigError, match=r"votes must be a whole number within 1\.\.2, got 3"):
        set_whole(noise, "votes", 1, 2)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_votes_come_back_as_int64_up_to_the_largest_that_leaves_room_for_noise(dtype):
    counts = check_votes(np.array([[0, 7], [2, 0]], dtype=dtype))
    assert (counts.dtype, counts.tolist()) == (np.int64, [[0, 7], [2, 0]])
    assert check_votes(np.array([[2**40, 0]])).max() == 2**40
    with pytest.raises(DataError, match=r"counts must lie within 0\.\.1099511627776, got 1099511627777"):
        check_votes(np.array([[2**40 + 1, 0]]))


def test_as_many_classes_as_labels_have_room_for():
    assert check_votes(np.zeros((1, MOST_CLASSES), dtype=np.int8)).shape == (1, 32767)
    with pytest.raises(DataError, match="counts must have at most 32767 classes, got 32768"):
        check_votes(np.zeros((1, MOST_CLASSES + 1), dtype=np.int8))


@pytest.mark.parametrize(
    ("counts", "reports", "match"),
    [
        *((wrong, 5, r"counts must have shape \(rows, classes\) with") for wrong in ([1, 2], [[1], [2]], [[[1, 2]]])),
        ([[0, 0]], -1, "num_reports must be a whole number >= 0, got -1"),
        ([[-3, 9]], 5, r"counts must lie within 0\.\.5, got -3"),
        ([[1, 6]], 5, r"counts must lie within 0\.\.5, got 6"),
    ],
)
def test_what_is_no_table_of_reports_is_refused_and_what_breaks_the_rule_is_named(counts, reports, match):
    with pytest.raises(DataError, match=match):
        check_reports("counts", np.array(counts), 2, reports)
    assert check_reports("counts", np.array([[0, 5]]), 2, 5).tolist() == [[0, 5]]
