"""Replies that wait: a decision is written once, is about certain bytes, and survives what it is about."""

import csv

import numpy as np
import pytest

from fedkd_flwr.errors import Code, ConfigError, DataError
from fedkd_flwr.stores.egress_log import output_of
from fedkd_flwr.stores.held_replies import HeldReplies, held_in
from fedkd_flwr.stores.party_state import StoredReply

REPLY = StoredReply(arrays={"labels": np.arange(3, dtype=np.uint8)})


@pytest.fixture
def replies(tmp_path):
    return HeldReplies(tmp_path / "egress" / "a" / "held")


def _put(replies, server_round=1, run="7", reply=REPLY, until="9999"):
    facts = {"run": run, "round": server_round, "since": f"2026-{server_round}", "until": until}
    return replies.put(reply, {**facts, "output": output_of(reply)}, [["public row", "label"], [0, "red"]])


def test_what_is_held_comes_back_as_it_was_put(replies, tmp_path):
    held = _put(replies)
    (found,) = held_in(tmp_path)
    assert found.table == [["public row", "label"], ["0", "red"]]
    assert found.reply.arrays["labels"].tolist() == [0, 1, 2]
    assert (found.waits, found.decision, found.path) == (True, None, held.path)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in replies.folder.iterdir())


def test_the_first_decision_holds_and_stays_when_its_reply_is_removed(replies):
    held = _put(replies)
    assert held.decide("approved", by="Ada").verdict == "approved"
    assert held.decide("expired").verdict == "approved"
    held.remove()
    assert held_in(replies.folder) == []
    assert replies.decision("7", 1).by == "Ada"


def test_what_nobody_decided_about_stays_until_the_next_reply_is_held_and_may_be_decided_anew(replies):
    held = _put(replies)
    held.decide("expired")
    assert (replies.decision("7", 1), held.waits) == (None, False)
    _put(replies, 2)
    assert [one.facts["round"] for one in held_in(replies.folder)] == [2]
    assert _put(replies, 1).decide("approved").verdict == "approved"


@pytest.mark.parametrize("text", ["", "{}", '{"decision":null,"facts":{"run":"7"}}'])
def test_a_damaged_file_is_named_with_a_way_out_is_no_approval_and_keeps_no_other_reply_from_being_held(replies, text):
    """Whoever holds one has charged it before: it must not fail for an older one."""
    held = _put(replies)
    held.decide("approved")
    held.file("json").write_text(text, encoding="utf-8")
    for read in (lambda: held.decision, lambda: replies.decision("7", 1), lambda: held_in(replies.folder)):
        with pytest.raises(DataError, match=r"held reply .*7-1\.json must be whole, got .* Remove it") as caught:
            read()
        assert caught.value.code is Code.WRONG_CONFIG
    assert _put(replies, 2).waits
    held.file("json").unlink()
    assert [one.facts["round"] for one in held_in(replies.folder)] == [2]
    with pytest.raises(ConfigError, match="state-dir must be a folder"):
        held_in(replies.folder / "none")


def test_what_a_node_held_that_was_killed_while_it_waited_goes_with_the_next_reply(replies):
    """Nobody writes down that the time is over, or removes what was approved meanwhile."""
    _put(replies, until="2026")
    _put(replies, 2).decide("approved")
    _put(replies, 3)
    _put(replies, 4)
    assert [one.facts["round"] for one in held_in(replies.folder)] == [3, 4]  # somebody may still wait for the third
    assert replies.decision("7", 2).verdict == "approved"


def test_an_approval_of_other_bytes_is_forgotten_and_a_rejection_is_not(replies):
    other = StoredReply(arrays={"labels": np.arange(4, dtype=np.uint8)})
    _put(replies).decide("approved")
    assert _put(replies, reply=other).decision is None
    _put(replies, 2).decide("rejected", reason="no")
    assert _put(replies, 2, reply=other).decision.verdict == "rejected"


def test_a_public_set_puts_no_formula_into_the_table_that_a_steward_opens_in_a_spreadsheet(replies):
    table = [["public row", "label"], [0, '=HYPERLINK("x")'], [-1, "@sum"], [1, "-1e3"]]
    held = replies.put(REPLY, _put(replies).facts, table)
    assert held.table[1:] == [["0", '\'=HYPERLINK("x")'], ["-1", "'@sum"], ["1", "-1e3"]]


def test_a_public_text_of_any_length_can_be_shown_to_a_steward(replies):
    csv.field_size_limit(131_072)  # Python's default
    facts = _put(replies).facts
    assert replies.put(REPLY, facts, [["public row", "report"], [0, "a" * 200_000]]).table[1][1] == "a" * 200_000
