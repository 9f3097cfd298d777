"""Checks refuse everything but what they name, and say name, rule and value."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.checks import check_choice, check_number, check_whole, meant, number_rule, read_word, split_words
from fedkd_flwr.errors import ConfigError, DataError

ENDS = st.one_of(st.integers(-5, 5), st.floats(-5, 5))
OTHERS = [True, False, np.True_, None, "1", "", b"1", [1], {}, 1j, np.array([1, 2]), math.nan, object()]


@given(st.integers(-20, 20), st.integers(-5, 5), st.none() | st.integers(-5, 5))
def test_a_whole_number_passes_within_its_range_alone(value, least, most):
    for kind in (int, np.int64):
        if least <= value and (most is None or value <= most):
            assert type(check_whole("rounds", kind(value), least, most)) is int
        else:
            with pytest.raises(ConfigError, match=r"^rounds must be a whole number "):
                check_whole("rounds", kind(value), least, most)


@pytest.mark.parametrize("value", [*OTHERS, 1.0, np.float64(1.0), math.inf])
def test_nothing_else_is_a_whole_number(value):
    with pytest.raises(ConfigError, match=r"^rounds must be a whole number >= 1, got "):
        check_whole("rounds", value, 1)


@given(st.floats(-10, 10) | st.integers(-10, 10), ENDS, ENDS, ENDS, ENDS)
def test_a_number_passes_within_its_range_alone(value, least, above, most, below):
    ends = {"least": least, "above": above, "most": most, "below": below}
    if least <= value <= most and above < value < below:
        assert check_number("share", value, **ends) == value
    else:
        with pytest.raises(ConfigError, match=r"^share must be "):
            check_number("share", value, **ends)


@pytest.mark.parametrize("value", [*OTHERS, math.inf, -math.inf, 10**400])
def test_nothing_else_is_a_number(value):
    with pytest.raises(ConfigError, match=r"^share must be a finite number, got "):
        check_number("share", value)


@pytest.mark.parametrize(
    ("ends", "rule"),
    [
        ({}, "be a finite number"),
        ({"least": 0}, "be finite and >= 0"),
        ({"above": 0}, "be finite and > 0"),
        ({"most": 2}, "be finite and <= 2"),
        ({"below": 2}, "be finite and < 2"),
        ({"least": 0, "most": 1}, "be within [0, 1]"),
        ({"above": 0, "most": 1}, "be within (0, 1]"),
        ({"least": 0, "below": 1}, "be within [0, 1)"),
        ({"above": 0, "below": 0.5}, "be within (0, 0.5)"),
        ({"least": 1, "above": 0}, "be finite and >= 1"),
        ({"least": 0, "above": 0}, "be finite and > 0"),
    ],
)
def test_the_rule_names_the_ends_that_bind_and_whether_they_are_in(ends, rule):
    assert number_rule(**ends) == rule


def test_a_choice_is_one_of_them_and_of_the_same_type():
    assert check_choice("ties", "lowest", ("random", "lowest")) == "lowest"
    assert check_choice("bits", 16, (16, 32)) == 16
    for value, choices in (("first", ("random", "lowest")), (True, (1, 2)), (16.0, (16, 32))):
        with pytest.raises(ConfigError, match=rf"^ties must be one of {choices[0]}, {choices[1]}, got {value!r}\.$"):
            check_choice("ties", value, choices)


@pytest.mark.parametrize("value", [0, 1, np.True_, None, "true"])
def test_only_true_and_false_are_flags(value):
    assert check_choice("freeze", False, (True, False)) is False
    with pytest.raises(ConfigError, match=r"^freeze must be true or false, got "):
        check_choice("freeze", value, (True, False))


def test_a_mistyped_choice_is_answered_with_the_nearest_one():
    with pytest.raises(ConfigError, match=r"got 'randm'\. Did you mean random\?$"):
        check_choice("ties", "randm", ("random", "lowest"))
    assert meant("random" + 10**6 * "m", ("random",)) == ""  # in no time
    assert meant("x", ("random",), "Drop it.") == meant(1, ("random",), "Drop it.") == "Drop it."


@pytest.mark.parametrize("check", [check_whole, check_number])
def test_the_caller_chooses_the_error_and_the_way_out(check):
    with pytest.raises(DataError, match=r"got 'no'\. Use another\.$"):
        check("x", "no", error=DataError, way_out="Use another.")
    with pytest.raises(DataError, match="x must be one of yes, got 'no'"):
        check_choice("x", "no", ("yes",), error=DataError)


@pytest.mark.parametrize(
    ("word", "read"),
    [
        ("knn", ("knn", {})),
        ("my.module:make()", ("my.module:make", {})),
        ("a(b=1, c=-2.5, d=True, e=None, f='x, (y')", ("a", {"b": 1, "c": -2.5, "d": True, "e": None, "f": "x, (y"})),
        ("a(b=[[1], {'c': 2}])", ("a", {"b": [[1], {"c": 2}]})),
    ],
)
def test_a_word_holds_a_name_and_plain_values(word, read):
    assert read_word("model", word) == read


@pytest.mark.parametrize(
    "inside",
    ["1", "a=1, a=2", "**{'a': 1}", "a=b", "a=(1, 2)", "a={1}", "a=b'c'", "a=1j", "a=open('x')", "a=1)(b=2", "a=",
     "a=" + "-" * 100_000 + "1", "a=" + "[" * 100_000, "a=" + "9" * 5_000],
)  # fmt: skip
def test_a_word_with_anything_else_is_refused(inside):
    with pytest.raises(ConfigError, match="model must be a name, or a name with parameters as Python writes them, got"):
        read_word("model", f"m({inside})")


def test_many_words_are_split_in_no_time_and_brackets_keep_theirs_together():
    assert split_words("a(b=[1, 2], c={3: 4}), d:e") == ["a(b=[1, 2], c={3: 4})", "d:e"]
    assert len(split_words("a," * 100_000)) == 100_001
