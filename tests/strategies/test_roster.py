"""Who is asked, who is missing, and what two nodes of one name count as."""

import pytest
from federation import codes, fedct_grid, handler, parties, party, public_set, quick_fedct, rows
from flwr.app import Message
from flwr.app.error import Error
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from grid import InProcessGrid

from fedkd_flwr.clients import FedCTClient
from fedkd_flwr.strategies import FedCT, FedCTConfig
from fedkd_flwr.wire.records import open_reply


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


@pytest.mark.parametrize("secret", [b"s" * 32, b""])
def test_a_silo_that_comes_back_as_another_node_takes_its_place_only_with_its_node_secret(tmp_path, secret):
    known = (lambda: secret) if secret else None
    members = parties(3, state=tmp_path, public=public_set(600), node_secret=known)
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
    came_back = ["party-002"] if secret else []
    assert [one.answered[2:] for one in strategy.record.rounds] == [["party-002"], came_back, came_back]
    codes = [[left_out.code for left_out in one.rejected] for one in strategy.record.rounds]
    assert codes == (
        [[], ["offline"], []] if secret else [[], ["duplicate-name", "offline"], ["duplicate-name", "offline"]]
    )
    if secret:  # a full reply where the server had told the new node of no base, then changes again
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
