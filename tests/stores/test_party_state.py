"""What a party keeps within a run: read back as it was written, or said to be lost; nothing in it is executed."""

import inspect

import numpy as np
import pytest

from fedkd_flwr.errors import Code, DataError
from fedkd_flwr.files import packed, write_atomic
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import NoLedger, NoState, PartyState, Saved, StoredReply, runs_gone_on_from


def _state(root, party="a", run_id="1"):
    return PartyState(root, run_id=run_id, party=party)


def _saved(**changes):
    labels = np.array([[0, 2, -1]], dtype=np.int16)
    settings = {"server_round": 3, "arrays": {"labels": labels}, "model": b"\x00model", "meta": {"alone": {"own": 0.5}}}
    return Saved(**{**settings, **changes})


def _equal(one, other):
    assert (one.server_round, one.model, one.meta) == (other.server_round, other.model, other.meta)
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        assert array.dtype == other.arrays[name].dtype
        assert np.array_equal(array, other.arrays[name])


def test_a_later_round_replaces_the_earlier_one_in_the_one_file(tmp_path):
    _state(tmp_path).save(_saved())
    _state(tmp_path).save(_saved(server_round=4, model=b"", arrays={}))
    _equal(_state(tmp_path).load(), _saved(server_round=4, model=b"", arrays={}))
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 1


def test_a_state_is_that_of_its_run_until_it_is_removed_and_removing_twice_is_no_error(tmp_path):
    state = _state(tmp_path)
    assert state.load() is None
    state.save(_saved())
    assert _state(tmp_path, run_id="2").load() is None
    state.remove()
    state.remove()
    assert state.load() is None


def _lost(state):
    with pytest.raises(DataError, match=r"must be the whole state of a, got .*Remove the file") as caught:
        state.load()
    assert caught.value.code is Code.STATE_LOST


def test_the_state_of_another_party_is_refused(tmp_path):
    _state(tmp_path, "b").save(_saved())
    _state(tmp_path, "b").path.rename(_state(tmp_path).path)
    _lost(_state(tmp_path))


GOOD, NO_MODEL = {"server_round": 1, "party": "a", "meta": {}}, {"": np.zeros(0, dtype=np.uint8)}
WHOLE = packed(NO_MODEL, GOOD)
SPOILT = {
    "empty": b"", "one byte short": WHOLE[:-1], "no head": WHOLE[20:], "zeros": b"PK\x03\x04" + bytes(100),
    "no model": packed({}, GOOD), "no values": packed(NO_MODEL, {}), "no round": packed(NO_MODEL, {"party": "a"}),
    "round is a word": packed(NO_MODEL, {**GOOD, "server_round": "x"}),
}  # fmt: skip


@pytest.mark.parametrize("data", SPOILT.values(), ids=SPOILT)
def test_a_damaged_file_or_one_of_something_else_is_said_to_be_lost(tmp_path, data):
    state = _state(tmp_path)
    write_atomic(state.path, WHOLE)
    _equal(state.load(), Saved(server_round=1))
    state.path.write_bytes(data)
    _lost(state)


HOSTILE = ["../../x", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "C:evil", "a\x00b", "x" * 5000, "é", "a\nb", "~"]


@pytest.mark.parametrize("party", HOSTILE)
def test_a_hostile_name_stays_inside_its_folder(tmp_path, party):
    state = _state(tmp_path, party=party, run_id=party)
    state.save(_saved())
    assert state.path.resolve().is_relative_to(tmp_path.resolve())
    assert len(state.path.relative_to(tmp_path).parts) == 4
    _equal(state.load(), _saved())
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert files == [state.path]


def test_a_changed_note_of_where_a_run_went_on_leads_nowhere_else(tmp_path):
    state = _state(tmp_path)
    state.note_continued("71")
    folder = tmp_path / "runs" / state.directory.parent.name
    assert runs_gone_on_from(folder) == ["71"]
    (path,) = state.directory.iterdir()
    path.write_bytes(path.read_bytes().replace(b"71", b"72"))
    with pytest.raises(DataError, match=r"note .* must be whole, got other content.*Remove the file") as caught:
        runs_gone_on_from(folder)
    assert caught.value.code is Code.STATE_LOST


def test_a_reply_that_names_only_its_sender_discloses_nothing():
    signature = {"party": "a", "wire-version": 1, "payload": ""}
    assert not StoredReply(metrics=signature).discloses
    assert StoredReply(metrics={**signature, "accuracy-own": 0.5}).discloses
    assert StoredReply(metrics=signature, arrays={"labels": np.zeros(3)}).discloses


@pytest.mark.parametrize(("nothing", "something"), [(NoLedger, LedgerStore), (NoState, PartyState)])
def test_its_methods_take_what_those_of_the_real_one_take(nothing, something):
    methods = [name for name, _ in inspect.getmembers(nothing, inspect.isfunction)]
    assert methods
    for name in methods:
        assert inspect.signature(getattr(nothing, name)) == inspect.signature(getattr(something, name)), name


def test_a_reply_s_digest_is_of_all_that_it_says_and_the_same_after_it_was_packed():
    zeros, metrics = np.zeros(4, np.uint8), {"party": "a\ud800", "raw": b"\0\xff", "flag": True, "count": 2**70}
    said = [
        StoredReply(arrays=arrays, metrics=more)
        for arrays, more in (
            ({"labels": zeros}, metrics),
            ({"bits": zeros}, metrics),
            ({"labels": zeros + 1}, metrics),
            ({"labels": zeros.view(np.int8)}, metrics),
            ({"labels": zeros.reshape(2, 2)}, metrics),
            ({"labels": zeros, "bits": zeros}, metrics),
            ({"bits": zeros, "labels": zeros}, metrics),
            ({"labels": zeros}, {**metrics, "party": "b"}),
            ({"labels": zeros}, {**metrics, "raw": b"\1"}),
        )
    ]
    assert len({one.digest for one in said}) == len(said)
    assert [StoredReply.from_bytes(one.to_bytes()).digest for one in said] == [one.digest for one in said]
    assert StoredReply.from_bytes(said[0].to_bytes()).metrics == metrics
