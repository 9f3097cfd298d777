"""Rows in none of the known forms are refused."""

import numpy as np
import pytest

import fedkd_flwr as fk
from fedkd_flwr.errors import DataError


@pytest.mark.parametrize("data", [{}, 3, "no-such-file.csv", np.zeros(3), (np.zeros((2, 1)), [1])])
def test_data_of_another_form_is_refused(data):
    with pytest.raises(DataError):
        fk.simulate(data)
