"""A silo that answers by file: its node's rules hold, a question has one answer, and a false one costs nothing."""

import json
import random

import pytest
from by_file import L0, L2

from fedkd_flwr.errors import ConfigError, DataError, RefusalError
from fedkd_flwr.silo import letters
from fedkd_flwr.silo.door import NotYetApprovedError
from fedkd_flwr.silo.letters import PrivateKey, make_key, read_letter, sealed
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
    changed = letters.Letter(**{**vars(letter), "settings": {**letter.settings, "name": "another"}})
    question.write_bytes(sealed(changed, PrivateKey.read(federation.folder / "server.key")))
    with pytest.raises(DataError, match=r"question\.fedkd must be the one that was answered about this round"):
        federation.answer("north", question)
    assert federation.charges() == charged


def test_two_hundred_files_that_are_cut_changed_or_forged_are_named_and_charge_nothing(federation):
    question = federation.ask(L2).question
    data, rng, bad = question.read_bytes(), random.Random(5), federation.folder / "bad.fedkd"
    make_key("thief", federation.folder)
    (federation.folder / "thief").mkdir()
    make_key("server", federation.folder / "thief")
    letter = read_letter(question, None)
    thieves = [PrivateKey.read(federation.folder / one) for one in ("thief.key", "thief/server.key", "north.key")]
    forged = [sealed(letter, key) for key in thieves]
    for i in range(200):
        at = rng.randrange(len(data))
        cut, changed = data[:at], data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        swapped = data[: -64 + at % 64] + data[at : at + 1] + data[-63 + at % 64 :] if at % 64 < 63 else data + b"x"
        longer = data + data[at:]
        bad.write_bytes([cut, changed, swapped if swapped != data else cut, longer, forged[i % 3]][i % 5])
        with pytest.raises(DataError, match=r"bad\.fedkd must"):
            federation.answer("north", bad)
    assert federation.charges() == {}
    assert not list(federation.folder.glob("state-north/answers/*/*.fedkd"))


def test_a_file_with_the_right_digest_and_another_signature_is_forged(federation):
    question = federation.ask(L0).question
    data = question.read_bytes()
    question.write_bytes(data[:-64] + bytes(64))
    with pytest.raises(DataError, match="signed with the key of server, got another signature"):
        federation.answer("north", question)


def test_an_answer_is_no_question_and_a_question_to_others_is_none_to_this_party(federation):
    question = federation.ask(L0).question
    federation.answer("north", question)
    letter, key = read_letter(question, None), PrivateKey.read(federation.folder / "server.key")
    question.write_bytes(sealed(letters.Letter(**{**vars(letter), "kind": "answer"}), key))
    with pytest.raises(DataError, match="must be a question to west"):
        federation.answer("west", question)
    others = {"parties": letter.parties[:2], "contents": letter.contents[:2]}
    question.write_bytes(sealed(letters.Letter(**{**vars(letter), **others}), key))
    with pytest.raises(DataError, match=r"must be a question to west, got .*for north, south"):
        federation.answer("west", question)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"allow-algorithms": "fedct"}, "not-allowed"),
        ({"run-rules": "seed=4"}, "run-rules of this site"),
        ({"require-privacy": True}, "privacy-required"),
        ({"public-fingerprint": "0" * 20}, "must be"),
    ],
    ids=["algorithm", "setting", "privacy", "public set"],
)
def test_what_a_node_refuses_a_silo_refuses_by_file(federation, rule, code):
    question = federation.ask(L0).question
    federation.nodes["north"] |= rule
    with pytest.raises((RefusalError, DataError, ConfigError), match=code):
        federation.answer("north", question)
    assert not (federation.folder / "north.fedkd").exists()
    assert federation.charges() == {}


def test_a_budget_that_is_spent_refuses(federation):
    question = federation.ask(L2).question
    federation.nodes["north"]["epsilon-budget"] = 0.5
    with pytest.raises(RefusalError, match="budget-exceeded"):
        federation.answer("north", question)
    assert federation.charges() == {"north": []}


def test_an_answer_waits_for_an_approval_and_comes_when_it_is_asked_for_again(federation):
    question = federation.ask(L2).question
    federation.nodes["north"]["approve"] = "always"
    for _ in range(2):
        with pytest.raises(NotYetApprovedError):
            federation.answer("north", question)
    assert not (federation.folder / "north.fedkd").exists()
    (held,) = held_in(federation.folder / "state-north")
    held.decide("approved", by="anna")
    content = read_letter(federation.answer("north", question), None).contents[0]
    held_arrays = {name: array.tolist() for name, array in held.reply.arrays.items()}
    assert {name: array.numpy().tolist() for name, array in content["arrays"].items()} == held_arrays
    assert len(federation.charges()["north"]) == 1


def test_an_answer_that_was_rejected_does_not_leave(federation):
    question = federation.ask(L0).question
    federation.nodes["north"]["approve"] = "always"
    with pytest.raises(NotYetApprovedError):
        federation.answer("north", question)
    (held,) = held_in(federation.folder / "state-north")
    held.decide("rejected", by="anna")
    with pytest.raises(RefusalError, match="held-back"):
        federation.answer("north", question)
    assert not (federation.folder / "north.fedkd").exists()


def test_what_left_by_file_stands_in_the_egress_log(federation):
    federation.answer("north", federation.ask(L0).question)
    (log,) = (federation.folder / "state-north" / "egress").rglob("log.jsonl")
    left, sent = (json.loads(line) for line in log.read_text(encoding="utf-8").splitlines())
    assert (left["left"], left["round"], left["output"]["arrays"][0]["name"]) == (True, 1, "labels")
    assert (sent["answer"], sent["outcome"]) == (left["number"], "sent")
