"""Rows in none of the known forms are refused."""

import numpy as np
import pytest

import fedkd_flwr as fk
from fedkd_flwr.errors import DataError


@pytest.mark.parametrize("parties", [{"a": 1}, ["a"], [["a", "b"]] * 4])
def test_parties_are_one_name_a_row(parties):
    with pytest.raises(DataError, match="parties must have one name for each of 4 rows"):
        fk.simulate((np.zeros((4, 1)), [0, 1, 0, 1]), parties=parties)


@pytest.mark.parametrize("data", [{}, 3, "no-such-file.csv", np.zeros(3), (np.zeros((2, 1)), [1])])
def test_data_of_another_form_is_refused(data):
    with pytest.raises(DataError):
        fk.simulate(data)
