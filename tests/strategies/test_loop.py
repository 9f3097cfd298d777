"""What a server does with bad replies, missing nodes and too few parties: one test per kind."""

from dataclasses import replace

import numpy as np
import pytest
from federation import fedct_grid, handler, parties, party, public_set, rows
from flwr.app import Message
from flwr.app.error import Error
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from grid import InProcessGrid

from fedkd_flwr.clients import FedCTClient
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.errors import ConfigError, DataError, TooFewPartiesError
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.stores import saved_model
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.strategies import FedCT, FedCTConfig
from fedkd_flwr.strategies.reception import Reception, believed_names, registered_names
from fedkd_flwr.wire.envelope import PublicSpec
from fedkd_flwr.wire.label_codec import encode_labels
from fedkd_flwr.wire.records import Reply, reply_record


def _strategy(**keywords):
    stop = keywords.pop("stop_when_converged", True)
    config = FedCTConfig(seed=1, nodes_stable_s=1e-6, node_deadline_s=0.3, stop_when_converged=stop)
    return FedCT(config=config, public=public_set(), **keywords)


def _codes(record, server_round=1):
    return {r.party: r.code for r in record.rounds[server_round - 1].rejected}


def _run_spoilt(spoil, *, rounds=1, members=None):
    """Spoil every train reply of the second party."""

    def tamper(index, reply):
        return spoil(reply) if index == 1 and reply.metadata.message_type == "train" else reply

    strategy = _strategy()
    strategy.start(fedct_grid(members or parties(4), tamper=tamper), num_rounds=rounds)
    return strategy.record


def _with_labels(payload, party_name="party-001"):
    def spoil(reply):
        metrics = {"party": party_name, "payload": "labels", "wire-version": 1}
        return _answer(reply, reply_record([payload], 60, metrics))

    return spoil


def _answer(reply, content):
    reply.content = content
    return reply


SPEC = PublicSpec(num_public=60, num_classes=3, fingerprint="ab" * 32)
GOOD = np.zeros(60, dtype=np.int16)


def _payload(labels=GOOD, **changes):
    spec = PublicSpec(**{**SPEC.__dict__, **{k: v for k, v in changes.items() if k != "server_round"}})
    return encode_labels(labels, public=spec, server_round=changes.get("server_round", 1))


BAD_REPLIES = {
    "wrong length": (_payload(GOOD[:50], num_public=50), "wrong-length"),
    "wrong number of arrays": (_payload(np.stack([GOOD, GOOD])), "wrong-length"),
    "wrong dtype": (np.zeros(60, dtype=np.float32), "bad-payload"),
    "not a number": (np.full(60, np.nan, dtype=np.float32), "not-a-number"),
    "class out of range": (_payload(GOOD + 5, num_classes=9), "wrong-classes"),
    "another public set": (_payload(fingerprint="cd" * 32), "wrong-public-set"),
    "another round": (_payload(server_round=7), "wrong-round"),
}


@pytest.mark.parametrize("case", BAD_REPLIES)
def test_a_bad_reply_is_left_out_named_with_its_reason_and_the_round_goes_on(case):
    payload, code = BAD_REPLIES[case]
    record = _run_spoilt(_with_labels(payload))
    assert _codes(record) == {"party-001": code}
    assert record.rounds[0].answered == ["party-000", "party-002", "party-003"]
    assert record.status == "completed"


def test_a_reply_against_a_stale_base_is_left_out():
    rng = np.random.default_rng(0)
    base = rng.integers(0, 3, 3000).astype(np.int16)
    changed = base.copy()
    changed[5] = (changed[5] + 1) % 3
    spec = PublicSpec(num_public=3000, num_classes=3, fingerprint="ab" * 32)
    payload = encode_labels(changed, public=spec, server_round=1, base=base)
    public = public_set(3000)
    strategy = FedCT(config=FedCTConfig(seed=1, nodes_stable_s=1e-6), public=public)

    def tamper(index, reply):
        return _with_labels(payload)(reply) if index == 1 and reply.metadata.message_type == "train" else reply

    strategy.start(fedct_grid(parties(3, public=public), tamper=tamper), num_rounds=1)
    assert _codes(strategy.record) == {"party-001": "stale-base"}


def test_a_party_whose_process_crashed_is_left_out():
    record = _run_spoilt(lambda reply: Message(Error(code=2, reason="<boom>"), reply_to=_instruction(reply)))
    assert list(_codes(record).values()) == ["party-crashed"]


def _instruction(reply):
    reply.metadata.__dict__["_src_node_id"], reply.metadata.__dict__["_dst_node_id"] = (
        reply.metadata.dst_node_id,
        reply.metadata.src_node_id,
    )
    reply.metadata.__dict__["_message_id"] = reply.metadata.reply_to_message_id
    return reply


def test_a_party_that_does_not_answer_is_named_once_its_name_is_known():
    count = {"replies": 0}

    def silent_in_round_2(reply):
        count["replies"] += 1
        return reply if count["replies"] == 1 else None

    def tamper(index, reply):
        return silent_in_round_2(reply) if index == 1 and reply.metadata.message_type == "train" else reply

    strategy = _strategy(stop_when_converged=False)
    strategy.start(fedct_grid(parties(4), tamper=tamper), num_rounds=2, timeout=0.2)
    assert _codes(strategy.record, 2) == {"party-001": "no-reply"}


def test_a_party_that_raises_is_left_out_with_a_code_and_no_text_crosses_the_wire():
    class Broken(FedCTClient):
        def learn(self, instruction):
            raise ValueError("patient 4711 has HbA1c 9.2")

    members = parties(4)
    clients = [FedCTClient(p) for p in members]
    clients[2] = Broken(members[2])
    grid = InProcessGrid(handler(clients), [{}] * 4)
    strategy = _strategy()
    strategy.start(grid, num_rounds=1)
    assert _codes(strategy.record) == {"party-002": "internal"}
    wire = "".join(str(dict(reply.content)) for reply in grid.replies)
    assert "4711" not in wire


def test_a_node_that_changes_its_name_is_turned_away():
    count = {"replies": 0}

    def renamed_in_round_2(reply):
        count["replies"] += 1
        metrics = {**reply.content["reply"], "payload": "labels"}
        if count["replies"] == 2:
            metrics["party"] = "somebody-else"
        return _answer(reply, reply_record([a.numpy() for a in reply.content["arrays"].values()], 60, metrics))

    def tamper(index, reply):
        return renamed_in_round_2(reply) if index == 1 and reply.metadata.message_type == "train" else reply

    strategy = _strategy(stop_when_converged=False)
    strategy.start(fedct_grid(parties(4), tamper=tamper), num_rounds=2)
    assert _codes(strategy.record, 2) == {"party-001": "node-changed-name"}


def test_fewer_valid_replies_than_min_parties_fail_the_run_and_name_each_with_its_reason():
    def tamper(index, reply):
        return _with_labels(_payload(fingerprint="cd" * 32), f"party-{index:03d}")(reply) if index else reply

    strategy = _strategy()
    with pytest.raises(TooFewPartiesError, match=r"round 1 must be >= 2, got 1.*party-001: wrong-public-set"):
        strategy.start(fedct_grid(parties(3), tamper=tamper), num_rounds=1)
    assert strategy.record.status == "failed"
    assert "party-002: wrong-public-set" in strategy.record.reason


def test_fewer_nodes_than_num_parties_fail_at_the_deadline():
    with pytest.raises(TooFewPartiesError, match=r"number of nodes must reach 9 within 0.3 s, got 4"):
        _strategy(min_available_nodes=9).start(fedct_grid(parties(4)), num_rounds=1)


def test_a_party_with_another_public_set_refuses_and_is_named():
    members = [*parties(3), party("stranger", *rows(20, seed=8), public=public_set(fingerprint="cd" * 32))]
    strategy = _strategy()
    strategy.start(fedct_grid(members), num_rounds=1)
    assert _codes(strategy.record) == {"stranger": "public-set-mismatch"}


def test_one_class_in_the_schema_is_refused():
    with pytest.raises(DataError, match="classes"):
        Schema(columns=(), classes=("only",))


def test_each_party_gets_a_record_of_its_own():
    grid = fedct_grid(parties(3))
    _strategy().start(grid, num_rounds=1)
    contents = [id(m.content) for m in grid.sent]
    assert len(set(contents)) == len(contents)


def test_a_share_of_the_parties_is_sampled_by_seed():
    def asked(seed, members):
        config = FedCTConfig(seed=seed, nodes_stable_s=1e-6, stop_when_converged=False)
        strategy = FedCT(fraction_train=0.5, config=config, public=public_set())
        strategy.start(fedct_grid(members), num_rounds=4)
        return [r.answered for r in strategy.record.rounds]

    # the first round asks everybody: only then are names known, and node ids are drawn anew in every run
    assert [len(names) for names in asked(1, parties(6))] == [6, 3, 3, 3]
    assert asked(1, parties(6)) == asked(1, list(reversed(parties(6))))
    assert asked(1, parties(6)) != asked(2, parties(6))


def test_a_node_that_is_offline_when_a_round_starts_is_named():
    class Leaving(InProcessGrid):
        def get_node_ids(self):
            return [n for n in self.contexts if n != 1002 or len(self.sent) < 4]

    strategy = _strategy(stop_when_converged=False)
    members = parties(4)
    strategy.start(Leaving(handler([FedCTClient(p) for p in members]), [{}] * 4), num_rounds=2)
    assert strategy.record.rounds[1].asked == 3
    assert _codes(strategy.record, 2) == {"party-002": "offline"}


def test_a_hostile_reply_brings_no_text_and_no_wild_number_into_the_record():
    def spoil(reply):
        arrays = [a.numpy() for a in reply.content["arrays"].values()]
        metrics = {
            **reply.content["reply"],
            "payload": "labels",
            "accuracy-common": 1.7e308,
            "notes": "one-class,row 12 is 7",
        }
        return _answer(reply, reply_record(arrays, 60, metrics))

    def tamper(index, reply):
        if index != 1:
            return reply
        if reply.metadata.message_type == "train":
            return spoil(reply)
        wild = dict(reply.content["reply"])
        wild |= {"federated-common": float("nan"), "solo-common": b'{"n": 50, "accuracy": 1.5}'}
        return _answer(reply, reply_record([], 60, {**wild, "model-bytes": -1}))

    strategy = _strategy()
    strategy.start(fedct_grid(parties(3), tamper=tamper), num_rounds=1)
    hostile = strategy.record.party("party-001")
    assert "party-001" not in strategy.record.rounds[0].accuracy
    assert (hostile.solo, hostile.federated, hostile.model_bytes) == ({}, {}, None)
    assert [str(note) for note in hostile.notes] == [
        "one-class",
        "bad-metrics: metrics solo-common",
        "bad-metrics: metrics federated-common",
    ]


def test_a_code_or_a_name_that_is_free_text_does_not_reach_the_record():
    def said(**metrics):
        record = _run_spoilt(lambda r: _answer(r, reply_record([], 0, {"wire-version": 1, **metrics})))
        return [(r.party, r.code) for r in record.rounds[0].rejected]

    assert said(party="party-001", code="patient 12 is ill") == [("party-001", "unknown-code")]
    assert said(party="x" * 101, code="internal") == [("", "bad-name")]
    assert said(party="a\nb", code="internal") == [("", "bad-name")]


def test_a_party_never_accepted_in_a_round_reports_nothing_at_the_end():
    record = _run_spoilt(_with_labels(_payload(fingerprint="cd" * 32)))
    assert [p.name for p in record.parties] == ["party-000", "party-002", "party-003"]


def test_a_strategy_runs_once():
    strategy = _strategy()
    strategy.start(fedct_grid(parties(3)), num_rounds=1)
    with pytest.raises(ConfigError, match="a strategy must start one run"):
        strategy.start(fedct_grid(parties(3)), num_rounds=1)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"fraction_train": 0.0}, r"fraction_train must be within \(0, 1\], got 0.0"),
        ({"fraction_evaluate": float("nan")}, "fraction_evaluate must be within"),
        ({"min_train_nodes": 0}, "min_train_nodes must be a whole number >= 1, got 0"),
        ({"min_train_nodes": 5, "min_available_nodes": 4}, "min_train_nodes must be at most 4, got 5"),
    ],
)
def test_impossible_flower_settings_are_refused(keywords, message):
    with pytest.raises(ConfigError, match=message):
        _strategy(**keywords)


def _ends_midway(count, *, rounds=3, strategy=None, members=None):
    """Run parties of which all but ``count`` go silent in round 2."""

    def tamper(index, reply):
        late = reply.metadata.message_type == "train" and int(reply.metadata.group_id) > 1
        return None if late and index >= count else reply

    strategy = strategy or _strategy(stop_when_converged=False)
    with pytest.raises(TooFewPartiesError, match=r"valid replies in round 2 must be >= 2, got 1.*party-001: no-reply"):
        strategy.start(fedct_grid(members or parties(3), tamper=tamper), num_rounds=rounds, timeout=0.2)
    return strategy


def test_a_run_that_loses_its_parties_midway_hands_out_its_last_good_consensus_and_then_fails(tmp_path):
    kept = PartyState(tmp_path, run_id="1", party="party-000")
    strategy = _ends_midway(
        1, members=[party("party-000", *rows(20, seed=0), state=kept, keep_model=True), *parties(3)[1:]]
    )
    unbroken = _strategy()
    unbroken.start(fedct_grid(parties(3)), num_rounds=1)
    assert (strategy.exchange.consensus == unbroken.exchange.consensus).all()
    record = strategy.record
    assert (record.status, len(record.rounds), record.rounds[1].ended) == ("failed", 2, False)
    assert [note.values["good"] for note in record.notes if note.code == "ended-early"] == [1]
    assert len(list(tmp_path.rglob("*.model"))) == 2  # the federation's and its own
    assert all("common" in one.federated for one in record.parties)


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

    strategy = _strategy(stop_when_converged=False)
    strategy.start(Dead(handler([FedCTClient(p) for p in parties(4)]), [{}] * 4), num_rounds=2)
    rejected = strategy.record.rounds[1].rejected
    assert [(r.party, r.node_id, r.code) for r in rejected] == [("party-002", "1002", "offline")]


class _Registered(InProcessGrid):
    """Knows, as a SuperLink with node keys does, under which name each key was registered."""

    def get_nodes(self):
        given = {1000: "party-000", 1001: "party-001"}
        return [NodeInfo(node_id=node, name=given.get(node, "")) for node in self.contexts]


def test_a_name_that_a_key_was_registered_under_cannot_be_taken_by_another_node_however_early_it_answers():
    # the first node answers under the second's name, and the last, which is not registered, under the first's
    members = [party("party-001", *rows(20, seed=8)), *parties(3)[1:], party("party-000", *rows(20, seed=9))]
    strategy = _strategy()
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
    strategy = _strategy(stop_when_converged=False)
    strategy.start(grid, num_rounds=2)
    assert [_codes(strategy.record, r) for r in (1, 2)] == [{"party-001": "not-its-name"}] * 2
    assert strategy.record.notes[-1] == _not_finished("party-001", "not-its-name")
    assert strategy.roster.asked.by_party == {"party-000": 2, "party-001": 2, "party-002": 2}


def test_an_answer_under_another_party_s_name_counts_for_both():
    """Who gives two registered nodes one name has sent its labels from both, whatever the keys' names are."""
    members = parties(3)
    members[1] = party("party-000", *rows(20, seed=8))
    strategy = _strategy()
    strategy.start(_Registered(handler([FedCTClient(p) for p in members]), [{}] * 3), num_rounds=1)
    assert _codes(strategy.record) == {"party-001": "not-its-name"}
    assert strategy.roster.asked.by_party == {"party-000": 2, "party-001": 1, "party-002": 1}


def test_a_name_that_two_keys_were_registered_under_binds_neither():
    nodes = [NodeInfo(node_id=1, name="a"), NodeInfo(node_id=2, name="a"), NodeInfo(node_id=3, name="b")]
    assert registered_names(nodes) == {3: "b"}


def test_an_array_named_many_times_is_turned_away_before_it_is_decoded(monkeypatch):
    from flwr.app import Array

    huge = Array(np.zeros(40 * 2**20, dtype=np.uint8))
    decoded = []
    numpy = Array.numpy
    monkeypatch.setattr(Array, "numpy", lambda self: decoded.append(len(self.data)) or numpy(self))

    def spoil(reply):
        names = [f"labels{i}" for i in range(60)]
        metrics = {"party": "party-001", "payload": ",".join(names), "wire-version": 1}
        return _answer(reply, reply_record([huge] * 60, 60, metrics))

    record = _run_spoilt(spoil)
    assert _codes(record) == {"party-001": "too-large"}
    assert max(decoded) < 2**20
    assert _codes(_run_spoilt(_with_labels(np.zeros(2**20 + 16 * 3 * 64, dtype=np.uint8)))) == {
        "party-001": "too-large"
    }


def test_a_reply_of_endless_metrics_is_turned_away():
    def spoil(reply, **more):
        metrics = {"party": "party-001", "payload": "labels", "wire-version": 1, **more}
        return _answer(reply, reply_record([_payload()], 60, metrics))

    assert _codes(_run_spoilt(spoil)) == {}
    assert _codes(_run_spoilt(lambda reply: spoil(reply, notes="x" * 2**21))) == {"party-001": "too-large"}
    many = {f"m{i}": 1.0 for i in range(101)}
    assert _codes(_run_spoilt(lambda reply: spoil(reply, **many))) == {"party-001": "too-large"}


def test_a_party_whose_rounds_were_all_refused_ends_with_its_model_and_the_server_says_why_it_has_no_figures(tmp_path):
    kept = PartyState(tmp_path / "not" / "there", run_id="1", party="party-001")
    members = parties(3)
    members[1] = party("party-001", *rows(20, seed=1), state=kept, keep_model=True)
    wrong = _with_labels(_payload(fingerprint="cd" * 32))

    def tamper(index, reply):
        return wrong(reply) if index == 1 and reply.metadata.message_type == "train" else reply

    strategy = _strategy(stop_when_converged=False)
    strategy.start(fedct_grid(members, tamper=tamper), num_rounds=2)
    assert [_codes(strategy.record, r) for r in (1, 2)] == [{"party-001": "wrong-public-set"}] * 2
    assert strategy.record.notes[-1] == _not_finished("party-001", "no-round-counted")
    for file in (kept.path.with_suffix(".model"), kept.path.with_suffix(".alone.model")):
        assert saved_model.load(file).classes == ("red", "green", "blue")


def test_a_node_that_gave_another_party_s_name_before_the_first_round_cannot_report_for_it_at_the_end():
    members = [
        party("a", *rows(20, seed=0)),
        party("b", *rows(20, seed=1)),
        party("a", *rows(20, seed=9, classes=(0,))),
    ]
    config = FedCTConfig(seed=1, nodes_stable_s=1e-6)
    strategy = FedCT(config=config, public=public_set(), names={1000: "a", 1001: "b", 1002: "a"})
    strategy.start(fedct_grid(members), num_rounds=1)
    honest = FedCT(config=config, public=public_set())
    honest.start(fedct_grid(members[:2]), num_rounds=1)
    assert strategy.record.parties[0].solo == honest.record.parties[0].solo
    assert strategy.record.notes[-1] == _not_finished("a", "duplicate-name")


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


def _not_finished(party, code):
    return Note(NoteCode.NOT_FINISHED, {"party": party, "code": code, "failure": ""})
