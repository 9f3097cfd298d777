"""PATE at a party: one teacher on all its rows."""

from federation import model, party, rows
from visits import WIRE

from fedkd_flwr.algorithms.pate import PATEConfig
from fedkd_flwr.clients import PATEClient
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.wire.label_codec import decode_labels


def test_a_party_sends_what_one_teacher_that_learnt_all_its_rows_says_of_the_public_rows():
    member = party("a", *rows(20, seed=1), allow=frozenset({"pate"}))
    config = PATEConfig()
    (sent,), _, _ = PATEClient(member).fit([], {**config.told(), **WIRE, "algorithm": "pate"})
    teacher = model(seed=derive_seed(derive_seed(config.seed, "a"), "model")).fit(member.X, member.y)
    said = decode_labels(sent, public=member.spec, server_round=1)
    assert said.tolist() == [teacher.predict(member.public.X).tolist()]
