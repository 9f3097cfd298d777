"""Who is asked, who is missing, and what two nodes of one name count as."""

from dataclasses import replace

import numpy as np
import pytest
from federation import SCHEMA, as_they_are, codes, fedct_grid, handler, parties, party, public_set, rows
from flwr.app import Message
from flwr.app.error import Error
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from grid import InProcessGrid
from rounds import quick_fedct

from fedkd_flwr.clients import FedCTClient
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.record.run_record import Rejection
from fedkd_flwr.strategies import FedCT, FedCTConfig, PartyLabels
from fedkd_flwr.strategies.exchange import accepted
from fedkd_flwr.strategies.roster import Reception
from fedkd_flwr.strategies.waiting import believed_names, registered_names
from fedkd_flwr.wire.label_codec import PublicSpec, digest, encode_labels
from fedkd_flwr.wire.records import Reply, open_reply


def test_a_share_of_the_parties_is_sampled_by_seed():
    def asked(seed, members):
        config = FedCTConfig(seed=seed, nodes_stable_s=1e-6, stop_when_converged=False)
        strategy = FedCT(fraction_train=0.5, config=config, public=public_set())
        strategy.start(fedct_grid(members), num_rounds=3)
        return [r.answered for r in strategy.record.rounds]

    found = asked(1, parties(6))
    # the first round asks everybody: only then are names known, and node ids are drawn anew in every run
    assert [len(names) for names in found] == [6, 3, 3]
    assert found == asked(1, list(reversed(parties(6)))) != asked(2, parties(6))


def test_a_node_that_is_offline_when_a_round_starts_is_named():
    class Leaving(InProcessGrid):
        def get_node_ids(self):
            return [n for n in self.contexts if n != 1002 or len(self.sent) < 4]

    strategy = quick_fedct(stop_when_converged=False)
    members = parties(4)
    strategy.start(Leaving(handler([FedCTClient(p) for p in members]), [{}] * 4), num_rounds=2)
    assert strategy.record.rounds[1].asked == 3
    assert codes(strategy.record, 2) == {"party-002": "offline"}


def test_a_dead_node_is_shown_once_under_its_name():
    class Dead(InProcessGrid):
        """Answers for a node that has gone as the SuperLink does: from node 1, as a reply to what it was sent."""

        def pull_messages(self, message_ids):
            for reply in super().pull_messages(message_ids):
                if reply.metadata.group_id == "2" and reply.metadata.src_node_id == 1002:
                    asked = next(m for m in self.sent if m.metadata.message_id == reply.metadata.reply_to_message_id)
                    reply = Message(Error(code=ErrorCode.NODE_UNAVAILABLE, reason="gone"), reply_to=asked)
                    reply.metadata.__dict__["_src_node_id"] = 1
                yield reply

    strategy = quick_fedct(stop_when_converged=False)
    strategy.start(Dead(handler([FedCTClient(p) for p in parties(4)]), [{}] * 4), num_rounds=2)
    rejected = strategy.record.rounds[1].rejected
    assert [(r.party, r.node_id, r.code) for r in rejected] == [("party-002", "1002", "offline")]


def test_a_node_that_comes_late_is_asked_from_the_next_round_on(tmp_path):
    members = parties(3, state=tmp_path)
    grid = fedct_grid(members)
    late = grid.contexts.popitem()

    def handler(message, context, answer=grid.handler):
        if message.metadata.group_id == "1":
            grid.contexts.update([late])
        return answer(message, context)

    grid.handler = handler
    config = FedCTConfig(consensus="majority", stop_when_converged=False, nodes_stable_s=1e-6)
    strategy = FedCT(config=config, public=public_set())
    strategy.start(grid, num_rounds=2)
    assert [len(one.answered) for one in strategy.record.rounds] == [2, 3]


def test_a_silo_that_comes_back_as_another_node_takes_its_place_by_its_node_secret(tmp_path):
    members = parties(3, state=tmp_path, public=public_set(600), node_secret=lambda: b"s" * 32)
    grid = fedct_grid([*members, members[2]])  # the fourth node is the third silo, started again without a key
    again = grid.contexts.popitem()

    def restart(message, context, answer=grid.handler):
        reply = answer(message, context)
        if (message.metadata.group_id, context.node_id) == ("1", 1002):
            del grid.contexts[1002]
            grid.contexts.update([again])
        return reply

    grid.handler = restart
    config = FedCTConfig(consensus="majority", stop_when_converged=False, nodes_stable_s=1e-6)
    strategy = FedCT(config=config, public=public_set(600))
    strategy.start(grid, num_rounds=3)
    assert [one.answered[2:] for one in strategy.record.rounds] == [["party-002"]] * 3
    assert [[left_out.code for left_out in one.rejected] for one in strategy.record.rounds] == [[], ["offline"], []]
    # a full reply where the server had told the new node of no base, then changes again
    sizes = [open_reply(reply, "fit").num_bytes for reply in grid.replies if reply.metadata.src_node_id == 1003][:2]
    assert sizes[1] < sizes[0]
    assert len(strategy.record.parties) == 3


class _Registered(InProcessGrid):
    """Knows, as a SuperLink with node keys does, under which name each key was registered."""

    def get_nodes(self):
        given = {1000: "party-000", 1001: "party-001"}
        return [NodeInfo(node_id=node, name=given.get(node, "")) for node in self.contexts]


def test_a_name_that_a_key_was_registered_under_cannot_be_taken_by_another_node_however_early_it_answers():
    # the first node answers under the second's name, and the last, which is not registered, under the first's
    members = [party("party-001", *rows(20, seed=8)), *parties(3)[1:], party("party-000", *rows(20, seed=9))]
    strategy = quick_fedct()
    strategy.start(_Registered(handler([FedCTClient(p) for p in members]), [{}] * 4), num_rounds=1)
    rejected = strategy.record.rounds[0].rejected
    assert [(r.party, r.node_id, r.code) for r in rejected] == [
        ("party-000", "1003", "not-its-name"),
        ("party-000", "1000", "not-its-name"),
    ]
    assert strategy.record.rounds[0].answered == ["party-001", "party-002"]


def test_a_refusal_under_another_party_s_name_is_written_down_for_the_node_it_came_from_and_counts_for_nobody_else():
    """Its key is registered: whose it is, is known. Claims count rounds by party."""

    def refuse_for_another(index, reply):
        if index == 1:
            reply.content["reply"].update({"party": "party-000", "code": "budget-exceeded"})
        return reply

    grid = _Registered(handler([FedCTClient(p) for p in parties(3)]), [{}] * 3, tamper=refuse_for_another)
    strategy = quick_fedct(stop_when_converged=False)
    strategy.start(grid, num_rounds=2)
    assert [codes(strategy.record, r) for r in (1, 2)] == [{"party-001": "not-its-name"}] * 2
    assert strategy.record.notes[-1].values["code"] == "not-its-name"
    assert strategy.roster.asked.by_party == {"party-000": 2, "party-001": 2, "party-002": 2}


def test_an_answer_under_another_party_s_name_counts_for_both():
    """Who gives two registered nodes one name has sent its labels from both, whatever the keys' names are."""
    members = parties(3)
    members[1] = party("party-000", *rows(20, seed=8))
    strategy = quick_fedct()
    strategy.start(_Registered(handler([FedCTClient(p) for p in members]), [{}] * 3), num_rounds=1)
    assert codes(strategy.record) == {"party-001": "not-its-name"}
    assert strategy.roster.asked.by_party == {"party-000": 2, "party-001": 1, "party-002": 1}


SPEC = PublicSpec(num_public=4, num_classes=3, fingerprint="ab" * 32)
LABELS = np.array([[0, 1, 2, 2]], dtype=np.int16)


def _reply(node=1, party="a", labels=LABELS, server_round=1, **changes):
    arrays = {"labels": encode_labels(labels, public=SPEC, server_round=server_round, base=changes.pop("base", None))}
    return Reply(**{"node_id": node, "party": party, "arrays": arrays, **changes})


class _Desk:
    """FedCT's reception, and what it tells a node."""

    def __init__(self):
        X = np.zeros((4, 2), dtype=np.float32)
        public = PublicSet(X=X, fingerprint="ab" * 32, schema=SCHEMA, preprocessor=as_they_are(SCHEMA))
        self.strategy = FedCT(config=FedCTConfig(consensus="majority"), public=public)
        self.reception = self.strategy.roster.reception
        self.party_of = self.reception.party_of

    def known(self, node):
        last = self.reception.last_round.get(self.party_of.get(node, ""), 0)
        return {"last-round": last, **self.strategy.exchange.told(node, 1)}


@pytest.fixture
def desk():
    return _Desk()


def _accept(desk, reply, server_round=1):
    return accepted(desk.reception, reply, desk.strategy.exchange.read, server_round=server_round)


def test_a_valid_reply_binds_the_name_to_the_node(desk):
    answer = _accept(desk, _reply())
    assert isinstance(answer, PartyLabels)
    assert np.array_equal(answer.labels, LABELS)
    assert answer.changed_share is None
    assert desk.party_of == {1: "a"}


LEFT_OUT = {  # a reply, and under whose name, as which node and why it is left out
    "a second node of the same name": (_reply(node=2, labels=LABELS[:, ::-1]), "a", 2, "duplicate-name"),
    "a changed name": (_reply(party="b"), "a", 1, "node-changed-name"),
    # a silo without its state-dir, or somebody who would harm the party
    "another node's name": (Reply(node_id=2, party="a", code="budget-exceeded"), "", 2, "budget-exceeded"),
    "a crash": (Reply(node_id=1, party="", code="party-crashed"), "a", 1, "party-crashed"),
    "a refusal": (_reply(code="no-rows"), "a", 1, "no-rows"),
    "no labels": (Reply(node_id=1, party="a", arrays={"probs": np.zeros(4)}), "a", 1, "bad-payload"),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_after_a_valid_reply_others_are_left_out_under_the_name_that_is_known_and_change_nothing(desk, caplog, case):
    reply, party, node, code = LEFT_OUT[case]
    _accept(desk, _reply())
    before = desk.known(1)
    assert _accept(desk, reply) == Rejection(party=party, node_id=str(node), code=code)
    assert case == "no labels" or code in caplog.text
    assert desk.known(1) == before


def test_a_node_with_a_registered_name_that_says_nothing_is_called_by_it(desk):
    desk.reception.registered = {3: "c"}
    assert desk.reception.missing(3, code="no-reply") == Rejection(party="c", node_id="3", code="no-reply")
    assert desk.reception.names_of(3) == ["c"]


def test_an_invalid_first_reply_does_not_reserve_the_name(desk):
    assert isinstance(_accept(desk, _reply(node=1, server_round=9)), Rejection)
    assert isinstance(_accept(desk, _reply(node=2)), PartyLabels)


def test_a_node_is_told_its_last_round_and_the_base_held_of_it(desk):
    assert desk.known(1) == {"last-round": 0}
    _accept(desk, _reply(server_round=3), 3)
    assert desk.known(1) == {"last-round": 3, "base": digest(LABELS).hex()}
    assert desk.known(2) == {"last-round": 0}


def test_whoever_was_asked_and_did_not_answer_is_named(desk):
    _accept(desk, _reply(node=1))
    desk.strategy.roster.ask([1, 2, 3], [1, 2, 3])
    assert desk.strategy.roster.missing({3}) == [
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


@pytest.mark.parametrize(
    ("node", "party", "registered", "metrics"),
    [(1, "a", {}, {}), (7, "a", {7: "a"}, {}), (7, "b", {}, {"node-proof": "cd" * 32})],
    ids=["its node", "its key's name", "a new party, which shows what it likes"],
)
def test_in_a_run_that_goes_on_others_need_no_node_secret(desk, node, party, registered, metrics):
    _continued(desk).reception.registered = registered
    said = _reply(node=node, party=party, server_round=2, metrics=metrics)
    assert isinstance(_accept(desk, said, server_round=2), PartyLabels)


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
