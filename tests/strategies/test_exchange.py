"""What every exchange refuses before anybody answers."""

import functools

import numpy as np
import pytest
from federation import codes, fedct_grid, model, parties, party, public_set, rows
from flwr.app import Array, ArrayRecord, Message
from flwr.app.error import Error
from grid import InProcessGrid
from rounds import quick_fedct

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.models.zoo import make_model
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.stores import saved_model
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.strategies import FedCT, FedCTConfig, FedKT, FedKTConfig, PrivateKT, PrivateKTConfig
from fedkd_flwr.wire.label_codec import PublicSpec, encode_labels
from fedkd_flwr.wire.records import reply_record


def _net(*, seed):
    return make_model("mlp", num_classes=3, num_features=2, seed=seed)


def test_the_server_s_test_rows_are_checked_before_anybody_answers():
    X, y = rows(9, seed=2)
    with pytest.raises(DataError, match=r"test must have 2 features, got 1"):
        FedKT(public=public_set(), final_model=model, test=(X[:, :1], y))
    with pytest.raises(DataError, match=r"y of test must lie within 0..2, got 4"):
        FedKT(public=public_set(), final_model=model, test=(X, np.full(9, 4)))


def test_weights_to_start_from_are_taken_or_refused_never_ignored():
    given = ArrayRecord([np.zeros(2, np.float32)])
    with pytest.raises(ConfigError, match=r"initial_arrays must be left out with fedct, got 1 arrays"):
        FedCT(config=FedCTConfig(), public=public_set()).start(InProcessGrid(lambda *_: None, []), given)

    strategy = PrivateKT(config=PrivateKTConfig(), public=public_set(), global_model=_net)
    weights = [np.full_like(array, 0.5) for array in strategy.exchange.model.arrays()]
    strategy.prepare = lambda *_: (_ for _ in ()).throw(RuntimeError("far enough"))
    with pytest.raises(RuntimeError, match="far enough"):
        strategy.start(
            InProcessGrid(lambda *_: None, []), ArrayRecord({f"{i}": Array(w) for i, w in enumerate(weights)})
        )
    assert all((array == 0.5).all() for array in strategy.exchange.model.arrays())


def test_another_algorithm_s_settings_are_refused():
    with pytest.raises(ConfigError, match="config must be a FedCTConfig for FedCT, got 'FedKTConfig'"):
        FedCT(config=FedKTConfig(), public=public_set())


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
    return encode_labels(labels, public=PublicSpec(**{**SPEC.__dict__, **changes}), server_round=1)


BAD_REPLIES = {
    "wrong length": (_payload(GOOD[:50], num_public=50), "wrong-length"),
    "not a number": (np.full(60, np.nan, dtype=np.float32), "not-a-number"),
    "another public set": (_payload(fingerprint="cd" * 32), "wrong-public-set"),
}


def _crashed(reply):
    """Return what Flower says of a party whose process crashed."""
    head = reply.metadata.__dict__
    head["_src_node_id"], head["_dst_node_id"] = reply.metadata.dst_node_id, reply.metadata.src_node_id
    head["_message_id"] = reply.metadata.reply_to_message_id
    return Message(Error(code=2, reason="patient 4711"), reply_to=reply)


def _spoilt(*spoilers):
    """Run a party for each spoiler of train replies, and two honest ones."""

    def tamper(index, reply):
        spoils = index < len(spoilers) and reply.metadata.message_type == "train"
        return spoilers[index](reply) if spoils else reply

    strategy = quick_fedct(stop_when_converged=False)
    strategy.start(fedct_grid(parties(len(spoilers) + 2), tamper=tamper), num_rounds=1)
    return strategy.record


def _said(reply, **metrics):
    return _answer(reply, reply_record([], 0, {"wire-version": 1, **metrics}))


def test_bad_replies_are_left_out_named_with_their_reasons_and_the_round_goes_on():
    spoilers = [_with_labels(payload, f"party-{i:03d}") for i, (payload, _) in enumerate(BAD_REPLIES.values())]
    record = _spoilt(*spoilers, _crashed)
    crashed, *found = record.rounds[0].rejected
    assert {r.party: r.code for r in found} == {
        f"party-{i:03d}": code for i, (_, code) in enumerate(BAD_REPLIES.values())
    }
    assert (crashed.node_id, crashed.code) == (str(1000 + len(BAD_REPLIES)), "party-crashed")
    assert record.rounds[0].answered == [f"party-{i:03d}" for i in (4, 5)]
    assert record.status == "completed"
    assert "4711" not in record.to_json()


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

    strategy = quick_fedct()
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
    said = (
        {"party": "party-000", "code": "patient 12 is ill"},
        {"party": "x" * 101, "code": "internal"},
        {"party": "a\nb", "code": "internal"},
    )
    record = _spoilt(*(functools.partial(_said, **metrics) for metrics in said))
    found = {r.node_id: (r.party, r.code) for r in record.rounds[0].rejected}
    assert found == {"1000": ("party-000", "unknown-code"), "1001": ("", "bad-name"), "1002": ("", "bad-name")}


def test_an_array_named_many_times_is_turned_away_before_it_is_decoded(monkeypatch):
    huge = Array(np.zeros(40 * 2**20, dtype=np.uint8))
    decoded = []
    numpy = Array.numpy
    monkeypatch.setattr(Array, "numpy", lambda self: decoded.append(len(self.data)) or numpy(self))

    def spoil(reply):
        names = [f"labels{i}" for i in range(60)]
        metrics = {"party": "party-000", "payload": ",".join(names), "wire-version": 1}
        return _answer(reply, reply_record([huge] * 60, 60, metrics))

    record = _spoilt(spoil, _with_labels(np.zeros(2**20 + 16 * 3 * 64, dtype=np.uint8)))
    assert codes(record) == {"party-000": "too-large", "party-001": "too-large"}
    assert max(decoded) < 2**20 + 16 * 3 * 64


def test_a_reply_of_endless_metrics_is_turned_away():
    def spoil(reply, number, **more):
        metrics = {"party": f"party-{number:03d}", "payload": "labels", "wire-version": 1, **more}
        return _answer(reply, reply_record([_payload()], 60, metrics))

    said = ({}, {"notes": "x" * 2**21}, {f"m{i}": 1.0 for i in range(101)})
    record = _spoilt(*(functools.partial(spoil, number=i, **more) for i, more in enumerate(said)))
    assert codes(record) == {"party-001": "too-large", "party-002": "too-large"}


def test_a_party_whose_rounds_were_all_refused_ends_with_its_model_and_the_server_says_why_it_has_no_figures(tmp_path):
    kept = PartyState(tmp_path / "not" / "there", run_id="1", party="party-001")
    members = parties(3)
    members[1] = party("party-001", *rows(20, seed=1), state=kept, keep_model=True)
    wrong = _with_labels(_payload(fingerprint="cd" * 32))

    def tamper(index, reply):
        return wrong(reply) if index == 1 and reply.metadata.message_type == "train" else reply

    strategy = quick_fedct(stop_when_converged=False)
    strategy.start(fedct_grid(members, tamper=tamper), num_rounds=2)
    assert [codes(strategy.record, r) for r in (1, 2)] == [{"party-001": "wrong-public-set"}] * 2
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


def _not_finished(party, code):
    return Note(NoteCode.NOT_FINISHED, {"party": party, "code": code, "failure": ""})
