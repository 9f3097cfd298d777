"""The average of scores: by hand, without the bias of noise, and by its invariants; and what its settings amount to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.algorithms.dsfl import DSFLConfig
from fedkd_flwr.algorithms.scarlet import ScarletConfig
from fedkd_flwr.algorithms.score_exchange import DigestConfig, ScoreExchangeConfig, aggregate
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels.scores import onto_simplex
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.noise.labels import RandomizedResponse, kept_share
from fedkd_flwr.privacy.noise.none import NoNoise
from fedkd_flwr.privacy.noise.scores import NoisyScores

RESPONSE = {"answer_form": "argmax", "label_mechanism": "randomized-response"}
SIZES = {"num_public": 60, "num_classes": 3}


def _labels(*rows):
    return [np.array(row, dtype=np.int16) for row in rows]


def _probs(*parties):
    return [np.array(one, dtype=np.float32) for one in parties]


def _mean(answers, *, num_classes=3, **settings):
    return aggregate(answers, config=ScoreExchangeConfig(**settings), num_classes=num_classes)


@pytest.mark.parametrize(
    ("form", "answers", "average", "agreement"),
    [
        # in row 1 the lowest of the two is the average's class
        ("argmax", _labels([0, 1, 2], [0, 2, 2]), [[1, 0, 0], [0, 0.5, 0.5], [0, 0, 1]], 5 / 6),
        # each party's classes: (0, 1) and (1, 0); the average's: (1, 0)
        (
            "softmax",
            _probs([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25]], [[0.0, 0.5, 0.5], [0.75, 0.25, 0.0]]),
            *([[0.25, 0.5, 0.25], [0.5, 0.375, 0.125]], 0.5),
        ),
        # logits are not brought to a sum, and probabilities that lost theirs on the wire get it back
        ("logits", _probs([[2.0, -1.0, 0.0]], [[4.0, 1.0, 0.5]], [[0.0, 6.0, 1.0]]), [[2.0, 2.0, 0.5]], 2 / 3),
        ("softmax", _probs([[0.5, 0.25, 0.125]], [[0.5, 0.25, 0.125]]), [[4 / 7, 2 / 7, 1 / 7]], 1.0),
    ],
)
def test_averages_by_hand(form, answers, average, agreement):
    found, facts = _mean(answers, answer_form=form)
    assert found == pytest.approx(np.array(average), abs=1e-15)
    assert found.dtype == np.float64
    assert (facts.agreement, facts.kept_share) == (pytest.approx(agreement), None)


def test_randomised_labels_are_averaged_without_their_bias():
    settings = {**RESPONSE, "noise_strength": 1.0}
    mechanism = RandomizedResponse(epsilon=1.0, num_classes=3)
    reports = _labels(*[[0]] * 50, *[[1]] * 30, *[[2]] * 20)
    average, facts = _mean(reports, **settings)
    expected = onto_simplex(mechanism.debias(np.array([[50, 30, 20]]), 100) / 100)
    assert average == pytest.approx(expected)
    assert average[0, 0] > 0.5
    assert facts.kept_share == kept_share(mechanism)
    assert facts.agreement == 0.5


def test_noisy_probabilities_are_averaged_without_bias_and_brought_back_to_probabilities():
    config = ScoreExchangeConfig(score_noise="laplace", noise_strength=0.5)
    rng, truth = np.random.default_rng(3), np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5]])
    mechanism = config.mechanism(num_classes=3)
    noisy = [mechanism.privatize(truth, rng=rng).astype(np.float32) for _ in range(1000)]
    average, facts = aggregate(noisy, config=config, num_classes=3)
    assert np.abs(average - truth).max() < 4 * 0.5 * np.sqrt(2 / 1000) + 0.01
    assert average.min() >= 0
    assert average.sum(axis=1) == pytest.approx(np.ones(2))
    assert facts.kept_share is None
    few, _ = aggregate(noisy[:2], config=config, num_classes=3)
    assert few == pytest.approx(onto_simplex((noisy[0].astype(float) + noisy[1]) / 2))


def test_noisy_logits_stay_logits():
    answers = _probs([[20.0, -3.0, 0.0]], [[0.0, -5.0, 1.0]])
    average, _ = _mean(answers, answer_form="logits", score_noise="gaussian", noise_strength=1.0)
    assert average.tolist() == [[10.0, -4.0, 0.5]]


label_rows = st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=1, max_size=6)


def _as_scores(rows, seed):
    rng = np.random.default_rng(seed)
    scores = [np.eye(3)[labels] + rng.random((4, 3)) / 2 for labels in rows]
    return [(one / one.sum(axis=1, keepdims=True)).astype(np.float32) for one in scores]


@given(rows=label_rows, seed=st.integers(0, 50), share=st.sampled_from(["argmax", "softmax"]))
def test_the_order_of_parties_changes_nothing_but_the_last_digit(rows, seed, share):
    answers = _labels(*rows) if share == "argmax" else _as_scores(rows, seed)
    order = np.random.default_rng(seed).permutation(len(rows))
    one, facts = _mean(answers, answer_form=share)
    other, same = _mean([answers[i] for i in order], answer_form=share)
    assert one == pytest.approx(other, abs=1e-9)
    assert one.sum(axis=1) == pytest.approx(np.ones(4))
    tops = np.sort(one, axis=1)
    if (tops[:, -1] - tops[:, -2] > 1e-9).all():
        assert facts.agreement == same.agreement


@pytest.mark.parametrize(
    ("settings", "privacy", "noisy", "kind", "payload", "loss"),
    [
        ({}, "none", False, "probs", "probs", "cross-entropy"),
        ({"answer_form": "logits"}, "none", False, "logits", "logits", "l1-logits"),
        ({"answer_form": "argmax"}, "none", False, "probs", "labels", "cross-entropy"),
        ({"score_noise": "laplace", "noise_strength": 1.0}, "party", True, "probs", "scores", "cross-entropy"),
        (
            {"answer_form": "logits", "score_noise": "laplace", "noise_strength": 1.0},
            *("party", True, "logits", "logits", "l1-logits"),
        ),
        ({**RESPONSE, "noise_strength": 1.0}, "party", True, "probs", "labels", "cross-entropy"),
        ({"subset_rows": 5}, "party", False, "probs", "probs", "cross-entropy"),
    ],
)
def test_what_settings_amount_to(settings, privacy, noisy, kind, payload, loss):
    config = ScoreExchangeConfig(**settings)
    assert (config.privacy, config.noisy, config.kind, config.payload, config.loss) == (
        privacy, noisy, kind, payload, loss,
    )  # fmt: skip


def test_the_usual_number_of_rows_a_round_is_5000_or_all_where_there_are_fewer():
    assert ScoreExchangeConfig().batch(4999) == 4999
    assert ScoreExchangeConfig().batch(5000) == ScoreExchangeConfig().batch(9000) == 5000
    assert ScoreExchangeConfig(public_rows_per_round=7).batch(7) == 7
    assert ScoreExchangeConfig(public_rows_per_round=6000).batch(9000) == 6000
    rule = r"public-rows-per-round must be at most 6 \(public rows\), got 7\. Lower public-rows-per-round, or 0 for"
    with pytest.raises(ConfigError, match=rule):
        ScoreExchangeConfig(public_rows_per_round=7).batch(6)


def test_averages_travel_as_answers_do_and_those_of_labels_in_16_bits():
    assert ScoreExchangeConfig().bits_down == 32
    assert ScoreExchangeConfig(score_bits=16).bits_down == 16
    assert ScoreExchangeConfig(answer_form="argmax").bits_down == 16


LAPLACE, GAUSSIAN = ({"score_noise": noise, "noise_strength": 0.5} for noise in ("laplace", "gaussian"))
PROBS, LOGITS = {"kind": "probs", "num_classes": 3}, {"kind": "logits", "num_classes": 3, "bound": 10.0}


@pytest.mark.parametrize(
    ("settings", "mechanism"),
    [
        ({"subset_rows": 5}, NoNoise()),
        (LAPLACE, NoisyScores(noise="laplace", scale=0.5, **PROBS)),
        (GAUSSIAN, NoisyScores(noise="gaussian", scale=0.5, **PROBS)),
        ({**LAPLACE, "answer_form": "logits"}, NoisyScores(noise="laplace", scale=0.5, **LOGITS)),
        ({**RESPONSE, "noise_strength": 1.5}, RandomizedResponse(epsilon=1.5, num_classes=3)),
    ],
)
def test_noise_is_as_given(settings, mechanism):
    config = ScoreExchangeConfig(**settings)
    assert config.mechanism(num_classes=3) == config.mechanism(num_classes=3, num_answers=9) == mechanism
    assert config.resolved(**SIZES, num_rounds=2) == config


@pytest.mark.parametrize(
    "settings",
    [
        {"score_noise": "laplace"},
        {"score_noise": "gaussian"},
        {"answer_form": "logits", "score_noise": "gaussian"},
        RESPONSE,
    ],
)
def test_noise_found_for_an_epsilon_covers_the_answers_of_all_rounds(settings):
    config = ScoreExchangeConfig(**settings, epsilon=4.0, delta=1e-4, public_rows_per_round=2)
    told = config.resolved(**SIZES, num_rounds=2)
    mechanism = told.mechanism(num_classes=3)
    assert mechanism == config.mechanism(num_classes=3, num_answers=4)
    assert 3.9 < Accountant().compose(mechanism.dp_event(), 4).epsilon(1e-4) <= 4.0
    assert told.epsilon == 0.0
    assert told.changed(epsilon=4.0, noise_strength=0.0) == config


NOISE = {"score_noise": "laplace", "noise_strength": 1.0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"label_mechanism": "randomized-response", "noise_strength": 1.0},
            "label-mechanism must be none for answer-form 'softmax', got 'randomized-response'. Use score-noise",
        ),
        (
            {**RESPONSE, "label_mechanism": "xor", "noise_strength": 1.0},
            "randomized-response where scores are averaged",
        ),
        ({"answer_form": "logits", "score_bits": 8}, "score-bits must be 16 or 32 for logits and noisy scores, got 8"),
        ({**NOISE, "score_bits": 1}, "score-bits must be 16 or 32 for logits and noisy scores, got 1"),
        ({"score_noise": "laplace"}, "epsilon or paper.noise-strength must be given with noise, got 'none'. Epsilon"),
        ({"subset_rows": 5, "epsilon": 1.0}, "epsilon must be none without noise, got 1.0"),
        ({**NOISE, "subset_rows": 5}, "subset-rows must be 0 with noise, got 5. Use noise, or a subset without noise."),
        ({"subset_replacement": False}, "paper.subset-replacement must be true without a subset, got False. It would"),
    ],
)
def test_what_does_not_fit_together_is_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        DigestConfig(**settings)
    assert message in str(caught.value)


@pytest.mark.parametrize("config", [DSFLConfig, ScarletConfig])
def test_logits_are_not_sharpened(config):
    with pytest.raises(ConfigError, match="answer-form must be softmax or argmax where averages are sharpened"):
        config(answer_form="logits")
