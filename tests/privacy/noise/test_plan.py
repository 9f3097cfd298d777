"""Noisy voting as a plan: what it may ask, what that costs, and what comes out."""

import numpy as np
import pytest

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.privacy.noise.plan import NOISES, NoisyVotes, make_noise
from fedkd_flwr.privacy.noise.votes import ConfidentGaussianMax, GaussianMax, LaplaceMax

LAPLACE = LaplaceMax(gamma=0.5)
CONFIDENT = ConfidentGaussianMax(threshold=6.5, sigma_threshold=0.01, sigma=0.01)
SURE = np.array([[9, 0, 0], [0, 8, 0], [0, 2, 3], [0, 0, 7]])


def test_a_plan_costs_each_of_its_queries_and_says_what_is_released():
    plan = NoisyVotes(mechanism=LAPLACE, num_queries=40)
    assert plan.events() == [(LAPLACE.dp_event(), 40)]
    assert plan.events(times=3) == [(LAPLACE.dp_event(), 120)]
    assert plan.words == f"{LAPLACE.words}, 40 queries, noisy winners released"
    counts = NoisyVotes(mechanism=LAPLACE, num_queries=40, release="counts")
    assert counts.words == f"{LAPLACE.words}, 40 queries, noisy counts released"


@pytest.mark.parametrize("noise", [LAPLACE, GaussianMax(sigma=2.0)])
def test_counts_are_released_with_the_winners_of_the_same_draw(noise):
    asked = [
        NoisyVotes(mechanism=noise, num_queries=4, release=release).ask(SURE, rng=np.random.default_rng(0))
        for release in ("labels", "counts")
    ]
    assert asked[0].counts is None
    assert asked[1].counts.tolist() == noise.noisy_counts(SURE, rng=np.random.default_rng(0)).tolist()
    assert asked[0].labels.tolist() == asked[1].labels.tolist() == asked[1].counts.argmax(axis=1).tolist()
    assert asked[0].labels.dtype == asked[1].labels.dtype == np.int16


def test_confident_answers_are_of_rows_with_many_votes_alone():
    answers = NoisyVotes(mechanism=CONFIDENT, num_queries=4).ask(SURE)
    assert answers.labels.tolist() == [0, 1, ABSTAIN, 2]
    assert (answers.labels.dtype, answers.counts) == (np.int16, None)


def test_a_plan_asks_as_many_rows_as_it_says():
    with pytest.raises(ConfigError, match="counts must have 3 rows, got 4"):
        NoisyVotes(mechanism=LAPLACE, num_queries=3).ask(SURE)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_queries": 0}, "num_queries must be a whole number >= 1, got 0"),
        (
            {"mechanism": LaplaceMax(gamma=0.5, winner_of_two=True), "release": "counts"},
            'release must be "labels" with winner_of_two, got',
        ),
        ({"num_queries": True}, "num_queries must be a whole number >= 1, got True"),
        ({"release": "votes"}, "release must be one of labels, counts, got 'votes'"),
        (
            {"mechanism": CONFIDENT, "release": "counts"},
            'release must be "labels" with confident-gaussian, got \'counts\'. Use noise "gaussian"',
        ),
    ],
)
def test_impossible_plans_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        NoisyVotes(**{"mechanism": LAPLACE, "num_queries": 10, **settings})


def test_each_name_makes_its_mechanism_with_the_parameters_it_takes():
    told = {"votes": 3, "counts_per_vote": 2, "strength": 4.0, "threshold": 6.0}
    counted = {"votes": 3, "counts_per_vote": 2}
    assert [make_noise(noise, **told) for noise in NOISES] == [
        LaplaceMax(gamma=4.0, **counted),
        GaussianMax(sigma=4.0, **counted),
        ConfidentGaussianMax(threshold=6.0, sigma_threshold=12.0, sigma=4.0, **counted),
    ]
    assert make_noise("laplace", votes=1, strength=0.5).counts_per_vote == 1


def test_no_noise_is_refused():
    for noise in NOISES:
        with pytest.raises(ConfigError, match=r"must be (finite and >= 1e-09|within .0.001, 1e.09.), got 0.0"):
            make_noise(noise, votes=1, strength=0.0)
    assert make_noise("confident-gaussian", votes=1, strength=1.0).threshold == 0.0
    with pytest.raises(ConfigError, match="noise must be one of laplace, gaussian, confident-gaussian, got 'uniform'"):
        make_noise("uniform", votes=1, strength=1.0)
