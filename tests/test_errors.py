"""What an error may say, and to whom."""

import pytest

from fedkd_flwr import errors
from fedkd_flwr.errors import Code, FedkdError, explain


def _classes():
    return [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, FedkdError)]


@pytest.mark.parametrize("cls", _classes(), ids=lambda c: c.__name__)
def test_every_error_has_a_code_that_may_cross_the_wire(cls):
    assert isinstance(cls("private text").code, Code)


@pytest.mark.parametrize("cls", [c for c in _classes() if c is not FedkdError], ids=lambda c: c.__name__)
def test_every_error_is_a_builtin_one_too_so_that_callers_need_not_know_ours(cls):
    assert issubclass(cls, ValueError | ImportError | PermissionError | RuntimeError)


def test_one_error_s_own_code_leaves_its_class_s_code_alone():
    assert errors.DataError("no file", code=Code.MISSING_FILE).code is Code.MISSING_FILE
    assert errors.DataError("odd rows").code is Code.WRONG_DATA


@pytest.mark.parametrize("code", Code)
def test_a_code_is_one_plain_word_that_cannot_carry_a_value(code):
    assert code.replace("-", "").isalpha()
    assert code == code.lower()


def test_what_a_sender_chose_adds_no_line_to_a_log_and_tells_a_terminal_nothing():
    text = explain("algorithm", "be known", "x \x1b[2J\nERROR: all is well", 'Add "\x07" to allow.')
    assert text == 'algorithm must be known, got x \\x1b[2J\\nERROR: all is well. Add "\\x07" to allow.'
    assert explain("town", "be near", "Köln am Rhein") == "town must be near, got Köln am Rhein."


def test_without_a_way_out_the_message_ends_with_the_value():
    assert explain("seed", "be >= 0", -1) == "seed must be >= 0, got -1."


@pytest.mark.parametrize(
    ("seen", "shown"), [("", "got ''."), ("fedprox", "got 'fedprox'."), ("3 of 5 rows", "got 3 of 5 rows.")]
)
def test_a_bare_word_is_quoted_and_a_phrase_is_not(seen, shown):
    assert explain("algorithm", "be known", seen).endswith(shown)
