"""What leaves for an error, and what stays in the party's own log."""

import errno

import pytest
from federation import rows
from visits import code, fit, of_run

from fedkd_flwr.clients import RefusingClient
from fedkd_flwr.clients.refusals import refusal
from fedkd_flwr.errors import Code, DataError
from fedkd_flwr.privacy.ledger.ledger import Budget


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "database or disk is full", "/srv/state/ledger.sqlite3"), "Make room. Nothing left."),
        (MemoryError("Unable to allocate 9 GiB"), "Give the node more."),
    ],
)
def test_a_machine_without_room_is_one_sentence_in_the_party_s_log_and_a_code_at_the_server(error, said, caplog):
    told = refusal("st-mary", error, Code.WITHHELD)
    assert said in caplog.text
    assert str(error).split("'")[0] in caplog.text
    assert "Traceback" not in caplog.text
    assert told["code"] == "withheld"
    assert "failure" not in told


def test_an_error_that_nobody_expected_says_where_it_arose(caplog):
    def somewhere() -> None:
        raise ZeroDivisionError("division by zero")

    try:
        somewhere()
    except ZeroDivisionError as error:
        refusal("st-mary", error, Code.INTERNAL)
    assert "in somewhere" in caplog.text


def test_a_node_that_cannot_be_set_up_still_answers_with_a_code():
    client = RefusingClient("a", DataError("no file", code=Code.MISSING_FILE))
    assert code(client.fit([], {})) == Code.MISSING_FILE
    assert client.evaluate([], {})[2]["code"] == Code.MISSING_FILE


@pytest.mark.parametrize("rule", [{"require_privacy": True}, {"budget": Budget(epsilon=1.0)}])
def test_a_party_that_requires_privacy_sends_no_bare_labels(rule, tmp_path):
    assert code(fit(of_run(tmp_path, *rows(20, seed=0), **rule))) == Code.PRIVACY_REQUIRED
