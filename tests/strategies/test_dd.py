"""Distributed distillation: the exchange of FedMD, with one joint loss at the parties."""

import pytest
from score_runs import members, run


def test_nets_learn_from_logits(tmp_path):
    pytest.importorskip("torch")
    strategy, _ = run(members(name="dd", state=tmp_path), "dd", answer_form="logits")
    assert strategy.record.mean_accuracies()["federated-common"] > 0.8
    assert all(p.notes == [] for p in strategy.record.parties)
