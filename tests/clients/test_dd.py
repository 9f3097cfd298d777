"""Distributed distillation at a party: what one joint loss of own labels and averages teaches."""

import numpy as np
import pytest
from federation import model
from score_runs import mean_of_local_nets, members, run

from fedkd_flwr.models.classifier import Classifier


@pytest.mark.parametrize("weight", [0.0, 50.0])
def test_a_learner_that_is_refitted_gives_the_averages_the_weight_that_the_run_says(tmp_path, monkeypatch, weight):
    lessons = []

    def fit_soft(self, X, targets, fit_soft=Classifier.fit_soft):
        lessons.append((targets[:-60].sum(axis=1), targets[-60:].sum(axis=1)))
        return fit_soft(self, X, targets)

    monkeypatch.setattr(Classifier, "fit_soft", fit_soft)
    strategy, _ = run(members(name="dd", state=tmp_path, make=model), "dd", distillation_weight=weight)
    found = strategy.record.mean_accuracies()
    if not weight:
        assert lessons == []
        assert found["federated-common"] == found["solo-common"]
        return
    assert len(lessons) == 4  # two parties, in the second round and at the end
    for own, averages in lessons:
        assert own.tolist() == [1.0] * len(own)
        assert averages == pytest.approx(np.full(60, weight), rel=1e-3)


def test_the_averages_teach_a_class_that_a_party_has_never_seen(tmp_path):
    pytest.importorskip("torch")
    held = members(3, name="dd", state=tmp_path, classes=((0, 1), (0, 1, 2), (0, 1, 2)))
    strategy, _ = run(held, "dd", rounds=4, distillation_weight=10.0, steps_per_round=40)
    first = strategy.record.party("party-000")
    assert first.federated["common"].accuracy > first.solo["common"].accuracy + 0.1


def test_one_round_is_local_training_for_a_round_s_steps(tmp_path):
    pytest.importorskip("torch")
    held = members(name="dd", state=tmp_path)
    strategy, _ = run(held, "dd", rounds=1, answer_form="logits")
    learn = lambda net, one: net.initialize().update(one.X, one.y, steps=20)  # noqa: E731
    alone = mean_of_local_nets(held, strategy.exchange.average_rows, learn)
    assert np.allclose(strategy.exchange.average, alone, atol=1e-6)
