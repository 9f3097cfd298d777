"""FedMD: nets learn from the averages of what other nets say."""

import pytest
from score_runs import members, run


def test_nets_learn_from_logits(tmp_path):
    pytest.importorskip("torch")
    strategy, _ = run(members(state=tmp_path), answer_form="logits", initial_epochs=12, rounds=2)
    assert strategy.record.status == "completed"
    assert strategy.record.mean_accuracies()["federated-common"] > 0.85
    assert strategy.record.rounds[-1].consensus_accuracy > 0.85
    assert strategy.claims == []
