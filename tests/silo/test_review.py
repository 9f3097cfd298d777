"""A decision names one reply that waits, whole; and what was held back stands in the log however often."""

import numpy as np
import pytest

from fedkd_flwr.clients.party import Ask, Leaving
from fedkd_flwr.errors import ConfigError, DataError, RefusalError
from fedkd_flwr.silo.door import SiloDoor
from fedkd_flwr.silo.review import decide, pending
from fedkd_flwr.stores.egress_log import EgressLog, read_log
from fedkd_flwr.stores.held_replies import Decision, Held
from fedkd_flwr.stores.party_state import StoredReply

LABELS = StoredReply(arrays={"labels": np.zeros(3, np.uint8)})


def _door(folder, **asks):
    return SiloDoor(EgressLog(folder, party="a"), run_id="1", approve="always", **asks)


def test_bytes_that_somebody_changed_while_they_waited_are_not_approved_nor_let_out(tmp_path, monkeypatch):
    door = _door(tmp_path)
    facts = {"run": "1", "run_name": "", "round": 1, "party": "a", "since": "2026", "until": "9999"}
    held = door.held.put(LABELS, facts | {"output": {"sha256": "0" * 64}}, None)
    assert pending(tmp_path)[0].path == held.path
    with pytest.raises(DataError, match=r"held reply .* must be the bytes of digest"):
        decide("1", tmp_path, approved=True)
    door.before_rows(Ask(server_round=2, algorithm="fedct", told={}))
    other = Decision(verdict="approved", sha256="0" * 64)
    monkeypatch.setattr(Held, "decision", property(lambda held: other))
    with pytest.raises(RefusalError, match="got 'rejected'"):
        door.let_out(Leaving(reply=LABELS, num_examples=3))


def test_a_decision_names_one_reply_and_a_rejection_its_reason(tmp_path):
    with pytest.raises(ConfigError, match="name one reply that waits, got 0 of them"):
        decide("1", tmp_path, approved=True)
    with pytest.raises(ConfigError, match="--reason must be given with a rejection"):
        decide("1", tmp_path, approved=False)


def test_an_answer_that_was_made_and_held_back_has_a_line_however_often(tmp_path):
    door = _door(tmp_path, within_s=0.0)
    for server_round in range(1, 12):
        door.before_rows(Ask(server_round=server_round, algorithm="fedct", told={}))
        with pytest.raises(RefusalError, match="'expired'"):
            door.let_out(Leaving(reply=LABELS, num_examples=3))
        door.refused("held-back")
    assert len(read_log(door.log.path).lines) == 11
