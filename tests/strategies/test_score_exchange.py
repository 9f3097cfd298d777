"""The exchange of scores, by FedMD: rows, averages and noise, in whole rounds through the real door."""

from dataclasses import replace

import numpy as np
import pytest
from federation import handler, model, public_set
from grid import InProcessGrid
from score_runs import members, run

from fedkd_flwr.clients import FedMDClient
from fedkd_flwr.data.public import PublicLabels
from fedkd_flwr.errors import ConfigError, PayloadError
from fedkd_flwr.strategies import FedMD, FedMDConfig
from fedkd_flwr.wire.label_codec import seal
from fedkd_flwr.wire.records import Reply, open_instruction
from fedkd_flwr.wire.score_codec import encode_scores


@pytest.mark.parametrize("share", ["softmax", "argmax"])
def test_any_learner_takes_part_where_no_logits_are_asked(share):
    strategy, _ = run(members(make=model), answer_form=share)
    assert strategy.record.mean_accuracies()["federated-common"] > 0.7
    assert all(p.notes == [] for p in strategy.record.parties)


def test_all_parties_get_the_same_rows_drawn_anew_each_round(tmp_path):
    strategy, network = run(members(make=model), rounds=2, public_rows_per_round=20)
    by_round = {}
    for message in network.sent:
        if message.metadata.message_type != "train":
            continue
        arrays, config = open_instruction(message.content)
        named = dict(zip(str(config["payload"]).split(","), arrays, strict=True))
        by_round.setdefault(config["server-round"], []).append(named["indices"].tobytes())
    assert [len(set(found)) for found in by_round.values()] == [1, 1]
    assert by_round[1][0] != by_round[2][0]
    again, _ = run(members(make=model), rounds=2, public_rows_per_round=20)
    for server_round in (1, 2):
        rows = strategy.exchange.rows(server_round).tolist()
        assert rows == sorted(set(rows)) == again.exchange.rows(server_round).tolist()
        assert len(rows) == 20


def test_logits_with_infinities_leave_their_party_out():
    strategy = FedMD(config=FedMDConfig(answer_form="logits", public_rows_per_round=4), public=public_set(4))
    spec = strategy.exchange.spec
    payload = encode_scores(np.ones((4, 3)), public=spec, server_round=1, kind="logits").copy()
    clean = strategy.exchange.read(Reply(node_id=1, party="a", arrays={"logits": payload}), 1)
    assert clean.scores.shape == (4, 3)
    infinite = np.full(12, np.inf, dtype="<f4").view("<u4"), 32
    spoilt = seal(b"FS", [infinite], public=spec, server_round=1, own=1 << 8 | 32)
    with pytest.raises(PayloadError) as caught:
        strategy.exchange.read(Reply(node_id=1, party="a", arrays={"logits": spoilt}), 1)
    assert caught.value.reason == "not-a-number"


class Shouts(FedMDClient):
    """Says finite logits of which the averages are still finite, and the other nets' losses are not."""

    def release(self, answer, instruction):
        return {name: np.full_like(array, 3e38) for name, array in super().release(answer, instruction).items()}


def test_one_party_of_huge_logits_is_left_out_and_ends_no_run():
    """Else the others' nets learn the averages, diverge, and no party has an answer in the next round."""
    held = members(3)
    clients = [FedMDClient(held[0]), FedMDClient(held[1]), Shouts(held[2])]
    settings = {"initial_epochs": 1, "distillation_epochs": 1, "nodes_stable_s": 1e-6, "answer_form": "logits"}
    strategy = FedMD(config=FedMDConfig(**settings), public=held[0].public)
    strategy.start(InProcessGrid(handler(clients), [{}] * 3), num_rounds=2)
    for one in strategy.record.rounds:
        assert one.answered == ["party-000", "party-001"]
        assert [(left.party, left.code) for left in one.rejected] == [("party-002", "not-a-number")]


def test_pretrained_parties_start_from_one_body_and_need_labels():
    pytest.importorskip("torch")
    public = public_set()
    labelled = PublicLabels(y=public.y, num_classes=3, of_schema=True)
    known = replace(public, labels=labelled)
    strategy, _ = run(members(public=known), rounds=1, pretrain_epochs=20, initial_epochs=1, answer_form="logits")
    assert strategy.record.rounds[0].consensus_accuracy > 0.9
    with pytest.raises(ConfigError, match=r"paper.pretrain-epochs must be 0 without labelled public rows, got 1"):
        FedMD(config=FedMDConfig(pretrain_epochs=1), public=public)


def test_nfdp_s_server_that_knows_no_sizes_states_no_numbers(tmp_path):
    strategy, _ = run(members(state=tmp_path, ledger=True, make=model), subset_rows=5)
    (claim,) = strategy.claims
    assert claim.epsilon == float("inf")
    assert "each party's own ledger states its own" in claim.basis


@pytest.mark.parametrize(
    "settings",
    [
        {"answer_form": "softmax", "score_noise": "gaussian", "noise_strength": 0.01},
        {"answer_form": "logits", "score_noise": "laplace", "noise_strength": 0.01},
        {"answer_form": "argmax", "label_mechanism": "randomized-response", "noise_strength": 20.0},
    ],
)
def test_a_little_noise_changes_little_and_is_charged_for_every_row_and_round(tmp_path, settings):
    pytest.importorskip("torch")
    held = members(state=tmp_path, ledger=True)
    strategy, _ = run(held, rounds=2, initial_epochs=12, public_rows_per_round=20, noise=True, **settings)
    assert strategy.record.rounds[-1].consensus_accuracy > 0.85
    (claim,) = strategy.claims
    assert (claim.unit, claim.adversary) == ("party", "server")
    assert "20 public rows a round, 2 rounds" in claim.mechanism
    entries = held[0].ledger.load().entries
    assert [entry.events[0][1] for entry in entries] == [20, 20]
    assert held[0].ledger.load().spent(1e-5) == pytest.approx(claim.epsilon)


def test_at_each_variant_the_wire_carries_what_is_private_and_nothing_else(tmp_path):
    for settings, name in (
        ({"score_noise": "laplace", "noise_strength": 1.0}, "scores"),
        ({"subset_rows": 5}, "probs"),
    ):
        folder = tmp_path / name
        _, network = run(members(state=folder, ledger=True, make=model), rounds=1, public_rows_per_round=20, **settings)
        for reply in network.replies:
            content = reply.content
            assert set(content.config_records["reply"]) == {"party", "wire-version"}
            assert set(content.metric_records["metrics"]) == {"num-examples"}
            if reply.metadata.message_type == "train":
                assert list(content.array_records["arrays"]) == [name]
                assert content.metric_records["metrics"]["num-examples"] == 20
