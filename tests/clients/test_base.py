"""A party is a NumPyClient, which runs with arrays alone and says nothing of its own."""

import logging

import numpy as np
import pytest
from federation import party, rows
from flwr.client import NumPyClient
from visits import CONFIG, fit

from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.clients import FedCTClient
from fedkd_flwr.errors import Code, LimitError
from fedkd_flwr.wire.label_codec import decode_labels


def test_a_reply_carries_labels_and_the_number_of_public_rows_never_of_private_ones():
    member = party("a", *rows(17, seed=0))
    arrays, count, metrics = fit(member)
    assert count == 60
    assert decode_labels(arrays[0], public=member.spec, server_round=1).shape == (1, 60)
    assert metrics["party"] == "a"


def test_an_error_text_stays_in_the_party_s_own_log(caplog):
    class Broken(FedCTClient):
        def learn(self, instruction):
            raise ValueError("row 12 holds 3.14")

    with caplog.at_level(logging.ERROR, logger="flwr.party"):
        answer = Broken(party("a", *rows(20, seed=0))).fit([], CONFIG)
    assert "3.14" not in str(answer)
    assert "row 12 holds 3.14" in caplog.text


def test_a_whole_trip_is_arrays_and_plain_values_without_flower(caplog):
    client = FedCTClient(party("a", *rows(20, seed=0)))
    assert isinstance(client, NumPyClient)
    assert client.ready(CONFIG) == {"party": "a", "wire-version": 1}
    arrays, count, metrics = client.fit([], CONFIG)
    labels = {"server-round": 1, "payload": metrics["payload"]}
    loss, tested, told = client.evaluate(arrays, {**CONFIG, **labels})
    assert (count, tested) == (60, 60)
    assert 0 <= loss < 0.5
    assert {type(value) for value in told.values()} <= {str, int, float, bytes}


@pytest.mark.parametrize("mechanism", ["none", "randomized-response"])
def test_a_rehearsal_tells_of_a_limit_that_private_rows_may_have_passed_only_where_nothing_is_claimed(mechanism):
    def too_much(work, *, parts=1):  # the process that tries the model is a copy of this one, with all private rows
        raise LimitError("memory")

    noise = {"label_mechanism": mechanism, "noise_strength": 1.0} if mechanism != "none" else {}
    told = {**CONFIG, **FedCTConfig(**noise).told()}
    usual = FedCTClient(party("a", *rows(20, seed=0))).rehearse(told)
    arrays, count, said = FedCTClient(party("a", *rows(20, seed=0), apart=too_much)).rehearse(told)
    if mechanism == "none":
        assert (arrays, count, said["code"]) == ([], 0, Code.LIMIT_EXCEEDED)
    else:
        np.testing.assert_array_equal(arrays, usual[0])
        assert (count, said) == usual[1:]
