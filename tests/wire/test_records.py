"""The door: what goes in comes out, and what nobody of ours would send becomes a code, never an exception."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.app.error import Error
from flwr.supercore.task_identity import TaskIdentity

from fedkd_flwr.errors import PayloadError
from fedkd_flwr.wire import records

LABELS = np.array([0, 2, -1], dtype=np.int16)
SIGNED = {"party": "a", "payload": "labels", "wire-version": records.WIRE_VERSION}


@pytest.fixture(autouse=True)
def _identity():
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1


def _message(content, node=77):
    asked = Message(RecordDict(), dst_node_id=node, message_type="train")
    asked.metadata.__dict__["_message_id"] = "1"
    reply = Message(content, reply_to=asked)
    reply.metadata.__dict__["_src_node_id"] = node
    return reply


def _reply(arrays=(LABELS,), metrics=SIGNED):
    return _message(records.reply_record(list(arrays), 3, metrics))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.float32, bool])
def test_an_instruction_arrives_as_it_was_sent_dtype_and_all(dtype):
    array = np.array([[0, 1], [1, 0]], dtype=dtype)
    record = records.instruction_record({"labels": array, "mask": array[0]}, {"seed": 3, "fingerprint": "ab"})
    arrays, config = records.open_instruction(record)
    named = records.named_arrays(arrays, config)
    assert list(named) == ["labels", "mask"]
    assert named["labels"].dtype == array.dtype
    assert np.array_equal(named["labels"], array)
    assert config == {"seed": 3, "fingerprint": "ab", "payload": "labels,mask", "wire-version": records.WIRE_VERSION}


def test_each_instruction_is_a_fresh_record_and_the_caller_s_settings_stay_as_they_were():
    settings = {"seed": 1}
    one, other = (records.instruction_record({}, settings) for _ in range(2))
    one.config_records["config"]["seed"] = 2
    assert settings == {"seed": 1}
    assert other.config_records["config"]["seed"] == 1


def test_a_setting_cannot_pretend_another_wire_version():
    _, config = records.open_instruction(records.instruction_record({}, {"wire-version": 9, "payload": "x"}))
    assert (config["wire-version"], config["payload"]) == (records.WIRE_VERSION, "")


@pytest.mark.parametrize("version", [None, 0, 2, "1"])
def test_another_wire_version_is_refused_with_the_way_out(version):
    with pytest.raises(PayloadError, match=r"wire-version must be 1, got .*same release of fedkd-flwr") as caught:
        records.named_arrays([], {"wire-version": version})
    assert caught.value.reason == "unknown-version"


@pytest.mark.parametrize("payload", ["", "labels,mask"])
def test_names_and_arrays_of_different_number_are_refused(payload):
    with pytest.raises(PayloadError, match="payload must name 1 arrays, got"):
        records.named_arrays([LABELS], {"wire-version": records.WIRE_VERSION, "payload": payload})


def test_an_answer_is_opened_with_its_sender_its_arrays_and_their_weight():
    reply = records.open_reply(_reply(metrics={**SIGNED, "accuracy-common": 0.5, "notes": "one-class"}), "fit")
    assert (reply.node_id, reply.party, reply.code) == (77, "a", "")
    assert np.array_equal(reply.arrays["labels"], LABELS)
    assert reply.metrics["accuracy-common"] == 0.5
    assert LABELS.nbytes < reply.num_bytes < LABELS.nbytes + 200


def test_an_evaluate_reply_carries_metrics_and_no_arrays():
    metrics = {"party": "a", "wire-version": records.WIRE_VERSION, "federated-own": 0.75}
    reply = records.open_reply(_message(records.reply_record([], 3, metrics, loss=0.25)), "evaluate")
    assert (reply.party, reply.code, reply.metrics["federated-own"], reply.num_bytes) == ("a", "", 0.75, 0)


def test_a_party_that_crashed_has_no_name_and_a_code():
    asked = Message(RecordDict(), dst_node_id=5, message_type="train")
    asked.metadata.__dict__["_message_id"] = "1"
    reply = Message(Error(code=2, reason="<class 'ValueError'>:<'row 12 holds 3.14'>"), reply_to=asked)
    reply.metadata.__dict__["_src_node_id"] = 5
    opened = records.open_reply(reply, "fit")
    assert (opened.node_id, opened.party, opened.code) == (5, "", "party-crashed")
    assert "3.14" not in repr(opened)


def test_a_refusal_keeps_its_party_and_its_code():
    opened = records.open_reply(_reply(arrays=(), metrics={"party": "a", "code": "no-rows", "wire-version": 1}), "fit")
    assert (opened.party, opened.code, opened.arrays) == ("a", "no-rows", {})


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (_reply, ""),
        (lambda: _reply(metrics={"payload": "labels", "wire-version": 1}), "no-party-name"),
        (lambda: _reply(metrics={**SIGNED, "wire-version": 2}), "unknown-version"),
        (lambda: _reply(metrics={"party": "a", "payload": "labels"}), "unknown-version"),
        (lambda: _reply(metrics={**SIGNED, "payload": "labels,more"}), "bad-payload"),
        (lambda: _reply(arrays=(np.array([0.5, np.nan]),)), "not-a-number"),
        (lambda: _reply(arrays=(np.array([np.inf], dtype=np.float32),)), "not-a-number"),
        (lambda: _reply(arrays=(np.array(["a"]),)), "not-a-number"),
        (lambda: _reply(arrays=(np.array([1j]),)), "not-a-number"),
        (lambda: _message(RecordDict()), "bad-payload"),
        (lambda: _message(RecordDict({"reply": ConfigRecord(SIGNED)})), "bad-payload"),
        (lambda: _message(RecordDict({"reply": MetricRecord({"party": 1})})), "bad-payload"),
        (lambda: _damaged(b""), "bad-payload"),
        (lambda: _damaged(b"\x93NUMPY damaged"), "bad-payload"),
    ],
)
def test_whatever_is_wrong_with_a_reply_becomes_a_code(message, code):
    assert records.open_reply(message(), "fit").code == code


def _damaged(data):
    content = records.reply_record([LABELS], 3, SIGNED)
    content["arrays"] = ArrayRecord({"0": Array(dtype="int16", shape=(3,), stype="numpy.ndarray", data=data)})
    return _message(content)


class _Bomb:
    def __reduce__(self):
        return pytest.fail, ("a pickled object was run",)


def test_a_pickled_object_in_a_reply_is_refused_and_not_run():
    from io import BytesIO

    buffer = BytesIO()
    np.save(buffer, np.array([_Bomb()], dtype=object), allow_pickle=True)
    assert records.open_reply(_damaged(buffer.getvalue()), "fit").code == "bad-payload"


def test_a_name_of_another_type_is_read_as_text_and_cannot_break_the_record():
    assert records.open_reply(_reply(metrics={**SIGNED, "party": b"a"}), "fit").party == "b'a'"


def test_numbers_are_metrics_as_those_of_flower_s_own_strategies_and_a_mod_may_add_others():
    content = records.reply_record([LABELS], 3, {**SIGNED, "accuracy-own": 0.5, "rows-own": 4, "done": True}, loss=0.25)
    assert dict(content["metrics"]) == {"num-examples": 3, "loss": 0.25, "accuracy-own": 0.5, "rows-own": 4}
    assert dict(content["reply"]) == {"party": "a", "wire-version": records.WIRE_VERSION, "done": True}
    content["metrics"].update({"train-time": 1.5, "party": 2})
    assert records.open_reply(_message(content), "fit").party == "a"


def test_several_arrays_of_one_thing_keep_their_order_beside_others():
    weights = [np.full(1, i, dtype=np.float32) for i in range(12)]
    named = {"indices": np.arange(2), **records.numbered("model", weights)}
    found = records.numbered_arrays(dict(sorted(named.items())), "model")  # model.10 sorts before model.2
    assert [float(array[0]) for array in found] == list(range(12))


@pytest.mark.parametrize("names", [[], ["model.1"], ["model.0", "model.2"], ["model.0", "model.01"], ["model.x"]])
def test_numbered_arrays_with_a_gap_are_refused(names):
    with pytest.raises(PayloadError, match=r"payload must hold model\.0, model\.1, \.\.\. without a gap, got"):
        records.numbered_arrays({name: np.zeros(1) for name in names}, "model")
