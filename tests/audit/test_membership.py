"""The attack's evidence and likelihood ratios: right where the laws are known, harmless where nothing leaks."""

import numpy as np
import pytest

from fedkd_flwr.audit.bounds import attack_auc
from fedkd_flwr.audit.membership import Answers, likelihood_ratios, log_odds, pairs_epsilon, tree_odds
from fedkd_flwr.baselines.trees import NAMES
from fedkd_flwr.errors import DataError


def _world(shift, *, rows=600, shadows=8, features=2, seed=0):
    """Evidence of a run and its shadows: rows differ, membership shifts the first feature."""
    rng = np.random.default_rng(seed)
    base = rng.normal(scale=5, size=(rows, features))
    member = rng.permuted(np.repeat(np.arange(shadows)[:, None] < shadows // 2, rows, axis=1), axis=0)
    inside = rng.random(rows) < 0.5

    def seen(is_in):
        noise = rng.normal(size=(rows, features))
        return base + noise + np.stack([shift * is_in, *[np.zeros(rows)] * (features - 1)], axis=1)

    return seen(inside), np.stack([seen(m) for m in member]), member, inside


def _auc(scores, inside):
    return attack_auc(scores[inside], scores[~inside])


def test_shadow_runs_find_a_shift_that_hides_behind_differences_between_rows():
    evidence, shadows, member, inside = _world(2.0)
    assert _auc(evidence.mean(axis=1), inside).high < 0.65
    # the best that is possible with known laws is Phi(2 / sqrt 2) = .92; eight shadow runs must estimate them
    assert 0.84 < _auc(likelihood_ratios(evidence, shadows, member), inside).value < 0.93


def test_where_nothing_leaks_the_attack_is_at_chance():
    evidence, shadows, member, inside = _world(0.0)
    found = _auc(likelihood_ratios(evidence, shadows, member), inside)
    assert found.low < 0.5 < found.high


def test_noise_a_million_times_as_large_in_one_round_does_not_hide_another_round():
    """DP-FedAvg: the first round's weights are as they are, later ones start from what noise has blown up."""
    evidence, shadows, member, inside = _world(2.0)
    noise = 1e6 * np.random.default_rng(1).normal(size=(len(shadows) + 1, len(evidence), 1))
    more = likelihood_ratios(np.c_[evidence, noise[0]], np.concatenate([shadows, noise[1:]], axis=2), member)
    assert _auc(more, inside).value > _auc(likelihood_ratios(evidence, shadows, member), inside).value - 0.02


@pytest.mark.parametrize("scale", [10.0, 1e4])
def test_one_odd_shadow_run_of_eight_does_not_hide_what_the_others_show(scale):
    evidence, shadows, member, inside = _world(2.0, features=3)
    plain = _auc(likelihood_ratios(evidence, shadows, member), inside).value
    odd = shadows.copy()
    odd[0] += scale * np.random.default_rng(2).normal(size=odd[0].shape)
    assert _auc(likelihood_ratios(evidence, odd, member), inside).value > plain - 0.03


def test_evidence_that_never_varies_does_no_harm():
    evidence, shadows, member, inside = _world(2.0)
    still = np.zeros((*shadows.shape[:2], 1))
    more = likelihood_ratios(np.c_[evidence, still[0]], np.concatenate([shadows, still], axis=2), member)
    assert _auc(more, inside).value == pytest.approx(_auc(likelihood_ratios(evidence, shadows, member), inside).value)


def test_a_row_that_no_shadow_run_left_out_is_refused():
    evidence, shadows, member, _ = _world(1.0)
    member[:, 0] = True
    with pytest.raises(DataError, match="in some shadow runs and not in others"):
        likelihood_ratios(evidence, shadows, member)
    with pytest.raises(DataError, match="shapes"):
        likelihood_ratios(evidence[:-1], shadows, member)


def test_log_odds_are_exact_where_a_net_is_sure_and_finite_where_logits_have_overflowed():
    odds = log_odds(np.array([[np.inf, 0.0], [1e308, -1e308], [np.nan, 0.0]]), "logits")
    assert np.isfinite(odds).all()
    assert odds[1].tolist() == pytest.approx([32.236, -32.236], abs=1e-3)
    logits = np.array([[30.0, 0.0], [0.0, 0.0], [-3.0, 2.0]])
    lead = logits[:, 0] - logits[:, 1]
    assert log_odds(logits, "logits") == pytest.approx(np.stack([lead, -lead], axis=1), abs=0.2)
    assert log_odds(np.array([[0.8, 0.2]]), "probs")[0, 0] == pytest.approx(np.log(4))
    assert np.isfinite(log_odds(np.array([[1.0, 0.0]]), "probs")).all()
    assert log_odds(np.array([[1.0, 0.0]]), "labels").tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("values", "first", "whole"),
    [([[3.0], [-1.0]], 3.0, 2.0), ([[0.2, 0.8], [0.4, 0.6]], np.log(4), np.log(0.7 / 0.3))],  # boosted, forest
)
def test_trees_say_the_log_odds_of_a_row_s_class_in_the_first_round_and_in_all(values, first, whole):
    def leaf(value):
        arrays = {name: np.zeros(1, np.uint8) for name in NAMES}
        return arrays | {"sizes": np.ones(1, np.uint8), "values": np.array([value], np.float32)}

    found = tree_odds([leaf(value) for value in values], np.zeros((2, 3)), np.array([1, 0]), num_classes=2)
    assert found[:, [1, 0]] == pytest.approx(np.array([[first, whole], [-first, -whole]]), abs=1e-5)
    assert found[:, 3] == pytest.approx(found[:, 0])  # three rounds of two
    assert not found[:, 4].any()  # and none after them
    assert not tree_odds([], np.zeros((2, 3)), np.array([1, 0]), num_classes=2).any()


def test_evidence_passes_over_rows_that_nobody_was_asked_about():
    said = Answers(3, 2)
    said.add(np.array([2]), np.array([[0.0, 1.0]]))
    nearest_first = np.array([[0, 1, 2]])
    assert said.evidence(nearest_first, np.array([1])).tolist() == [[1.0] * 9]
    assert said.evidence(nearest_first[:, :2], np.array([1])).tolist() == [[0.0] * 9]


def test_models_taught_by_the_answers_find_what_no_single_neighbour_tells():
    """The answers of a smooth model: each is nearly noise, all together they say how it slopes."""
    rng = np.random.default_rng(3)
    public, X = rng.normal(size=(2000, 5)), rng.normal(size=(50, 5))
    slope, y = np.array([1.0, -1.0, 0.5, 0, 0]), np.tile([0, 1], 25)
    answers = Answers(2001, 2)
    noisy = (public @ slope)[:, None] * np.array([-1, 1]) + rng.normal(scale=3, size=(2000, 2))
    answers.add(np.arange(2000), noisy)
    asked_or_not = np.concatenate((public, [[1e3] * 5]))
    linear, forest = answers.taught(asked_or_not, X, y).T
    truth = (X @ slope) * np.where(y == 1, 1, -1)
    nearest = np.argsort(((X[:, None] - public) ** 2).sum(axis=2), axis=1)
    by_one = answers.evidence(nearest, y)[:, 0]
    assert np.corrcoef(linear, truth)[0, 1] > 0.99
    assert np.corrcoef(forest, truth)[0, 1] > np.corrcoef(by_one, truth)[0, 1] + 0.2
    assert not Answers(2000, 2).taught(public, X, y).any()


def test_pairs_prove_what_the_surest_of_them_show_and_equal_scores_nothing():
    rng = np.random.default_rng(4)
    chosen, other = rng.normal(size=1000), rng.normal(size=1000)
    assert pairs_epsilon(chosen, other, delta=0.0) < 0.5
    chosen[:100] += 20  # a tenth of the rows is certain
    assert pairs_epsilon(chosen, other, delta=0.0) > 2.5
    assert pairs_epsilon(np.zeros(500), np.zeros(500), delta=0.0) == 0
