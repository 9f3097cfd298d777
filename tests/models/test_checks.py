"""What goes into a model and comes out of it is refused unless it has the right shape, type and values."""

import numpy as np
import pytest

from fedkd_flwr.errors import Code, DataError
from fedkd_flwr.models._checks import check_answers, check_probabilities, check_text_rows


@pytest.mark.parametrize(
    ("value", "kind"), [(None, "NoneType"), (3, "int"), (float("nan"), "float"), (b"a", "bytes"), (["a"], "list")]
)
def test_what_is_no_text_is_refused_with_its_row_and_type(value, kind):
    rows = np.array([["a"], ["b"], ["c"], ["d"]], dtype=object)
    rows[1, 0] = rows[3, 0] = value
    with pytest.raises(DataError, match=rf"^X must hold texts, got {kind} at row 1 \(2 such rows\)\."):
        check_text_rows("X", rows)


def test_rows_of_probabilities_are_divided_by_their_sum_where_it_is_not_one():
    given = np.array([[1.0, 1.0], [0.25, 0.7501], [0.0, 3.0]])
    probs, uneven = check_probabilities(given, 3, 2)
    assert probs.tolist() == [[0.5, 0.5], [0.25, 0.7501], [0.0, 1.0]]
    assert uneven == 2


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ([0.0, 0.0], r"be >= 0, and not all 0 in a row, got \[0\.0, 0\.0\] at row 1 \(1 such rows\)\. f returned them"),
        ([-1.0, 2.0], r"be >= 0, .*\[-1\.0, 2\.0\] at row 1"),
        ([1e308, 1e308], "at row 1"),
        ([np.nan, 1.0], r"be finite, got \[nan, 1\.0\] at row 1 .* f returned them"),
    ],
)
def test_rows_without_probabilities_are_the_models_mistake(row, match):
    with pytest.raises(DataError, match=match) as caught:
        check_probabilities(np.array([[0.5, 0.5], row]), 2, 2, source="f")
    assert caught.value.code is Code.WRONG_MODEL_OUTPUT


def test_rows_of_another_shape_or_type_and_no_rows_are_refused():
    strange = np.zeros((2, 1)), np.array(["a", "b"]), np.array([["a", "b"]]), np.array([[["a"]]]), np.array([[b"a"]])
    for rows in strange:
        with pytest.raises(DataError, match=r"^X must hold one text per row, shape \(rows, 1\), got "):
            check_text_rows("X", rows)
    none = np.empty((0, 1), dtype=object)
    assert check_text_rows("X", none, allow_empty=True).shape == (0, 1)
    with pytest.raises(DataError, match="at least one row") as caught:
        check_text_rows("X", none)
    assert caught.value.code is Code.NO_ROWS


def test_answers_are_whole_numbers_of_classes_one_a_row():
    for answers in ([0, 2, 1], [0.0, 2.0, 1.0], np.array([0, 2, 1], dtype=np.uint8)):
        assert check_answers(answers, 3, 3).tolist() == [0, 2, 1]
    for shape in ((3, 1), (1, 3), (2,), (4,), (), (3, 3)):
        with pytest.raises(DataError, match=r"labels must have shape \(3,\), got "):
            check_answers(np.zeros(shape, dtype=np.int64), 3, 2)
    for answers, seen in (([0, 3, 1], "3"), ([0, -1, 5], "-1"), ([0.5, 1, 0], r"0\.5"), ("abc", "a")):
        with pytest.raises(DataError, match=rf"labels must be integers within 0\.\.2, got .*{seen}"):
            check_answers(list(answers), 3, 3)
