"""What a setting's declaration says in words."""

from __future__ import annotations

import pytest

from fedkd_flwr.algorithms.card import Config, setting
from fedkd_flwr.algorithms.setting_texts import docstrings, shown


@pytest.mark.parametrize(
    ("limit", "text"), [(0.125, "0.125"), (2**31, "2^31"), (2**31 - 1, "2.14748e+09"), (2**63, "2^63"), (100, "100")]
)
def test_a_limit_is_written_as_people_write_it(limit, text):
    assert shown(limit) == text


def test_a_meaning_is_the_docstring_below_its_own_setting_on_one_line():
    class Two(Config):
        first: int = setting(1)
        """What the first
        means."""
        second: int = setting(2)

    assert docstrings(Two) == {"first": "What the first means."}
    assert Two.meaning("second") == ""
