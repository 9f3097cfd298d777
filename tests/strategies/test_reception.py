"""Who may speak for which party, and what is remembered of it."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from federation import SCHEMA
from flwr.proto.node_pb2 import NodeInfo

from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.record.run_record import Rejection
from fedkd_flwr.strategies import FedCT, FedCTConfig, PartyLabels
from fedkd_flwr.strategies.reception import Reception, believed_names, registered_names
from fedkd_flwr.wire.label_codec import PublicSpec, digest, encode_labels
from fedkd_flwr.wire.records import Reply

SPEC = PublicSpec(num_public=4, num_classes=3, fingerprint="ab" * 32)
LABELS = np.array([[0, 1, 2, 2]], dtype=np.int16)


def _reply(node=1, party="a", labels=LABELS, server_round=1, **changes):
    arrays = {"labels": encode_labels(labels, public=SPEC, server_round=server_round, base=changes.pop("base", None))}
    return Reply(**{"node_id": node, "party": party, "arrays": arrays, **changes})


class _Desk:
    """FedCT's reception, and what it tells a node."""

    def __init__(self):
        X = np.zeros((4, 2), dtype=np.float32)
        public = PublicSet(X=X, fingerprint="ab" * 32, schema=SCHEMA, preprocessor=None)
        self.strategy = FedCT(config=FedCTConfig(consensus="majority"), public=public)
        self.reception = self.strategy.roster.reception
        self.party_of, self.silent = self.reception.party_of, self.reception.silent

    def known(self, node):
        last = self.reception.last_round.get(self.party_of.get(node, ""), 0)
        return {"last-round": last, **self.strategy.exchange.told(node, 1)}


@pytest.fixture
def desk():
    return _Desk()


def _accept(desk, reply, server_round=1):
    return desk.reception.accept(reply, desk.strategy.exchange.read, server_round=server_round)


def test_a_valid_reply_binds_the_name_to_the_node(desk):
    answer = _accept(desk, _reply())
    assert isinstance(answer, PartyLabels)
    assert np.array_equal(answer.labels, LABELS)
    assert answer.changed_share is None
    assert desk.party_of == {1: "a"}


def test_a_second_node_with_the_same_name_is_turned_away(desk):
    _accept(desk, _reply(node=1))
    assert _accept(desk, _reply(node=2)) == Rejection(party="a", node_id="2", code="duplicate-name")


def test_a_node_that_changes_its_name_is_turned_away(desk):
    _accept(desk, _reply(node=1))
    assert _accept(desk, _reply(node=1, party="b"), 1) == Rejection(party="a", node_id="1", code="node-changed-name")


def test_a_refusal_under_a_name_that_another_node_has_is_written_down_for_nobody(desk):
    """Who it comes from is not known here: a silo without its state-dir, or somebody who would harm the party."""
    _accept(desk, _reply(node=1))
    refused = Reply(node_id=2, party="a", code="budget-exceeded")
    assert _accept(desk, refused) == Rejection(party="", node_id="2", code="budget-exceeded")


def test_a_node_with_a_registered_name_that_says_nothing_is_called_by_it(desk):
    desk.reception.registered = {3: "c"}
    assert desk.silent([3], set()) == [Rejection(party="c", node_id="3", code="no-reply")]
    assert desk.reception.names_of(3) == ["c"]


def test_an_invalid_first_reply_does_not_reserve_the_name(desk):
    assert isinstance(_accept(desk, _reply(node=1, server_round=9)), Rejection)
    assert isinstance(_accept(desk, _reply(node=2)), PartyLabels)


def test_a_rejected_second_speaker_changes_nothing_of_what_is_held(desk):
    _accept(desk, _reply(node=1))
    before = desk.known(1)
    _accept(desk, _reply(node=2, labels=LABELS[:, ::-1]))
    assert desk.known(1) == before


def test_a_reply_that_came_with_a_code_keeps_it_and_the_text_goes_to_the_log(desk, caplog):
    with caplog.at_level(logging.WARNING, logger="flwr"):
        assert _accept(desk, _reply(code="no-rows")) == Rejection(party="a", node_id="1", code="no-rows")
    assert "no-rows" in caplog.text


def test_a_node_that_crashes_later_is_named_by_what_it_was_called_before(desk):
    _accept(desk, _reply())
    crashed = Reply(node_id=1, party="", code="party-crashed")
    assert _accept(desk, crashed, 2) == Rejection(party="a", node_id="1", code="party-crashed")


def test_a_reply_without_labels_is_turned_away(desk):
    reply = Reply(node_id=1, party="a", arrays={"probs": np.zeros(4)})
    assert _accept(desk, reply).code == "bad-payload"


def test_a_node_is_told_its_last_round_and_the_base_held_of_it(desk):
    assert desk.known(1) == {"last-round": 0}
    _accept(desk, _reply(server_round=3), 3)
    assert desk.known(1) == {"last-round": 3, "base": digest(LABELS).hex()}
    assert desk.known(2) == {"last-round": 0}


def test_notes_travel_as_codes(desk):
    assert _accept(desk, _reply(metrics={"notes": "one-class,,state-lost"})).notes == ("one-class", "state-lost")


def test_whoever_was_asked_and_did_not_answer_is_named(desk):
    _accept(desk, _reply(node=1))
    assert desk.silent([1, 2, 3], {3}) == [
        Rejection(party="a", node_id="1", code="no-reply"),
        Rejection(party="", node_id="2", code="no-reply"),
    ]


def test_a_silo_that_comes_back_as_another_node_is_known_by_its_node_secret(desk):
    shown = {"metrics": {"node-proof": "ab" * 32}}
    _accept(desk, _reply(node=1, **shown))
    assert _accept(desk, _reply(node=2, **shown)).code == "duplicate-name"  # both in one round: one silo votes once
    back = _accept(desk, _reply(node=2, server_round=2, **shown), server_round=2)
    assert isinstance(back, PartyLabels)
    assert desk.party_of == {2: "a"}
    assert desk.reception.replaced == {1}


@pytest.mark.parametrize("shown", ["", "cd" * 32, 7])
def test_whoever_shows_another_node_secret_is_turned_away_and_told_how_to_come_back(desk, caplog, shown):
    _accept(desk, _reply(node=1, metrics={"node-proof": "ab" * 32}))
    with caplog.at_level(logging.WARNING, logger="flwr"):
        refused = _accept(desk, _reply(node=2, server_round=2, metrics={"node-proof": shown}), server_round=2)
    assert refused.code == "duplicate-name"
    assert "it must keep its state-dir, or have a registered node key" in caplog.text
    assert desk.party_of == {1: "a"}


def _continued(desk):
    """Let a run go on from one in which node 1 has shown a node secret as party a."""
    desk.reception.proofs["a"], desk.reception.earlier[1] = "ab" * 32, "a"
    return desk


@pytest.mark.parametrize("shown", ["", "cd" * 32, 7])
def test_in_a_run_that_goes_on_no_other_node_answers_for_a_party_without_its_node_secret(desk, shown):
    """Whose reply comes first decides, and so the party itself would be turned away as a second node."""
    _continued(desk)
    taken = _reply(node=7, server_round=2, metrics={"node-proof": shown})
    assert _accept(desk, taken, server_round=2) == Rejection(party="a", node_id="7", code="duplicate-name")
    own = _reply(node=9, server_round=2, metrics={"node-proof": "ab" * 32})
    assert isinstance(_accept(desk, own, server_round=2), PartyLabels)


@pytest.mark.parametrize("known_by", ["its node", "its key's name"])
def test_in_a_run_that_goes_on_a_party_that_kept_its_node_or_its_key_needs_no_node_secret(desk, known_by):
    node = 1 if known_by == "its node" else 7
    _continued(desk).reception.registered = {} if node == 1 else {7: "a"}
    assert isinstance(_accept(desk, _reply(node=node, server_round=2), server_round=2), PartyLabels)


def test_in_a_run_that_goes_on_a_new_party_shows_what_it_likes(desk):
    new = _reply(node=7, party="b", server_round=2, metrics={"node-proof": "cd" * 32})
    assert isinstance(_accept(_continued(desk), new, server_round=2), PartyLabels)


def test_a_name_that_two_keys_were_registered_under_binds_neither():
    nodes = [NodeInfo(node_id=1, name="a"), NodeInfo(node_id=2, name="a"), NodeInfo(node_id=3, name="b")]
    assert registered_names(nodes) == {3: "b"}


def test_who_is_not_ready_is_not_written_down_under_a_name_that_another_node_has_too():
    there = [NodeInfo(node_id=1, name="a"), NodeInfo(node_id=2, name=""), NodeInfo(node_id=3, name="")]
    assert believed_names({1: "x", 2: "a", 3: "c"}, there) == {1: "a", 3: "c"}
    assert believed_names({1: "a", 2: "b", 3: "b"}, []) == {1: "a"}


def test_at_the_end_a_node_without_the_secret_that_a_party_has_shown_before_does_not_speak_for_it():
    reception = Reception()
    reception.proofs["a"] = "0" * 64  # of the run that this one continues: no round has been asked since
    other = Reply(node_id=7, party="a", metrics={"node-proof": "1" * 64})
    assert reception.unbound(other, known=True) == "duplicate-name"
    assert reception.unbound(replace(other, metrics={"node-proof": "0" * 64})) == ""
    assert reception.unbound(Reply(node_id=7, party="b"), known=True) == ""
    assert reception.unbound(Reply(node_id=7, party="b")) == "no-round-counted"
