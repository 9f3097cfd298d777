"""SCARLET in whole rounds through the real door: what travels, and that all parties keep one cache."""

import logging

import numpy as np
import pytest
from federation import handler, model, party, public_set, rows
from grid import InProcessGrid

from fedkd_flwr.clients import FedMDClient, SCARLETClient
from fedkd_flwr.stores.nothing import NO_STATE
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.strategies import SCARLET, FedMD, FedMDConfig, ScarletConfig
from fedkd_flwr.wire.records import open_instruction
from fedkd_flwr.wire.row_codec import decode_rows

KINDS = {
    "scarlet": (SCARLET, ScarletConfig, SCARLETClient),
    "fedmd": (FedMD, FedMDConfig, FedMDClient),
}


def _members(folder, name, count=3):
    made = []
    for i in range(count):
        who = f"party-{i:03d}"
        state = PartyState(folder, run_id="1", party=who) if folder is not None else NO_STATE
        made.append(party(who, *rows(20, seed=i), allow=frozenset({name}), model=model, state=state, keep_model=True))
    return made


def _run(name, members, *, rounds=4, tamper=None, **settings):
    strategy_of, config_of, client_of = KINDS[name]
    config = config_of(seed=1, nodes_stable_s=1e-6, public_rows_per_round=60, **settings)
    strategy = strategy_of(config=config, public=public_set(), min_train_nodes=2)
    clients = [client_of(member) for member in members]
    grid = InProcessGrid(handler(clients), [{}] * len(members), tamper=tamper)
    strategy.start(grid, num_rounds=rounds, timeout=0.5)
    return strategy, clients, grid


def _payload(message):
    arrays, config = open_instruction(message.content)
    return dict(zip(str(config["payload"]).split(","), arrays, strict=True))


def test_rows_in_the_cache_are_neither_asked_nor_sent(tmp_path):
    every, _, _ = _run("scarlet", _members(tmp_path / "a", "scarlet"), cache_rounds=1)
    cached, _, grid = _run("scarlet", _members(tmp_path / "b", "scarlet"), cache_rounds=10)
    first, *later = cached.record.rounds
    assert first.bytes_up == every.record.rounds[0].bytes_up
    # a round must ask for something: one row in the place of sixty
    assert all(r.bytes_up < first.bytes_up for r in later)  # most of it headers
    last = [m for m in grid.sent if m.metadata.message_type == "train"][-1]
    assert len(decode_rows(_payload(last)["indices"], num_public=60)) == 1
    assert sum(r.bytes_down for r in later[1:]) < sum(r.bytes_down for r in every.record.rounds[2:])
    assert {name for m in grid.sent[:3] for name in _payload(m)} == {"indices"}


def test_the_parties_caches_are_the_server_s(tmp_path):
    strategy, clients, _ = _run("scarlet", _members(tmp_path, "scarlet"), cache_rounds=3, rounds=5)
    for client in clients:
        kept = client.party.state.load().arrays
        assert np.array_equal(kept["kept.cached"], strategy.exchange.cache.rows)


def test_without_a_cache_and_an_exponent_scarlet_is_fedmd(tmp_path):
    plain, _, _ = _run("fedmd", _members(tmp_path / "a", "fedmd"))
    same, _, _ = _run("scarlet", _members(tmp_path / "b", "scarlet"), cache_rounds=1, exponent=1.0)
    assert np.allclose(plain.exchange.average, same.exchange.average, atol=1e-6)
    assert [p.federated for p in plain.record.parties] == [p.federated for p in same.record.parties]


def test_a_party_that_missed_a_round_gets_the_whole_cache(tmp_path, caplog):
    lost = {"round": 0}

    def lose_one(node, reply):
        if node != 2 or reply.metadata.message_type != "train":
            return reply
        lost["round"] += 1
        return None if lost["round"] == 2 else reply

    with caplog.at_level(logging.WARNING, logger="flwr.party"):
        strategy, clients, grid = _run("scarlet", _members(tmp_path, "scarlet"), cache_rounds=3, tamper=lose_one)
    assert [r.code for r in strategy.record.rounds[1].rejected] == ["no-reply"]
    third = [_payload(m) for m in grid.sent if m.metadata.message_type == "train"][6:9]
    assert ["cached" in payload for payload in third] == [False, False, True]
    assert "were not kept here" not in caplog.text
    assert np.array_equal(clients[2].party.state.load().arrays["kept.cached"], strategy.exchange.cache.rows)


def test_a_party_without_memory_learns_what_comes_and_goes_on(caplog):
    with caplog.at_level(logging.WARNING, logger="flwr.party"):
        strategy, _, _ = _run("scarlet", _members(None, "scarlet"), cache_rounds=10)
    assert strategy.record.status == "completed"
    assert "were not kept here" in caplog.text


@pytest.mark.parametrize("name", ["fedmd", "scarlet"])
def test_fewer_bits_take_fewer_bytes_and_end_in_much_the_same(tmp_path, name):
    floats, _, _ = _run(name, _members(tmp_path / "a", name), score_bits=16)
    for bits in (8, 1):
        steps, _, _ = _run(name, _members(tmp_path / f"b{bits}", name), score_bits=bits)
        up = [sum(r.bytes_up for r in s.record.rounds) for s in (floats, steps)]
        assert up[1] < up[0]
        assert steps.record.mean_accuracies()["federated-common"] > 0.8
