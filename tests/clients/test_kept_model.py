"""A model goes on only from what the same rows and the same algorithm made."""

import numpy as np
import pytest
from federation import rows
from visits import NFDP, RESPONSE, WIRE, fit, of_run

from fedkd_flwr.clients import FedCTClient, FedMDClient
from fedkd_flwr.errors import ModelBytesError
from fedkd_flwr.models import serialize
from fedkd_flwr.wire.row_codec import encode_rows


def test_no_net_that_learnt_from_all_rows_in_one_algorithm_goes_on_in_another_that_claims_a_subset(
    tmp_path, monkeypatch
):
    """A hostile SuperLink may name another algorithm in each round of a run."""
    started = []
    begin = FedMDClient.begin
    monkeypatch.setattr(FedMDClient, "begin", lambda self, *a: started.append(1) or begin(self, *a))
    X, y = rows(40, seed=0)
    asked = encode_rows(np.arange(60), num_public=60)
    for server_round, client, settings in ((1, FedMDClient, NFDP), (2, FedCTClient, RESPONSE), (3, FedMDClient, NFDP)):
        instruction = {**WIRE, **settings, "server-round": server_round, "last-round": server_round - 1}
        arrays, names = ([asked], "indices") if client is FedMDClient else ([], "")
        instruction |= {"algorithm": client.card.name, "payload": names, "privacy": "party"}
        assert len(client(of_run(tmp_path, X, y)).fit(arrays, instruction)[0]) == 1
    assert len(started) == 2  # what the second round made was trained on rows outside the subset


@pytest.mark.parametrize("changed", [False, True])
def test_a_net_does_not_carry_rows_into_an_answer_that_other_rows_pay_for(tmp_path, monkeypatch, changed):
    restored = []
    monkeypatch.setattr(serialize, "loads", lambda *a, loads=serialize.loads, **w: restored.append(1) or loads(*a, **w))
    for server_round, seed in ((1, 0), (2, int(changed))):
        asked = {**RESPONSE, "privacy": "party", "server-round": server_round, "last-round": server_round - 1}
        assert len(fit(of_run(tmp_path, *rows(20, seed=seed)), **asked)[0]) == 1
    assert len(restored) == (0 if changed else 1)


def test_a_party_whose_kept_model_cannot_be_read_starts_afresh_and_says_so(tmp_path, monkeypatch):
    """Not all that can be written can be read again: what a fit adds to an estimator may be of a type of its own."""
    monkeypatch.setattr(serialize, "loads", lambda *a, **w: (_ for _ in ()).throw(ModelBytesError("an unknown type")))
    told = []
    for server_round in (1, 2):
        asked = {"server-round": server_round, "last-round": server_round - 1}
        arrays, count, metrics = fit(of_run(tmp_path, *rows(20, seed=0)), **asked)
        assert (len(arrays), count) == (1, 60)
        told.append(str(metrics.get("notes", "")))
    assert "state-lost" not in told[0]
    assert "state-lost" in told[1]
