"""DP-FedAvg: clipped updates, noise at the server, and a claim that holds for whoever is asked most."""

import math
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord
from rounds import codes, grid_of, make, members, run, same

from fedkd_flwr.baselines.cards import DPFedAvgConfig
from fedkd_flwr.errors import Code, ConfigError, DataError, RefusalError
from fedkd_flwr.models.zoo import make_model
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.noise.sums import ClippedSum
from fedkd_flwr.record.notes import NoteCode
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.ledger import LedgerStore

pytest.importorskip("torch")

QUIET = {"noise_strength": 1e-3}


def moved(strategy):
    start = make("dp-fedavg").model.arrays()
    return math.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(strategy.exchange.model.arrays(), start, strict=True)))


def test_hardly_clipped_and_hardly_noisy_it_is_the_mean_of_equal_parties():
    strategy, _ = run("dp-fedavg", rounds=1, clip=1.0e2, noise_strength=1e-3,
                      noise_rng=np.random.default_rng(1))  # fmt: skip
    fedavg, _ = run("fedavg", rounds=1)
    for one, other in zip(strategy.exchange.model.arrays(), fedavg.model.arrays(), strict=True):
        assert one == pytest.approx(other, abs=0.15)  # noise of 0.1 on a sum of four
    (claim,) = strategy.claims
    assert (claim.epsilon, claim.basis) == (math.inf, "none: seeded")


def test_no_party_moves_the_weights_further_than_its_share_of_the_clipping_norm():
    strategy, _ = run("dp-fedavg", rounds=1, clip=1e-3, local_epochs=5, **QUIET)
    assert moved(strategy) < 1e-3 * 1.05


def test_a_party_that_is_not_counted_is_an_update_of_zero():
    """The sum is divided by the parties that were asked: how many answered may depend on what they hold."""
    held = members(4, "dp-fedavg")
    quiet = {"clip": 1e-3, "local_epochs": 5, **QUIET}
    one, _ = run("dp-fedavg", rounds=1, held=[*held[:2], *members(4)[2:]], **quiet)  # the others allow fedprox alone
    assert len(codes(one)) == 2
    both, _ = run("dp-fedavg", rounds=1, held=held[:2], **quiet)
    assert moved(one) == pytest.approx(moved(both) / 2, rel=0.05)


def _unusable(algorithm="dp-fedavg"):
    """Return four parties, of whom one has rows that cannot be used."""
    held = members(4, algorithm)
    fault = DataError("a label is outside the schema", code=Code.CLASS_OUTSIDE_SCHEMA)
    return [*held[:3], replace(held[3], fault=fault)]


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_rows_that_cannot_be_used_change_neither_who_is_asked_nor_whether_there_is_a_result(fraction):
    """Else everybody but the server would see it: from the noise of the mean, the group, or the run that fails."""
    names = {1000 + i: f"party-{i:03d}" for i in range(4)}
    asked, finals = [], []
    for held in (members(4, "dp-fedavg"), _unusable()):
        grid = grid_of(held, "dp-fedavg")
        strategy = make("dp-fedavg", fraction=fraction, minimum=2, names=names, noise_strength=100.0)
        strategy.roster.fewest = 4 if fraction == 1.0 else 2
        strategy.start(grid, num_rounds=2)
        asked.append(dict(strategy.roster.times_asked))
        finals.append(strategy.record.final_asked)
    assert asked[0] == asked[1]
    assert finals == [4, 4]


def test_where_nobody_has_a_valid_answer_noise_alone_comes_out():
    strategy, _ = run("dp-fedavg", rounds=1, held=_unusable()[3:] * 2, noise_strength=100.0)
    assert strategy.record.rounds[0].answered == []
    assert moved(strategy) > 10
    assert [n.values["valid"] for n in strategy.record.notes if n.code == NoteCode.FEW_ANSWERS][:1] == [0]


def test_a_node_that_is_gone_still_counts_in_the_mean(monkeypatch):
    strategy, grid = make("dp-fedavg", **QUIET), grid_of(members(4, "dp-fedavg"), "dp-fedavg")
    strategy.roster.nodes = [1000, 1001, 1002, 1003]
    monkeypatch.setattr(strategy.roster, "look", lambda grid, latecomers: {1000, 1001, 1002})
    strategy._began = 1.0  # as after `start`
    strategy.exchange.num_rounds = 1
    strategy.configure_train(1, ArrayRecord(), ConfigRecord(), grid)
    assert strategy.roster.asked_now == [1000, 1001, 1002, 1003]


def test_the_claim_is_for_a_party_against_everyone_but_the_server():
    strategy, _ = run("dp-fedavg", rounds=3, delta=1e-6, noise_strength=4.0)
    (claim,) = strategy.claims
    event = ClippedSum(clip=1.0, noise_multiplier=4.0).dp_event()
    assert claim.epsilon == Accountant().compose(event, 3).epsilon(1e-6)
    assert (claim.unit, claim.delta, claim.basis, claim.publishable) == ("party", 1e-6, "proven", True)
    assert claim.adversary == "everyone who sees the result"
    assert "everyone but the server" in claim.protects_from
    assert strategy.record.notes == [strategy.exchange.warning]


def test_a_group_s_claim_counts_the_rounds_of_whoever_was_asked_most():
    names = {1000 + i: f"party-{i:03d}" for i in range(4)}
    strategy, _ = run("dp-fedavg", rounds=3, fraction=0.5, names=names, held=members(4, "dp-fedavg"))
    most = strategy.roster.asked.most
    assert 2 <= most <= 3
    assert f"; {most} rounds of the party asked most often" in strategy.claims[0].mechanism


def charged(tmp_path, **settings):
    ledger = LedgerStore(tmp_path, party="server", data_digest="0" * 64)
    given = {"ledger": ledger, "record": RunRecord(run_id="1", algorithm="dp-fedavg"), **settings}
    return run("dp-fedavg", rounds=1, held=members(2, "dp-fedavg"), **given)[0], ledger


def test_what_was_released_once_is_released_again_and_not_charged_again(tmp_path):
    one, ledger = charged(tmp_path)
    again, _ = charged(tmp_path)
    assert same(one.model.arrays(), again.model.arrays())
    (entry,) = ledger.load().entries
    assert (entry.unit, entry.algorithm, entry.neighbouring_relation) == ("party", "dp-fedavg", "replace one party")


def test_a_budget_that_does_not_cover_the_rounds_refuses_before_anybody_trains(tmp_path):
    with pytest.raises(RefusalError, match="epsilon"):
        charged(tmp_path, budget=Budget(epsilon=0.1))


def test_a_net_with_running_averages_is_refused():
    def net(freeze):
        params = {"optimizer": "sgd", "freeze_norm": freeze, "channels": [4, 4]}
        return lambda *, seed: make_model("cnn-fedmd", num_classes=3, num_features=784, seed=seed, params=params)

    with pytest.raises(ConfigError, match=r"model must keep no running averages.*freeze_norm=True"):
        make("dp-fedavg", global_model=net(False))
    make("dp-fedavg", global_model=net(True))


@pytest.mark.parametrize("rounds", [1, 30])
def test_the_noise_found_costs_what_was_asked_and_hardly_less(rounds):
    mechanism = DPFedAvgConfig(epsilon=2.0, delta=1e-6).mechanism(rounds)
    cost = Accountant().compose(mechanism.dp_event(), rounds).epsilon(1e-6)
    assert 1.98 < cost <= 2.0


def test_it_always_adds_noise_at_the_server_and_parties_are_not_told_of_it():
    assert DPFedAvgConfig().privacy == "server"
    told = DPFedAvgConfig(noise_strength=2.0).resolved(num_public=60, num_classes=3, num_rounds=2).told()
    assert (set(told), told["noise-strength"]) == ({"seed", "local-epochs", "solo-epochs", "noise-strength"}, 0.0)


def test_noise_that_is_given_is_that_of_every_round_with_the_clipping_norm_that_is_given():
    wanted = ClippedSum(clip=0.25, noise_multiplier=3.0)
    for rounds in (1, 30):
        assert DPFedAvgConfig(clip=0.25, noise_strength=3.0).mechanism(rounds) == wanted
