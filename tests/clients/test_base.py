"""A party is a NumPyClient, which runs with arrays alone and says nothing of its own."""

import json

import numpy as np
import pytest
from federation import CENTRES, model, parties, party, rows
from flwr.client import NumPyClient
from visits import CONFIG, RESPONSE, fit, of_run

from fedkd_flwr.clients import FedCTClient


def test_an_error_text_stays_in_the_party_s_own_log(caplog):
    class Broken(FedCTClient):
        def learn(self, instruction):
            raise ValueError("row 12 holds 3.14")

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


def _silo(**changes):
    y = np.repeat(np.array([0, 1, 2], dtype=np.int16), [30, 15, 5])
    tests = {"own": (CENTRES[y].astype(np.float32), y)}
    return party("a", *rows(20, seed=0), simulated=False, tests=tests, **changes)


def test_only_the_metrics_that_a_silo_names_leave_with_their_number_of_rows():
    for names, told in (((), set()), (("macro-f1",), set()), (("accuracy",), {"accuracy-own", "rows-own"})):
        member = _silo(share_metrics=names)
        assert {name for name in fit(member)[2] if name not in ("party", "payload", "wire-version")} == told
        loss, _, metrics = FedCTClient(member).evaluate([], CONFIG)
        assert np.isnan(loss) == ("accuracy" not in names)
        measured = {name: json.loads(value) for name, value in metrics.items() if isinstance(value, bytes)}
        assert set(measured) == ({"solo-own", "federated-own"} if names else set())
        assert all(one.keys() == {"n", names[0].replace("-", "_")} for one in measured.values())
        assert "model" not in metrics
    assert "model" in FedCTClient(_silo(share_metrics=["model"])).evaluate([], CONFIG)[2]


@pytest.mark.parametrize(
    ("least", "support"), [(0, [30, 15, 5]), (5, [30, 15, 5]), (10, [30, None, None]), (None, [30, None, None])]
)
def test_figures_of_a_class_with_few_test_rows_stay_at_the_silo(least, support):
    metrics = FedCTClient(
        _silo(share_metrics=["recall"], **({} if least is None else {"min_support": least}))
    ).evaluate([], CONFIG)[2]
    assert json.loads(metrics["federated-own"])["support"] == support


@pytest.mark.parametrize("forgets", [False, True])
def test_a_final_visit_that_speaks_of_no_noise_gets_no_metrics_where_a_round_had_a_claim(tmp_path, forgets):
    shared = {"share_metrics": ("accuracy",), "min_support": 0, "model": model, "keep_state": True}
    X, y = rows(20, seed=0)
    bare = dict(CONFIG)
    never_claimed = FedCTClient(of_run(tmp_path / "2", X, y, **shared)).evaluate([], bare)
    assert "federated-common" in never_claimed[2]
    assert len(fit(of_run(tmp_path, X, y, **shared), **RESPONSE, privacy="party")[0]) == 1
    member = of_run(tmp_path, X, y, **shared)
    if forgets:
        member.state.remove()  # the ledger remembers
    assert set(FedCTClient(member).evaluate([], bare)[2]) == {"party", "wire-version"}


def test_a_simulated_party_leaves_no_state_behind_when_it_has_finished(tmp_path):
    member = parties(1, state=tmp_path)[0]
    client = FedCTClient(member)
    client.fit([], CONFIG)
    assert member.state.path.exists()
    client.evaluate([], CONFIG)
    assert not member.state.path.exists()
