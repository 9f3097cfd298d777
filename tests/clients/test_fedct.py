"""FedCT at a party: what it learns alone, and the state that it goes on from."""

from functools import partial

import numpy as np
import pytest
from federation import Means, model, parties, party, rows
from rounds import run, run_fedct

from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.clients.fedct import FedCTClient
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.record.notes import Note
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.wire.score_codec import encode_scores


def test_one_party_alone_is_local_training():
    alone = party("only", *rows(30, seed=3))
    strategy, _ = run("fedct", [alone], minimum=1, rounds=2)
    own = strategy.record.parties[0]
    assert own.solo == own.federated
    local = alone.model(seed=derive_seed(derive_seed(1, "only"), "model")).fit(alone.X, alone.y)
    assert (strategy.exchange.consensus == local.predict(alone.public.X)).all()


def test_gradient_learners_continue_from_the_state_they_kept(tmp_path):
    pytest.importorskip("torch")
    net = partial(model, name="mlp", hidden=[8], lr=0.01)
    kept, _ = run_fedct(parties(3, state=tmp_path, model=net, keep_model=True), rounds=2)
    lost, _ = run_fedct(parties(3, model=net), rounds=2)
    assert kept.record.rounds[0].accuracy == lost.record.rounds[0].accuracy
    assert all(p.notes == [] for p in kept.record.parties)
    assert all(p.notes == [Note("state-lost")] for p in lost.record.parties)
    assert sorted(f.suffix for f in (tmp_path / "runs" / "1" / "parties").iterdir()) == [".model"] * 6 + [".npz"] * 3


def test_a_user_s_own_learner_that_continues_is_read_back_from_its_party_s_state(tmp_path):
    """skops knows no user types: a party trusts those of its own estimator in its own file, and no others."""
    own = lambda *, seed: Classifier(Means(), num_classes=3)  # noqa: E731
    members = parties(3, state=tmp_path, model=own, keep_model=True)
    strategy, _ = run_fedct(members, rounds=2, stop_when_converged=False)
    assert [len(r.answered) for r in strategy.record.rounds] == [3, 3]
    assert all(p.notes == [] for p in strategy.record.parties)


@pytest.mark.parametrize("sent", [True, False])
def test_a_net_learns_the_final_probabilities_afresh_where_they_came_along(sent):
    pytest.importorskip("torch")
    member = party("p", *rows(30, seed=1), model=partial(model, name="mlp", hidden=[8], lr=0.01))
    labels = np.zeros(60, np.int16)
    labels[:10] = -1  # rows without a label are not learnt
    arrays = {
        "probs": encode_scores(
            np.tile([0.6, 0.4, 0.0], (60, 1)), public=member.spec, server_round=1, kind="probs", bits=4
        )
    }
    told = Instruction(
        server_round=1, config=FedCTConfig(steps_per_round=40), labels=labels, arrays=arrays if sent else {}
    )
    made = FedCTClient(member).finish(told).model
    wanted, public = member.model(seed=told.seed("model")), member.public.X
    if sent:
        options = {"steps": 4, "seed": told.seed("held-out")}
        wanted.joint_fit(member.X, member.y, public[10:], np.tile([0.6, 0.4, 0.0], (50, 1)), **options)
    else:
        wanted.update(member.X, member.y, public, labels, steps=40)
    assert np.array_equal(made.predict_proba(public), wanted.predict_proba(public))
