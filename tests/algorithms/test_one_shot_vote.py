"""The one round of votes: counted by hand and by its invariants, made noisy by its plan, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.algorithms.exchange import tally
from fedkd_flwr.algorithms.one_shot_vote import OneShotVoteConfig, aggregate, kept
from fedkd_flwr.algorithms.pate import PATEConfig
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.events import TwoClassEvent
from fedkd_flwr.privacy.noise.plan import NoisyAnswers
from fedkd_flwr.privacy.noise.votes import ConfidentGaussianMax, GaussianMax, LaplaceMax

CONFIDENT = {"noise": "confident-gaussian", "threshold": 3.0, "noise_strength": 2.0}


def _arrays(*parties):
    return [np.array(one, dtype=np.int16) for one in parties]


def _tally(answers, *, num_classes=3, config=OneShotVoteConfig, **settings):
    return tally(answers, config=config(**settings), num_classes=num_classes)


TORN = _arrays([[0, 1, 2], [0, 2, 2]], [[0, 1, 1], [0, 1, 1]])  # two parties of two students; one row in dispute
BLIND = _arrays([[0, 1, 2]] * 2, [[0, 0, 0]] * 2, [[0, 0, 0]] * 2)


@pytest.mark.parametrize(
    ("answers", "settings", "votes", "discounted"),
    [
        (TORN, {}, [[8, 0, 0], [0, 4, 0], [0, 4, 4]], 0),  # in half votes
        (TORN, {"one_class_voters": "leave-out"}, [[4, 0, 0], [0, 2, 0], [0, 2, 2]], 0),
        (TORN, {"one_class_voters": "count"}, [[4, 0, 0], [0, 2, 0], [0, 2, 2]], 0),
        (BLIND, {}, [[8, 0, 0], [4, 4, 0], [4, 0, 4]], 2),
        (BLIND, {"one_class_voters": "leave-out"}, [[2, 0, 0], [0, 2, 0], [0, 0, 2]], 2),
        (BLIND, {"one_class_voters": "count"}, [[6, 0, 0], [4, 2, 0], [4, 0, 2]], 0),
    ],
)
def test_votes_by_hand(answers, settings, votes, discounted):
    found, facts = _tally(answers, **settings)
    assert found.tolist() == votes
    assert found.dtype == np.int32
    assert facts.discounted == discounted


def test_only_counted_parties_give_a_class_each_of_them_once():
    assert _tally(TORN)[1].class_voters.tolist() == [2, 1, 1]  # the first party's students dispute class 1
    assert _tally(BLIND)[1].class_voters.tolist() == [3, 1, 1]
    assert _tally(BLIND, one_class_voters="leave-out")[1].class_voters.tolist() == [1, 1, 1]
    one = _tally(_arrays([[0, 1], [0, 0]]), num_classes=2)[1]
    assert one.class_voters.tolist() == [1, 0]  # its students dispute the only row of class 1


def test_where_nobody_tells_classes_apart_everybody_counts_unless_noise_protects_each_party():
    blind = _arrays([[1, 1]], [[0, 0]], [[1, 1]])
    leave_out = {"one_class_voters": "leave-out", "num_classes": 2}
    votes, facts = _tally(blind, **leave_out)
    assert votes.tolist() == [[1, 2], [1, 2]]
    assert facts.discounted == 3
    noisy, facts = _tally(blind, config=PATEConfig, noise="laplace", noise_strength=1.0, **leave_out)
    assert noisy.tolist() == [[0, 0], [0, 0]]
    assert facts.discounted == 3
    assert facts.class_voters.tolist() == [0, 0]
    halves, _ = _tally(blind, num_classes=2)
    assert halves.tolist() == [[1, 2], [1, 2]]  # one half vote each


students = st.lists(st.lists(st.integers(-1, 2), min_size=4, max_size=4), min_size=2, max_size=2)
everybody = st.lists(students, min_size=1, max_size=5)
counting = st.sampled_from([{}, {"one_class_voters": "leave-out"}, {"one_class_voters": "count"}])


@given(parties=everybody, settings=counting, seed=st.integers(0, 50))
def test_the_order_of_parties_changes_nothing(parties, settings, seed):
    order = np.random.default_rng(seed).permutation(len(parties))
    answers = _arrays(*parties)
    votes, facts = _tally(answers, **settings)
    other, same = _tally([answers[i] for i in order], **settings)
    assert votes.tolist() == other.tolist()
    assert (facts.discounted, facts.class_voters.tolist()) == (same.discounted, same.class_voters.tolist())


VOTES = np.array([[4, 0, 1], [0, 2, 3], [0, 0, 0], [2, 2, 0]], dtype=np.int32)


def test_without_noise_the_most_votes_win_and_ties_follow_the_policy():
    rng = np.random.default_rng(1)
    lowest = aggregate(VOTES, config=OneShotVoteConfig(ties="lowest"), rng=rng)
    assert (lowest.labels.tolist(), lowest.counts) == ([0, 2, -1, 0], None)
    drawn = {aggregate(VOTES, config=OneShotVoteConfig(), rng=rng).labels[3] for _ in range(30)}
    assert drawn == {0, 1}


@pytest.mark.parametrize("learn_from", ["labels", "counts"])
def test_noise_is_the_plan_s_on_the_asked_rows(learn_from):
    config = PATEConfig(noise="gaussian", noise_strength=1.5, learn_from=learn_from, num_queries=2)
    seeds = [np.random.default_rng(5) for _ in range(2)]
    found = aggregate(VOTES, config=config, rng=None, queries=np.array([0, 3]), noise_rng=seeds[0])
    expected = config.server_plan(*VOTES.shape).ask(VOTES[[0, 3]], rng=seeds[1])
    assert found.labels.tolist() == expected.labels.tolist()
    assert np.array_equal(found.counts, expected.counts)
    assert (found.counts is None) == (learn_from == "labels")


def test_the_share_of_winners_that_noise_left_as_they_were():
    counts = np.array([[2, 1], [0, 3], [1, 0], [0, 1]])

    def share(*labels):
        return kept(counts, NoisyAnswers(labels=np.array(labels, dtype=np.int16)))

    assert share(0, 1, 0, 1) == 1.0
    assert share(1, 1, 0, 0) == 0.5
    assert share(-1, 1, -1, 0) == 0.5
    assert share(-1, -1, 0, -1) == 1.0
    assert share(1, 0, 1, 0) == 0.0
    assert share(-1, -1, -1, -1) is None


@pytest.mark.parametrize("unit", [1, 2])
@pytest.mark.parametrize(
    ("settings", "kind", "strength"),
    [
        ({"noise": "laplace", "noise_strength": 0.5}, LaplaceMax, {"gamma": 0.5}),
        ({"noise": "gaussian", "noise_strength": 2.0}, GaussianMax, {"sigma": 2.0}),
        (CONFIDENT, ConfidentGaussianMax, {"threshold": 3.0, "sigma_threshold": 6.0, "sigma": 2.0}),
    ],
)
def test_a_plan_is_in_votes_also_where_halves_are_counted(settings, kind, strength, unit):
    plan = PATEConfig(**settings).plan(votes=3, num_public=60, num_classes=3, unit=unit)
    assert plan.mechanism == kind(**strength, votes=3, counts_per_vote=unit)
    assert (plan.num_queries, plan.release) == (60, "labels")


def test_a_plan_asks_as_many_rows_as_the_run_says():
    plan = PATEConfig(**CONFIDENT, num_queries=30).plan(votes=1, num_public=60, num_classes=3)
    assert plan.num_queries == 30
    counts = PATEConfig(noise="gaussian", noise_strength=1.0, learn_from="counts", num_queries=60)
    plan = counts.plan(votes=1, num_public=60, num_classes=3)
    assert (plan.release, plan.num_queries) == ("counts", 60)
    with pytest.raises(
        ConfigError, match=r"num-queries must be at most 59 \(public rows\), got 60\. Lower num-queries"
    ):
        counts.plan(votes=1, num_public=59, num_classes=3)


@pytest.mark.parametrize(
    ("settings", "unit"),
    [({"noise": "laplace"}, 2), ({"noise": "gaussian"}, 1), ({"noise": "confident-gaussian", "threshold": 3.0}, 2)],
)
def test_noise_found_for_an_epsilon_spends_it_over_all_queries_and_times(settings, unit):
    config = PATEConfig(**settings, epsilon=5.0, delta=1e-4, num_queries=4)
    plan = config.plan(votes=2, num_public=60, num_classes=3, times=3, unit=unit)
    assert (plan.num_queries, plan.mechanism.votes, plan.mechanism.counts_per_vote) == (4, 2, unit)
    accountant = Accountant()
    for event, count in plan.events(times=3):
        accountant = accountant.compose(event, count)
    assert 4.9 < accountant.epsilon(1e-4) <= 5.0
    if "threshold" in settings:
        assert plan.mechanism.threshold == 3.0
        assert plan.mechanism.sigma_threshold == pytest.approx(3 * plan.mechanism.sigma)


@pytest.mark.parametrize(
    ("settings", "num_classes", "winner_of_two"),
    [
        ({"noise": "laplace", "noise_strength": 0.5}, 2, True),
        ({"noise": "laplace", "noise_strength": 0.5}, 3, False),
        ({"noise": "laplace", "noise_strength": 0.5, "learn_from": "counts"}, 2, False),
    ],
)
def test_labels_of_two_classes_alone_have_the_cheaper_event(settings, num_classes, winner_of_two):
    plan = PATEConfig(**settings).server_plan(60, num_classes)
    assert plan.mechanism.winner_of_two == winner_of_two
    ((event, _),) = plan.events()
    assert isinstance(event, TwoClassEvent) == winner_of_two


def test_noise_is_at_the_server_where_the_algorithm_says_so():
    assert not PATEConfig().server_plan(60, 3).adds_noise
    halves = PATEConfig(noise="laplace", noise_strength=1.0, num_queries=7).server_plan(60, 3)
    assert (halves.mechanism, halves.num_queries) == (LaplaceMax(gamma=1.0, votes=1, counts_per_vote=2), 7)
    whole = PATEConfig(noise="laplace", noise_strength=1.0, one_class_voters="leave-out").server_plan(60, 3)
    assert (whole.mechanism, whole.num_queries) == (LaplaceMax(gamma=1.0, votes=1), 60)


def test_noise_at_the_server_is_nothing_that_parties_are_told():
    config = PATEConfig(
        noise="gaussian", noise_strength=1.0, num_queries=7, learn_from="counts", delta=1e-3, seed=4, ties="lowest",
        party_models=False,
    )  # fmt: skip
    told = config.resolved(num_public=60, num_classes=3, num_rounds=1)
    assert told == PATEConfig(seed=4, ties="lowest", party_models=False)
    names = {"noise", "noise_strength", "threshold", "num_queries", "learn_from", "epsilon", "delta"}
    assert set(config.quiet()) == names
    assert all(value == PATEConfig.default(name) for name, value in config.quiet().items())


def _with_liars(count=60):
    """Seven parties of two students that are often right, and three that give all rows but one class 2."""
    rng, truth = np.random.default_rng(3), np.arange(count) % 3
    honest = [np.where(rng.random((2, count)) < 0.5, truth, rng.integers(3, size=(2, count))) for _ in range(7)]
    liar = np.full((2, count), 2)
    liar[:, 0] = 1
    return [one.astype(np.int16) for one in (*honest, *[liar] * 3)], truth


def test_liars_that_evade_the_rule_on_uninformative_voters_no_longer_win():
    answers, truth = _with_liars()
    right = {}
    for robust in ("auto", "none"):
        votes, facts = _tally(answers, distrust=robust)
        right[robust] = (votes.argmax(axis=1) == truth).mean()
    assert right["none"] < 0.85
    assert right["auto"] > 0.9
    assert facts.trusts is None
    assert (_tally(answers)[1].trusts[7:] < 0.1).all()


def test_beside_noise_no_vote_depends_on_what_others_say():
    answers, _ = _with_liars()
    noisy = {"noise": "gaussian", "noise_strength": 2.0}
    found, facts = tally(answers, config=PATEConfig(**noisy), num_classes=3)
    plain, _ = tally(answers, config=PATEConfig(**noisy, distrust="none"), num_classes=3)
    assert facts.trusts is None
    assert found.tolist() == plain.tolist()


def test_where_trust_weighs_rows_with_votes_of_parties_that_label_all_alike_only_have_none():
    answers, _ = _with_liars()
    answers = [*answers[:7], *[np.full_like(answers[0], 2)] * 3]
    for one in answers[:7]:
        one[1, 5] = (one[0, 5] + 1) % 3  # students in dispute
    votes, facts = _tally(answers)
    assert facts.trusts is not None
    assert votes[5].tolist() == [0, 0, 0]
    assert votes.any(axis=1).mean() > 0.9


def test_the_facts_tell_how_many_votes_all_parties_together_cast_on_a_row():
    agreed = _arrays([[0, 1], [0, 1]], [[0, 1], [0, 1]])
    for settings, expected in (({"one_class_voters": "count"}, 4), ({}, 8)):  # by default in halves
        votes, facts = _tally(agreed, num_classes=2, distrust="none", **settings)
        assert facts.num_votes == votes.sum(axis=1).max() == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": "laplace"}, "epsilon or paper.noise-strength must be given with noise, got 'none'"),
        ({**CONFIDENT, "noise_strength": 0.0}, "epsilon or paper.noise-strength must be given with noise"),
        ({**CONFIDENT, "threshold": 0.0}, "threshold must be > 0 with noise 'confident-gaussian', got 0.0"),
        ({"noise": "confident-gaussian", "epsilon": 1.0}, "got 0.0. Give the votes a class must have"),
    ],
)
def test_a_noise_without_a_strength_or_with_two_is_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        PATEConfig(**settings)
    assert message in str(caught.value)
    assert PATEConfig(noise="confident-gaussian", threshold=3.0, epsilon=1.0).privacy == "server"  # a choice, no noise
