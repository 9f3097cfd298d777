"""The mechanism that adds nothing, and what it has in common with those that add noise."""

import os
from functools import partial

import dp_accounting as dp
import numpy as np
import pytest

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse
from fedkd_flwr.privacy.noise.none import NoNoise
from fedkd_flwr.privacy.noise.scores import NoisyScores
from fedkd_flwr.privacy.noise.sums import ClippedSum, NoisyCounts, NoisyProducts
from fedkd_flwr.privacy.noise.votes import ConfidentGaussianMax, GaussianMax, LaplaceMax

laplace, gaussian = (partial(NoisyScores, noise=noise) for noise in ("laplace", "gaussian"))
VOTES = np.array([[3, 9, 1], [7, 2, 2], [0, 0, 0], [4, 4, 5]] * 25)
LABELS = np.array([0, 2, 1, 1] * 25)
SCORES = np.random.default_rng(0).dirichlet(np.ones(3), 100)
INPUTS = [
    (LaplaceMax(gamma=0.2), VOTES),
    (GaussianMax(sigma=5.0), VOTES),
    (ConfidentGaussianMax(threshold=4.0, sigma_threshold=3.0, sigma=5.0), VOTES),
    (RandomizedResponse(epsilon=0.5, num_classes=3), LABELS),
    (BitFlip(epsilon=0.5, num_classes=3), LABELS),
    (laplace(kind="probs", num_classes=3, scale=2.0), SCORES),
    (gaussian(kind="logits", num_classes=3, scale=2.0, bound=1.0), SCORES),
    (NoisyCounts(sigma=3.0, tables=1), VOTES),
    (NoisyProducts(sigma=3.0, vectors=4), np.arange(10)),
    (ClippedSum(clip=1.0, noise_multiplier=1.0), [np.zeros(50)]),
]
each = pytest.mark.parametrize(("mechanism", "given"), INPUTS, ids=lambda one: type(one).__name__)


@each
def test_noise_is_the_operating_system_s_and_nothing_else_decides_it(mechanism, given, monkeypatch):
    before = given.copy()
    assert not np.array_equal(mechanism.privatize(given), mechanism.privatize(given))
    assert np.array_equal(given, before)
    monkeypatch.setattr(os, "urandom", lambda size: np.random.default_rng(5).bytes(size))
    assert np.array_equal(mechanism.privatize(given), mechanism.privatize(given))


@each
def test_seeded_noise_is_reproducible_and_leaves_the_system_alone(mechanism, given, monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda size: pytest.fail("a seeded run read the operating system's entropy"))
    first, again, other = (mechanism.privatize(given, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@each
def test_a_mechanism_does_not_change_and_says_what_it_costs_and_what_it_is(mechanism, given):
    assert isinstance(mechanism.dp_event(), dp.DpEvent)
    assert any(character.isdigit() for character in mechanism.words)
    with pytest.raises(AttributeError):
        mechanism.words = ""


def test_without_noise_every_answer_leaves_as_it_is_and_costs_without_bound():
    quiet = NoNoise()
    assert quiet.privatize(LABELS) is LABELS
    assert quiet.debias(VOTES, 9) is VOTES
    assert (quiet.payload, quiet.words) == ("labels", "no noise")
    assert Accountant().compose(quiet.dp_event()).epsilon(0.5) == quiet.pure_epsilon == float("inf")


@pytest.mark.parametrize(("mechanism", "given"), INPUTS[:3], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("wrong", [[[1, -2]], [[0.5, 0.5]], [1, 2]], ids=str)
def test_what_is_no_vote_is_refused(mechanism, given, wrong):
    with pytest.raises(DataError, match="counts must"):
        mechanism.privatize(np.array(wrong))


PROBS, VOTES_OF = {"kind": "probs", "num_classes": 4}, {"threshold": 1.0, "sigma_threshold": 1.0, "sigma": 1.0}
SIGMA, EPSILON = r"sigma must be within \[0\.001, 1e\+09\]", r"epsilon must be within \[1e-10, 700\]"
CLASSES, WHOLE = r"num_classes must be a whole number within 2\.\.32767", "must be a whole number >= 1"
IMPOSSIBLE = [
    *((LaplaceMax, {"gamma": v}, r"gamma must be finite and >= 1e-09") for v in (0, 9e-10, float("inf"))),
    (LaplaceMax, {"gamma": 1.0, "votes": 0}, f"votes {WHOLE}"),
    (LaplaceMax, {"gamma": 1.0, "winner_of_two": 1}, "winner_of_two must be"),
    *((GaussianMax, {"sigma": v}, SIGMA) for v in (9e-4, 1.1e9, True)),
    (GaussianMax, {"sigma": 1.0, "counts_per_vote": 0}, f"counts_per_vote {WHOLE}"),
    (ConfidentGaussianMax, {**VOTES_OF, "sigma": 9e-4}, SIGMA),
    (ConfidentGaussianMax, {**VOTES_OF, "sigma_threshold": 1.1e9}, f"sigma_threshold{SIGMA.removeprefix('sigma')}"),
    (ConfidentGaussianMax, {**VOTES_OF, "threshold": float("nan")}, "threshold must be a finite number"),
    (ConfidentGaussianMax, {**VOTES_OF, "votes": 0}, f"votes {WHOLE}"),
    *((BitFlip, {"epsilon": v, "num_classes": 3}, EPSILON) for v in (0, 701)),
    (BitFlip, {"epsilon": 1.0, "num_classes": 32768}, CLASSES),
    (RandomizedResponse, {"epsilon": 9e-11, "num_classes": 3}, EPSILON),
    (RandomizedResponse, {"epsilon": 1.0, "num_classes": 1}, CLASSES),
    (NoisyCounts, {"sigma": 0.0, "tables": 1}, "sigma"),
    (NoisyCounts, {"sigma": 1.0, "tables": 0}, "tables"),
    (NoisyProducts, {"sigma": 0.0, "vectors": 2}, "sigma"),
    (NoisyProducts, {"sigma": 1.0, "vectors": 1}, "vectors"),
    (ClippedSum, {"clip": 0.0, "noise_multiplier": 1.0}, "clip"),
    (ClippedSum, {"clip": 1.0, "noise_multiplier": 0.0}, "noise_multiplier"),
    (laplace, {**PROBS, "scale": 0.0}, r"scale must be within \[0\.001, 1e\+09\]"),
    (laplace, {**PROBS, "scale": 1.0, "num_classes": 1}, CLASSES),
    (laplace, {**PROBS, "scale": 1.0, "kind": "votes"}, "kind must be one of probs, logits"),
    (laplace, {**PROBS, "scale": 1.0, "noise": "uniform"}, "score_noise must be one of laplace, gaussian"),
    (laplace, {**PROBS, "scale": 1.0, "bound": 1.0}, "bound must be 0 for probabilities"),
    (laplace, {**PROBS, "scale": 1.0, "bound": 2e6, "kind": "logits"}, "bound must be within"),
]


@pytest.mark.parametrize(("kind", "values", "match"), IMPOSSIBLE)
def test_impossible_parameters_are_refused(kind, values, match):
    with pytest.raises(ConfigError, match=match):
        kind(**values)
