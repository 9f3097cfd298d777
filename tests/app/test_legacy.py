"""Our strategies in Flower's old API: its real Server and client manager, NumPyClients behind proxies, no network."""

import logging
from functools import partial

import numpy as np
import pytest
from federation import accuracies, fedct_grid, fedkt_grid, model, parties, public_set, rows
from flwr.common import Code, FitIns, FitRes, Parameters, Status, parameters_to_ndarrays
from flwr.server.client_manager import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.server import Server
from flwr.supercore.task_identity import TaskIdentity

from fedkd_flwr.app.legacy import LegacyStrategy, node_of
from fedkd_flwr.baselines.fedprox import FedProx
from fedkd_flwr.clients import FedCTClient, FedKTClient, FedMDClient, PrivateKTClient
from fedkd_flwr.errors import ConfigError, TooFewPartiesError
from fedkd_flwr.strategies import (
    FedCT,
    FedCTConfig,
    FedKT,
    FedKTConfig,
    FedMD,
    FedMDConfig,
    PrivateKT,
    PrivateKTConfig,
)

CIDS = [f"{i:x}f3a-uuid" for i in range(5)]  # as start_server gives them; a SuperLink's are node ids in decimal


@pytest.fixture(autouse=True)
def no_task(monkeypatch):
    """Have no task, as under start_server: Flower's Message cannot be made there."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, None)


class Proxy(ClientProxy):
    """Calls a client's old-API methods in this process; ``spoil`` replaces what it answers to ``fit``."""

    def __init__(self, cid, client, spoil=None):
        super().__init__(cid)
        self.client, self.spoil = client.to_client(), spoil

    def fit(self, ins, timeout, group_id):
        answer = self.client.fit(ins)
        return answer if self.spoil is None else self.spoil(answer)

    def evaluate(self, ins, timeout, group_id):
        return self.client.evaluate(ins)

    def get_properties(self, ins, timeout, group_id):
        raise NotImplementedError

    def get_parameters(self, ins, timeout, group_id):
        raise AssertionError("nothing that begins at a party may be asked for")

    def reconnect(self, ins, timeout, group_id):
        raise NotImplementedError


def fed(strategy, clients, *, rounds, planned=None, spoil=None, cids=CIDS, manager=None, when_done=None):
    """Run Flower's own old server; ``spoil`` by client number."""
    manager = SimpleClientManager() if manager is None else manager  # an empty one is false
    for i, client in enumerate(clients):
        manager.register(Proxy(cids[i], client, (spoil or {}).get(i)))
    wrapped = LegacyStrategy(strategy, num_rounds=planned or rounds, when_done=when_done)
    history, _ = Server(client_manager=manager, strategy=wrapped).fit(num_rounds=rounds, timeout=None)
    return history


def fedct(**settings):
    keywords = {k: settings.pop(k) for k in ("min_available_nodes", "min_train_nodes") if k in settings}
    config = FedCTConfig(seed=1, nodes_stable_s=1e-6, node_deadline_s=0.2, steps_per_round=20, **settings)
    return FedCT(config=config, public=public_set(), **keywords)


def fedkt(**settings):
    config = FedKTConfig(seed=1, nodes_stable_s=1e-6, **settings)
    return FedKT(config=config, public=public_set(), final_model=model, test=rows(100, seed=7))


def round_facts(record):
    names = ("server_round", "asked", "answered", "agreement", "labelled_share", "changed_share", "server_accuracy")
    names += ("kept_share", "accuracy", "bytes_up")
    return [{name: getattr(this, name) for name in names} for this in record.rounds]


# ------------------------------------------------------------------------------------------ the same run, either way


def _present(monkeypatch, make, members, grid, rounds):
    with monkeypatch.context() as patch:
        for name in ("_task_id", "_run_id", "_node_id"):
            patch.setattr(TaskIdentity, name, 1)
        strategy = make()
        strategy.start(grid(members), num_rounds=rounds)
        return strategy


def test_fedct_gives_what_the_present_api_gives_round_by_round(monkeypatch):
    make = partial(fedct, stop_when_converged=False)
    expected = _present(monkeypatch, make, parties(), fedct_grid, 3)
    strategy = make()
    history = fed(strategy, [FedCTClient(p) for p in parties()], rounds=3)
    assert (strategy.exchange.consensus == expected.exchange.consensus).all()
    assert round_facts(strategy.record) == round_facts(expected.record)
    assert accuracies(strategy) == accuracies(expected)
    assert strategy.record.status == "completed"
    assert strategy.record.seconds > 0.0
    # parties are asked to finish once, after the last round; Flower keeps what they share
    assert [server_round for server_round, _ in history.metrics_distributed["federated-common"]] == [3]
    shared = strategy.record.mean_accuracies()["federated-common"]
    assert history.losses_distributed == [(3, pytest.approx(1.0 - shared))]


def test_fedkt_leaves_the_same_model_and_flower_s_history_holds_its_accuracy(monkeypatch):
    expected = _present(monkeypatch, fedkt, parties(), fedkt_grid, 1)
    strategy = fedkt()
    history = fed(strategy, [FedKTClient(p) for p in parties()], rounds=1)
    X = rows(100, seed=7)[0]
    assert (strategy.exchange.model.predict(X) == expected.model.predict(X)).all()
    assert round_facts(strategy.record) == round_facts(expected.record)
    assert history.metrics_centralized["accuracy"] == [(1, expected.record.server_accuracy)]


def test_claims_are_those_of_the_present_api(monkeypatch):
    make = partial(fedct, label_mechanism="randomized-response", noise_strength=2.0, stop_when_converged=False)
    members = partial(parties, simulated=True)
    expected = _present(monkeypatch, make, members(), fedct_grid, 2)
    strategy = make()
    fed(strategy, [FedCTClient(p) for p in members()], rounds=2)
    assert [c.as_dict() for c in strategy.claims] == [c.as_dict() for c in expected.claims] == strategy.record.claims
    assert strategy.claims[0].epsilon == expected.claims[0].epsilon > 2.0


def _net(*, seed):
    return model(seed=seed, name="mlp", hidden=[8], optimizer="sgd", lr=0.1, batch_size=8)


def _privatekt():
    config = PrivateKTConfig(seed=1, nodes_stable_s=1e-6, local_epochs=1, solo_epochs=1)
    return PrivateKT(config=config, public=public_set(), global_model=_net), PrivateKTClient, 2


def _fedmd():
    config = FedMDConfig(seed=1, nodes_stable_s=1e-6, initial_epochs=1)
    return FedMD(config=config, public=public_set()), FedMDClient, 2


@pytest.mark.parametrize("make", [_privatekt, _fedmd])
def test_other_algorithms_run_too_whatever_arrays_they_send(make):
    pytest.importorskip("torch")
    strategy, client, rounds = make()
    held = parties(3, allow=frozenset({strategy.exchange.card.name}), model=_net, simulated=True)
    fed(strategy, [client(p) for p in held], rounds=rounds)
    assert strategy.record.status == "completed"
    assert [len(this.answered) for this in strategy.record.rounds] == [3] * rounds
    assert set(strategy.record.mean_accuracies()) == {"solo-common", "federated-common"}


# ------------------------------------------------------------------------------------------ ends


def test_a_run_that_converges_early_is_closed_once_and_asks_for_nothing_more():
    done = []
    strategy = fedct()
    fed(strategy, [FedCTClient(p) for p in parties()], rounds=10, when_done=done.append)
    assert len(strategy.record.rounds) == strategy.exchange.finished_round < 10
    assert strategy.record.parties[0].federated
    assert done == [strategy]
    assert strategy.record.status == "completed"


def test_rounds_beyond_the_planned_ones_ask_for_nothing_and_say_so(caplog):
    strategy = fedkt()
    with caplog.at_level(logging.WARNING, logger="flwr"):
        fed(strategy, [FedKTClient(p) for p in parties(3)], rounds=2, planned=1)
    assert strategy.record.status == "completed"
    assert len(strategy.record.rounds) == 1
    assert "ServerConfig(num_rounds=...) is above the 1 of LegacyStrategy" in caplog.text


def test_fewer_rounds_than_planned_leave_a_record_that_says_running():
    strategy = fedct(stop_when_converged=False)
    fed(strategy, [FedCTClient(p) for p in parties(3)], rounds=1, planned=2)
    assert strategy.record.status == "running"
    assert not strategy.record.parties[0].federated


def test_parties_that_all_leave_before_the_end_do_not_keep_the_run_open():
    manager = SimpleClientManager()
    strategy = fedkt()
    answered = []

    def leave(answer):
        answered.append(answer)
        if len(answered) == 3:
            manager.clients.clear()
        return answer

    spoil = dict.fromkeys(range(3), leave)
    fed(strategy, [FedKTClient(p) for p in parties(3)], rounds=1, manager=manager, spoil=spoil)
    assert strategy.record.status == "completed"
    assert not strategy.record.parties[0].federated


# ------------------------------------------------------------------------------------------ failures


def _raises(answer):
    raise RuntimeError("private row 17")


def _not_ok(answer):
    return FitRes(Status(Code.FIT_NOT_IMPLEMENTED, ""), answer.parameters, 0, {})


def _no_array(answer):
    return FitRes(answer.status, Parameters([b"no array"], "numpy.ndarray"), 1, answer.metrics)


def _pickled(answer):
    return FitRes(answer.status, Parameters(answer.parameters.tensors, "pickle"), 1, answer.metrics)


def _no_record(answer):
    return FitRes(answer.status, answer.parameters, 1, {"party": {"a": "dict"}})


@pytest.mark.parametrize(
    ("spoil", "code", "named"),
    [
        (_raises, "no-reply", False),
        (_not_ok, "party-crashed", False),
        (_no_array, "bad-payload", True),
        (_pickled, "bad-payload", True),
        (_no_record, "bad-payload", False),
    ],
)
def test_a_client_that_fails_is_left_out_with_a_reason_and_the_run_goes_on(spoil, code, named, caplog):
    strategy = fedkt()
    fed(strategy, [FedKTClient(p) for p in parties(4)], rounds=1, spoil={1: spoil})
    [rejected] = strategy.record.rounds[0].rejected
    assert (rejected.code, rejected.party) == (code, "party-001" if named else "")
    assert rejected.node_id == str(node_of(Proxy(CIDS[1], FedKTClient(parties(1)[0]))))
    assert strategy.record.rounds[0].answered == ["party-000", "party-002", "party-003"]
    assert strategy.record.status == "completed"
    assert "private row" not in caplog.text


def test_too_few_replies_fail_the_run_which_still_claims_what_was_released():
    done = []
    strategy = fedct(label_mechanism="randomized-response", noise_strength=2.0)
    with pytest.raises(TooFewPartiesError, match=r"valid replies in round 1 must be >= 2, got 1\. Left out: node"):
        fed(
            strategy,
            [FedCTClient(p) for p in parties(2, simulated=True)],
            rounds=2,
            spoil={1: _raises},
            when_done=done.append,
        )
    assert strategy.record.status == "failed"
    assert "valid replies" in strategy.record.reason
    assert strategy.record.claims
    assert done == [strategy]


def test_clients_that_never_come_fail_the_run_at_the_deadline():
    strategy = fedct(min_available_nodes=3)
    with pytest.raises(TooFewPartiesError, match=r"number of nodes must reach 3 within 0\.2 s, got 2"):
        fed(strategy, [FedCTClient(p) for p in parties(2)], rounds=1)
    assert strategy.record.status == "failed"


def test_a_round_that_finds_nobody_fails_although_flower_would_go_on():
    manager = SimpleClientManager()
    strategy = fedct(stop_when_converged=False)
    wrapped = LegacyStrategy(strategy, num_rounds=2)
    for i, one in enumerate(parties(2)):
        manager.register(Proxy(CIDS[i], FedCTClient(one)))
    wrapped.initialize_parameters(manager)
    manager.clients.clear()
    with pytest.raises(TooFewPartiesError, match=r"got 0\. Left out: node \d+: offline, node \d+: offline"):
        wrapped.configure_fit(1, Parameters([], ""), manager)
    assert strategy.record.status == "failed"


@pytest.mark.parametrize(
    ("make", "rounds", "rule"),
    [
        (fedkt, 3, r"num_rounds must be 1 for fedkt, got 3\. It is one-shot"),
        (fedct, 0, "num_rounds must be a whole number >= 1, got 0"),
        (lambda: "fedct", 1, "strategy must be one of this package's that exchange labels or probabilities, got 'str'"),
    ],
)
def test_what_cannot_run_is_refused_when_it_is_wrapped(make, rounds, rule):
    with pytest.raises(ConfigError, match=rule):
        LegacyStrategy(make(), num_rounds=rounds)


def test_weight_averaging_is_refused_with_a_way_out():
    pytest.importorskip("torch")
    strategy = FedProx(public=public_set(), global_model=_net)
    with pytest.raises(ConfigError, match=r"got 'FedProx'\. Use flwr\.server\.strategy\.FedProx in such a project"):
        LegacyStrategy(strategy, num_rounds=1)


# ------------------------------------------------------------------------------------------ what clients get


def _configured(cids):
    manager, strategy = SimpleClientManager(), fedkt(students_per_party=1)
    for cid, one in zip(cids, parties(len(cids)), strict=True):
        manager.register(Proxy(cid, FedKTClient(one)))
    wrapped = LegacyStrategy(strategy, num_rounds=1)
    return strategy, wrapped, wrapped.configure_fit(1, wrapped.initialize_parameters(manager), manager), manager


def test_every_client_gets_its_own_instruction_with_names_of_arrays_and_shared_bytes():
    _, wrapped, asked, manager = _configured(CIDS[:3])
    assert sorted(client.cid for client, _ in asked) == sorted(CIDS[:3])
    assert all(isinstance(ins, FitIns) and "payload" not in ins.config for _, ins in asked)
    wrapped.aggregate_fit(1, [(client, client.fit(ins, None, 1)) for client, ins in asked], [])
    ends = [ins for _, ins in wrapped.configure_evaluate(1, Parameters([], ""), manager)]
    assert [ins.config["payload"] for ins in ends] == ["labels"] * 3
    assert ends[0].config is not ends[1].config
    assert ends[0].parameters.tensors[0] is ends[1].parameters.tensors[0]


def test_a_node_keeps_its_number_and_a_superlink_s_is_its_node_id():
    strategy, _, asked, _ = _configured(["17", "4", CIDS[0]])
    numbers = {client.cid: node_of(client) for client, _ in asked}
    assert (numbers["17"], numbers["4"]) == (17, 4)
    assert numbers[CIDS[0]] == 15512779369126329530  # SHA-256, first 8 bytes: the same in every process
    assert set(strategy.roster.times_asked) == set(numbers.values())


def test_what_combines_to_is_what_flower_holds_as_its_parameters():
    strategy, wrapped, asked, _ = _configured(CIDS[:3])
    parameters, metrics = wrapped.aggregate_fit(1, [(c, c.fit(ins, None, 1)) for c, ins in asked], [])
    [labels] = parameters_to_ndarrays(parameters)
    assert np.array_equal(labels, strategy.exchange.consensus)
    assert metrics["num-parties"] == 3
