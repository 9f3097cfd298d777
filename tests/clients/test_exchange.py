"""What an algorithm says at a party, where it says nothing else."""

import numpy as np
from federation import party, rows
from visits import CONFIG

from fedkd_flwr.algorithms.fedct import CARD
from fedkd_flwr.clients.answer import Answer
from fedkd_flwr.clients.exchange import PartyExchange
from fedkd_flwr.clients.instruction import Instruction, opened
from fedkd_flwr.clients.visit import Visit
from fedkd_flwr.stores.party_state import Saved
from fedkd_flwr.wire.label_codec import decode_labels

ASKED = Instruction(server_round=1, config=None)


class Says(PartyExchange):
    card = CARD

    def learn(self, instruction):
        return Answer(values={"labels": np.full((1, 60), 2, np.int16)})

    def finish(self, instruction):
        raise NotImplementedError


def test_learn_and_finish_alone_make_an_algorithm_whose_reply_is_free_and_about_every_public_row():
    member = party("a", *rows(9, seed=0))
    arrays, count, _ = Visit(Says(member)).answer([], CONFIG)
    assert (decode_labels(arrays[0], public=member.spec, server_round=1) == 2).all()
    assert count == 60
    said = Says(member)
    assert said.charge(ASKED) is said.table({}, ASKED) is None
    assert said.asks(ASKED) == {}
    assert said.asked_rows(ASKED).tolist() == list(range(60))


def test_a_party_that_learnt_nothing_answers_with_the_lowest_class():
    labels = Says(party("a", *rows(9, seed=0))).fixed(ASKED).values["labels"]
    assert (labels.dtype, labels.shape, set(labels.ravel())) == (np.int16, (1, 60), {0})


def test_changes_may_refer_to_the_last_reply_but_not_to_what_is_said_once():
    said, values = Says(party("a", *rows(9, seed=0))), {"labels": [1], "class-counts": [2]}
    saved = Saved(
        server_round=1,
        arrays={f"value.{name}": np.array(one) for name, one in values.items()},
        meta={"values": [*values]},
    )
    assert set(said.referable(saved, ASKED)) == {*values}
    ratios = opened(said.party, CARD, [], {**CONFIG, "privacy": "none", "rule": "density-ratio"})[1]
    assert set(said.referable(saved, ratios)) == {"labels"}
