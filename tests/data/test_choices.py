"""Words with parameters that say what a label is; those that deal rows are tested in tests/settings/test_config.py."""

import pytest

from fedkd_flwr.data.choices import read_target
from fedkd_flwr.errors import ConfigError


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("numbers", "target must be classes, grades or number, got 'numbers'"),
        ("number(edge=[1])", "parameter of target number must be bins or edges or unit, got 'edge'. Did you mean"),
        ("classes(bins=3)", "parameter of target classes must not be given, got 'bins'"),
        ("number(bins=1)", "bins of target must be a whole number within 2..100, got 1"),
        ("number(edges=['a'])", "edges of target must be numbers"),
        ("number(edges=7)", "edges of target must be a list, got 7"),
        ("grades(order='mild')", "order of target must be a list, got 'mild'"),
        ("grades(unit=3)", "unit of target must be text in quotes, got 3"),
    ],
)
def test_a_word_for_the_label_that_cannot_be_read_is_refused(word, message):
    with pytest.raises(ConfigError, match=message):
        read_target(word)
