"""Distributed distillation: the exchange of FedMD, with one joint loss at the parties."""

import pytest
from score_runs import members, run


@pytest.mark.parametrize("share", ["logits", "softmax"])
def test_nets_learn_whatever_is_shared(tmp_path, share):
    pytest.importorskip("torch")
    strategy, _ = run(members(name="dd", state=tmp_path), "dd", answer_form=share)
    assert strategy.record.mean_accuracies()["federated-common"] > 0.8
    assert all(p.notes == [] for p in strategy.record.parties)
