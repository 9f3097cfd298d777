"""FedKT's three levels: what each makes of the settings, and what it refuses. The vote is test_one_shot_vote.py's."""

import pytest

from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.events import TwoClassEvent
from fedkd_flwr.privacy.noise.votes import ConfidentGaussianMax, GaussianMax, LaplaceMax

SIZES = {"num_public": 60, "num_classes": 3, "num_rounds": 1}
L1 = {"level": "L1", "noise": "laplace", "noise_strength": 0.5}
L2 = {"level": "L2", "noise": "gaussian", "noise_strength": 2.0}


@pytest.mark.parametrize(
    ("settings", "privacy", "students", "teachers"),
    [
        ({}, "none", 2, 1),
        (L1, "server", 1, 5),
        (L2, "party", 1, 25),
        ({"students_per_party": 3, "teachers_per_student": 4}, "none", 3, 4),
        ({**L1, "students_per_party": 3, "teachers_per_student": 4}, "server", 3, 4),
        ({**L2, "students_per_party": 3, "teachers_per_student": 4}, "party", 3, 4),
    ],
)
def test_a_level_says_where_noise_is_and_how_many_models_there_are(settings, privacy, students, teachers):
    config = FedKTConfig(**settings)
    assert (config.privacy, config.students, config.teachers) == (privacy, students, teachers)
    assert config.votes_per_party == students


def test_at_level_l1_one_party_moves_all_its_students_votes():
    plan = FedKTConfig(**L1, students_per_party=3, num_queries=20).server_plan(60, 3)
    assert (plan.mechanism, plan.num_queries) == (LaplaceMax(gamma=0.5, votes=3, counts_per_vote=2), 20)
    whole = FedKTConfig(**L1, students_per_party=3, one_class_voters="leave-out").server_plan(60, 3)
    assert whole.mechanism == LaplaceMax(gamma=0.5, votes=3)
    assert not FedKTConfig().server_plan(60, 3).adds_noise
    assert not FedKTConfig(**L2).server_plan(60, 3).adds_noise


def test_at_level_l2_one_record_moves_one_teacher_s_vote():
    plan = FedKTConfig(**L2, students_per_party=3, num_queries=20).party_plan(60, 3)
    assert (plan.mechanism, plan.num_queries) == (GaussianMax(sigma=2.0, votes=1), 20)
    assert not FedKTConfig().party_plan(60, 3).adds_noise
    assert not FedKTConfig(**L1).party_plan(60, 3).adds_noise


@pytest.mark.parametrize("students", [1, 3])
def test_at_level_l2_noise_found_for_an_epsilon_covers_all_students(students):
    config = FedKTConfig(level="L2", noise="gaussian", epsilon=4.0, delta=1e-4, students_per_party=students)
    event = config.party_plan(60, 3).mechanism.dp_event()
    assert 3.9 < Accountant().compose(event, 60 * students).epsilon(1e-4) <= 4.0


def test_with_several_students_and_two_classes_the_difference_of_votes_moves_by_twice_as_many():
    plan = FedKTConfig(**L1, students_per_party=3, num_queries=20).server_plan(60, 2)
    assert plan.events() == [(TwoClassEvent(1 / (0.5 * 3)), 20)]
    assert plan.mechanism.pure_epsilon == 2 * 0.5 * 3


@pytest.mark.parametrize("release", ["labels", "counts"])
def test_at_level_l2_a_party_learns_of_two_classes_from_its_own_schema_and_plans_as_the_server_does(release):
    sizes = {**SIZES, "num_classes": 2}
    config = FedKTConfig(
        level="L2", noise="laplace", epsilon=4.0, students_per_party=2, num_queries=2, learn_from=release
    )
    told = config.resolved(**sizes)
    plan = FedKTConfig.from_told(told.told()).party_plan(sizes["num_public"], 2)
    assert plan == told.party_plan(sizes["num_public"], 2)
    assert plan.mechanism.winner_of_two == (release == "labels")
    ((event, count),) = plan.events(times=2)
    assert 3.96 < Accountant().compose(event, count).epsilon(config.delta) <= 4.0


def test_parties_are_told_how_many_models_and_no_noise_that_is_not_theirs():
    plain = FedKTConfig(seed=3).resolved(**SIZES)
    assert plain == FedKTConfig(seed=3, students_per_party=2, teachers_per_student=1)
    noisy = FedKTConfig(**L1, seed=3, num_queries=20, learn_from="counts", delta=1e-3).resolved(**SIZES)
    assert noisy == FedKTConfig(seed=3, students_per_party=1, teachers_per_student=5)
    assert noisy.privacy == "none"


@pytest.mark.parametrize("noise", ["gaussian", "confident-gaussian"])
def test_at_level_l2_parties_are_told_the_noise_that_was_found(noise):
    threshold = {"threshold": 3.0} if noise == "confident-gaussian" else {}
    config = FedKTConfig(level="L2", noise=noise, epsilon=4.0, students_per_party=2, num_queries=3, **threshold)
    told = config.resolved(**SIZES)
    assert (told.epsilon, told.num_queries) == (0.0, 3)
    assert FedKTConfig.from_told(told.told()).party_plan(60, 3) == told.party_plan(60, 3) == config.party_plan(60, 3)
    kind = {"gaussian": GaussianMax, "confident-gaussian": ConfidentGaussianMax}[noise]
    assert type(told.party_plan(60, 3).mechanism) is kind


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": "L1"}, 'noise must fit level L1, got \'none\'. Set noise to "gaussian" or "laplace" at L1 and L2'),
        ({"level": "L2"}, "noise must fit level L2, got 'none'"),
        # an epsilon beside it must not hide what is missing: a noise was chosen
        (
            {"noise": "gaussian", "epsilon": 4.0},
            "noise must fit level L0, got 'gaussian'. Noise needs fedkt.level=L1 or L2",
        ),
        ({"noise": "laplace", "noise_strength": 1.0}, "noise must fit level L0, got 'laplace'"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        FedKTConfig(**settings)
    assert message in str(caught.value)
