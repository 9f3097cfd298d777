"""A silo that answers by file: its node's rules hold, a question has one answer, and a false one costs nothing."""

import json
import random
import stat
from base64 import b64encode

import pytest
from by_file import L0, L2, make_key, spoilt

from fedkd_flwr.errors import DataError, RefusalError
from fedkd_flwr.silo.door import NotYetApprovedError
from fedkd_flwr.silo.letters import Letter, read_letter
from fedkd_flwr.stores.held_replies import held_in

pytestmark = pytest.mark.usefixtures("in_this_process")


def test_a_question_that_comes_again_gets_the_same_bytes_and_no_second_charge(federation):
    question = federation.ask(L2).question
    first = federation.answer("north", question).read_bytes()
    charged = federation.charges()
    assert federation.answer("north", question, "again.fedkd").read_bytes() == first
    assert federation.charges() == charged
    assert len(charged["north"]) == 1


def test_another_question_about_the_same_round_is_refused_and_not_charged(federation):
    question = federation.ask(L2).question
    federation.answer("north", question)
    charged = federation.charges()
    letter = read_letter(question, None)
    changed = Letter(**letter.model_dump() | {"settings": {**letter.settings, "name": "another"}})
    question.write_bytes(changed.sealed(federation.keys["server"]))
    with pytest.raises(DataError, match=r"question\.fedkd must be the one that was answered about this round"):
        federation.answer("north", question)
    assert federation.charges() == charged


def test_two_hundred_files_that_are_cut_changed_or_forged_are_named_and_charge_nothing(federation):
    question = federation.ask(L2).question
    data, other = question.read_bytes(), federation.ask(L2).question.read_bytes()
    rng, bad = random.Random(5), federation.folder / "bad.fedkd"
    letter, thief = read_letter(question, None), make_key("thief", federation.folder)
    named = Letter(**letter.model_dump() | {"sender": "north"})
    forged = [letter.sealed(thief), letter.sealed(federation.keys["north"]), named.sealed(federation.keys["north"])]
    for i in range(200):
        bad.write_bytes(forged[i % 3] if i % 5 == 0 else spoilt(i, data, other, rng))
        with pytest.raises(DataError, match=r"bad\.fedkd must"):
            federation.answer("north", bad)
    assert federation.charges() == {}
    assert not list(federation.folder.glob("state-north/answers/*/*.fedkd"))


def test_an_answer_is_no_question_and_a_question_to_others_is_none_to_this_party(federation):
    question = federation.ask(L0).question
    federation.answer("north", question)
    left, sent = _egress(federation)
    assert (left["left"], left["round"], left["output"]["arrays"][0]["name"]) == (True, 1, "labels")
    assert (sent["answer"], sent["outcome"]) == (left["number"], "sent")
    line, digest, _, _ = (signed := question.read_bytes()).split(b"\n")
    question.write_bytes(b"\n".join((line, digest, b64encode(bytes(64)), b"")))
    with pytest.raises(DataError, match="signed with the key of server, got another signature"):
        federation.answer("west", question)
    question.write_bytes(signed)
    letter, key = read_letter(question, None).model_dump(), federation.keys["server"]
    question.write_bytes(Letter(**letter | {"kind": "answer"}).sealed(key))
    with pytest.raises(DataError, match="must be a question to west"):
        federation.answer("west", question)
    del letter["contents"]["west"]
    question.write_bytes(Letter(**letter).sealed(key))
    with pytest.raises(DataError, match=r"must be a question to west, got .*for north, south"):
        federation.answer("west", question)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"allow-algorithms": "fedct"}, "not-allowed"),
        ({"run-rules": "seed=4"}, "not-allowed"),
        ({"require-privacy": True}, "privacy-required"),
        ({"public-fingerprint": "0" * 20}, "public-set-mismatch"),
        ({"epsilon-budget": 0.5}, "budget-exceeded"),
    ],
    ids=["algorithm", "setting", "privacy", "public set", "budget"],
)
def test_what_a_node_refuses_a_silo_refuses_by_file(federation, rule, code):
    question = federation.ask(L2 if "epsilon-budget" in rule else L0).question
    federation.nodes["north"] |= rule
    with pytest.raises(RefusalError, match=code):
        federation.answer("north", question)
    assert not (federation.folder / "north.fedkd").exists()
    assert not any(federation.charges().values())
    assert [line["left"] for line in _egress(federation)] == [False]


def _egress(federation):
    """Return the lines of north's egress log."""
    (log,) = (federation.folder / "state-north" / "egress").rglob("log.jsonl")
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("verdict", ["approved", "rejected"])
def test_an_answer_waits_for_an_approval_and_comes_or_does_not_when_it_is_asked_for_again(federation, verdict):
    question = federation.ask(L2).question
    federation.nodes["north"]["approve"] = "always"
    for _ in range(2):
        with pytest.raises(NotYetApprovedError):
            federation.answer("north", question)
    assert not (federation.folder / "north.fedkd").exists()
    (held,) = held_in(federation.folder / "state-north")
    held.decide(verdict, by="anna")
    assert len(federation.charges()["north"]) == 1
    if verdict == "rejected":
        with pytest.raises(RefusalError, match="held-back"):
            federation.answer("north", question)
        assert not (federation.folder / "north.fedkd").exists()
        return
    content = read_letter(federation.answer("north", question), None).record("north")
    held_arrays = {name: array.tolist() for name, array in held.reply.arrays.items()}
    assert {name: array.numpy().tolist() for name, array in content["arrays"].items()} == held_arrays
    assert len(federation.charges()["north"]) == 1


def test_an_answer_is_kept_for_its_owner_alone_before_it_is_written_where_it_was_asked_for(federation):
    question = federation.ask(L2).question
    with pytest.raises(DataError, match=r"Nothing is lost: \S+ is the file"):
        federation.answer("north", question, "public.csv/answer.fedkd")
    charged = federation.charges()
    answers = federation.folder / "state-north" / "answers"
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (answers, answers / "north")] == [0o700, 0o700]
    (kept,) = answers.rglob("*.fedkd")
    assert federation.answer("north", question).read_bytes() == kept.read_bytes()
    assert federation.charges() == charged
    assert len(charged["north"]) == 1
