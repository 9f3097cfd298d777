"""Noisy max: its law, what it lets out, and what that costs."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.noise.votes import ConfidentGaussianMax, GaussianMax, LaplaceMax

VOTES = np.array([[3, 9, 1], [7, 2, 2], [0, 0, 0], [4, 4, 5]])


NOISY_MAX = [LaplaceMax(gamma=0.2), GaussianMax(sigma=5.0)]


# ---------------------------------------------------------------- noisy max


@pytest.mark.parametrize(
    ("mechanism", "law"),
    [(LaplaceMax(gamma=0.2), stats.laplace(scale=5)), (GaussianMax(sigma=5.0), stats.norm(scale=5))],
    ids=["laplace", "gaussian"],
)
def test_noisy_counts_are_counts_plus_noise_of_the_stated_scale(mechanism: LaplaceMax, law: object) -> None:
    counts = np.tile(np.array([[10, 0]]), (40_000, 1))
    noise = mechanism.noisy_counts(counts, rng=np.random.default_rng(2)) - counts
    for column in noise.T:
        assert stats.kstest(column, law.cdf).pvalue > 0.01  # type: ignore[attr-defined]
        assert stats.kstest(column / 1.1, law.cdf).pvalue < 1e-6  # type: ignore[attr-defined]
    assert abs(np.corrcoef(noise.T)[0, 1]) < 4 / math.sqrt(len(noise))


def test_low_bits_of_a_noisy_count_do_not_tell_the_count() -> None:
    # the leak of floating-point noise (Mironov 2012): here both neighbours have the same residues mod one vote
    for mechanism in NOISY_MAX:
        noisy = [mechanism.noisy_counts(np.full((1, 50), c), rng=np.random.default_rng(3)) for c in (1, 2)]
        assert np.array_equal(noisy[0] + 1, noisy[1])
        assert (noisy[0] * 2**21 % 2 == 1).all()


def test_laplace_max_wins_as_often_as_its_law_says() -> None:
    # P(the class d votes behind wins) = (2 + gamma d) / (4 e^(gamma d)): PATE 2017, Lemma 4's summand
    gamma, gap = 0.3, 4
    winners = LaplaceMax(gamma=gamma).privatize(np.tile([[0, gap]], (100_000, 1)), rng=np.random.default_rng(4))
    expected = (2 + gamma * gap) / (4 * math.exp(gamma * gap))
    assert abs((winners == 0).mean() - expected) < 4 * math.sqrt(expected / 1e5)


def test_confident_max_answers_as_often_as_its_law_says() -> None:
    mechanism = ConfidentGaussianMax(threshold=12.0, sigma_threshold=4.0, sigma=3.0)
    answers = mechanism.privatize(np.tile([[10, 6]], (100_000, 1)), rng=np.random.default_rng(5))
    answered = stats.norm.sf(12, loc=10, scale=4)
    right = stats.norm.cdf(4 / (3 * math.sqrt(2)))
    assert abs((answers >= 0).mean() - answered) < 4 * math.sqrt(answered / 1e5)
    assert abs((answers[answers >= 0] == 0).mean() - right) < 4 * math.sqrt(right / (1e5 * answered))


def test_events_of_noisy_max_carry_the_votes() -> None:
    from dp_accounting import dp_event

    laplace = LaplaceMax(gamma=0.05, votes=4)
    assert laplace.dp_event() == dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(5.0), 2)
    assert laplace.pure_epsilon == pytest.approx(0.4)
    assert GaussianMax(sigma=10.0, votes=2).dp_event().noise_multiplier == pytest.approx(10 / math.sqrt(8))
    confident = ConfidentGaussianMax(threshold=1, sigma_threshold=6.0, sigma=10.0, votes=2)
    comparison, answer = confident.dp_event().events
    assert (comparison.noise_multiplier, answer) == (3.0, GaussianMax(sigma=10.0, votes=2).dp_event())


def _laplace_delta(shift: float, epsilon: float) -> float:
    """Hockey-stick divergence of unit Laplace noise against itself shifted."""
    if abs(epsilon) <= shift:
        return 1 - math.exp((epsilon - shift) / 2)
    return max(0.0, 1 - math.exp(epsilon))


def _pair_delta(a: float, b: float, epsilon: float) -> float:
    """The same for two independent Laplace noises shifted by a and b, integrating over the second one's loss."""
    inner = integrate.quad(
        lambda x: _laplace_delta(a, epsilon - (b - 2 * x)) * math.exp(-x) / 2, 0, b, points=[b / 2], epsabs=1e-12
    )[0]
    return inner + _laplace_delta(a, epsilon - b) / 2 + _laplace_delta(a, epsilon + b) * math.exp(-b) / 2


@pytest.mark.parametrize(("a", "b"), [(1.0, 0.3), (0.5, 0.5), (2.0, 1.0), (0.1, 3.0)])
def test_votes_that_move_between_more_classes_reveal_no_more_than_the_event_says(a: float, b: float) -> None:
    for epsilon in np.linspace(-a - b, a + b, 41):
        pair, one = _pair_delta(a, b, epsilon), _laplace_delta(a + b, epsilon)
        assert pair <= one + 1e-9
        w = a + b - epsilon  # the closed forms in the docstring
        if abs(epsilon) <= abs(a - b):
            assert pair == pytest.approx(1 - math.exp(-w / 2) * (1 + min(a, b) / 2), abs=1e-6)
        elif epsilon > 0:
            assert pair == pytest.approx(1 - math.exp(-w / 2) * (1 + w / 4), abs=1e-6)


WINNER = LaplaceMax(gamma=0.3, votes=2, winner_of_two=True)


def test_the_winner_of_two_is_drawn_as_before_and_costs_less() -> None:
    from fedkd_flwr.privacy.cost.events import TwoClassEvent

    plain, counts = LaplaceMax(gamma=0.3, votes=2), np.tile([[3, 5]], (200, 1))
    drawn = [mechanism.privatize(counts, rng=np.random.default_rng(2)) for mechanism in (plain, WINNER)]
    assert drawn[0].tolist() == drawn[1].tolist()
    assert WINNER.dp_event() == TwoClassEvent(1 / 0.6)
    assert WINNER.pure_epsilon == plain.pure_epsilon
    words = "noisy max of two classes, Laplace noise of scale 3.33333 votes (gamma 0.3), 2 votes may move"
    assert WINNER.words == words


def test_equal_noisy_counts_go_to_the_lowest_class_by_the_difference_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule on v0 - v1 + K0 - K1: also where both noisy counts are shifted together."""
    for noise in ([[1, 1]], [[5, 5]], [[3, 1]], [[-7, 1]], [[1, -7]], [[1, 3]]):
        monkeypatch.setattr(LaplaceMax, "_noise", lambda self, shape, rng, noise=noise: np.array(noise))
        assert WINNER.privatize(np.array([[4, 4]])).tolist() == [0 if noise[0][0] >= noise[0][1] else 1]


def test_the_winner_of_two_releases_no_counts_and_knows_two_classes_only() -> None:
    with pytest.raises(ConfigError, match="winner_of_two must be False where noisy counts are released, got True"):
        WINNER.noisy_counts(np.array([[3, 5]]))
    for counts in ([[1, 2, 3]], [1, 2], [[1], [2]]):
        with pytest.raises(DataError, match=r"counts must have shape \(rows, 2\), got shape"):
            WINNER.privatize(np.array(counts))


def test_largest_counts_do_not_overflow() -> None:
    counts = np.array([[2**40, 0]])
    assert LaplaceMax(gamma=1e-4).privatize(counts).tolist() == [0]
    assert GaussianMax(sigma=1e6).noisy_counts(counts)[0, 0] > 2**39


# ---------------------------------------------------------------- votes counted in halves

HALVES = {
    "laplace": (LaplaceMax(gamma=0.1, votes=3, counts_per_vote=2), LaplaceMax(gamma=0.05, votes=6)),
    "gaussian": (GaussianMax(sigma=5.0, votes=3, counts_per_vote=2), GaussianMax(sigma=10.0, votes=6)),
    "confident": (
        ConfidentGaussianMax(threshold=4.0, sigma_threshold=3.0, sigma=5.0, votes=3, counts_per_vote=2),
        ConfidentGaussianMax(threshold=8.0, sigma_threshold=6.0, sigma=10.0, votes=6),
    ),
}


@pytest.mark.parametrize(("in_votes", "in_halves"), HALVES.values(), ids=HALVES)
def test_a_mechanism_told_in_votes_does_to_half_votes_what_one_told_in_halves_does(
    in_votes: Any, in_halves: Any
) -> None:
    counts = np.concatenate([VOTES] * 25)
    drawn = [mechanism.privatize(counts, rng=np.random.default_rng(1)) for mechanism in (in_votes, in_halves)]
    assert np.array_equal(*drawn)
    assert in_votes.dp_event() == in_halves.dp_event()
    assert "3 votes may move" in in_votes.words
    if not isinstance(in_votes, ConfidentGaussianMax):
        noisy = [mechanism.noisy_counts(counts, rng=np.random.default_rng(1)) for mechanism in (in_votes, in_halves)]
        assert np.array_equal(*noisy)
