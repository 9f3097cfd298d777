"""Noisy max, subsampling, and what every mechanism has in common."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy import integrate, stats

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.privacy.noise.votes import ConfidentGaussianMax, GaussianMax, LaplaceMax, Mechanism, NoPrivacy

VOTES = np.array([[3, 9, 1], [7, 2, 2], [0, 0, 0], [4, 4, 5]])
LABELS = np.array([0, 2, 1, 1])
NOISY_MAX = [
    LaplaceMax(gamma=0.2),
    GaussianMax(sigma=5.0),
    ConfidentGaussianMax(threshold=4.0, sigma_threshold=3.0, sigma=5.0),
]
ON_LABELS = [RandomizedResponse(epsilon=0.5, num_classes=3), BitFlip(epsilon=0.5, num_classes=3)]


def name(mechanism: object) -> str:
    return type(mechanism).__name__


# ---------------------------------------------------------------- every mechanism


def _input(mechanism: object) -> np.ndarray:
    few = LABELS if mechanism in ON_LABELS else VOTES
    return np.concatenate([few] * 25)


@pytest.mark.parametrize("mechanism", [*NOISY_MAX, *ON_LABELS, NoPrivacy()], ids=name)
def test_mechanism_has_what_a_mechanism_offers(mechanism: Mechanism) -> None:
    from dp_accounting import dp_event

    assert isinstance(mechanism, Mechanism)
    assert isinstance(mechanism.dp_event(), dp_event.DpEvent)
    assert len(mechanism.words) > 5
    with pytest.raises(AttributeError):
        mechanism.votes = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("mechanism", [*NOISY_MAX, *ON_LABELS], ids=name)
def test_noise_comes_from_the_operating_system_and_differs(
    mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = _input(mechanism)
    assert not np.array_equal(mechanism.privatize(x), mechanism.privatize(x))
    served = []

    def urandom(size: int) -> bytes:
        served.append(size)
        return np.random.default_rng(5).bytes(size)

    monkeypatch.setattr(os, "urandom", urandom)
    first = mechanism.privatize(x)
    assert served
    assert np.array_equal(first, mechanism.privatize(x))  # nothing else than os.urandom decides


@pytest.mark.parametrize("mechanism", [*NOISY_MAX, *ON_LABELS], ids=name)
def test_seeded_noise_is_reproducible_and_leaves_the_system_alone(
    mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    def urandom(size: int) -> bytes:
        raise AssertionError("a seeded run read the operating system's entropy")

    monkeypatch.setattr(os, "urandom", urandom)
    x = _input(mechanism)
    first, again, other = (mechanism.privatize(x, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("mechanism", [*NOISY_MAX, *ON_LABELS], ids=name)
def test_input_is_left_as_it_was(mechanism: Mechanism) -> None:
    x = _input(mechanism)
    before = x.copy()
    mechanism.privatize(x)
    assert np.array_equal(x, before)


def test_no_privacy_returns_its_input_and_claims_nothing() -> None:
    assert NoPrivacy().privatize(VOTES) is VOTES
    assert type(NoPrivacy().dp_event()).__name__ == "NonPrivateDpEvent"
    assert NoPrivacy().pure_epsilon == math.inf


def test_words_name_the_parameters() -> None:
    assert LaplaceMax(gamma=0.04, votes=2).words == (
        "noisy max, Laplace noise of scale 25 votes (gamma 0.04), 2 votes may move"
    )
    assert "standard deviation 5 votes, 1 vote may move" in GaussianMax(sigma=5).words
    assert "threshold 4 votes" in NOISY_MAX[2].words
    assert "epsilon 0.5 a label" in ON_LABELS[0].words
    assert "3 classes" in ON_LABELS[1].words
    assert "300 of 2880 rows, without" in Subsampling(num_rows=2880, subset_rows=300, replacement=False).words


# ---------------------------------------------------------------- noisy max


@pytest.mark.parametrize("mechanism", [LaplaceMax(gamma=1e9), GaussianMax(sigma=0.01)], ids=name)
def test_hardly_any_noise_is_plain_argmax(mechanism: LaplaceMax | GaussianMax) -> None:
    labels = mechanism.privatize(VOTES)
    assert labels.dtype == np.int16
    assert labels[[0, 1, 3]].tolist() == [1, 0, 2]
    np.testing.assert_allclose(mechanism.noisy_counts(VOTES), VOTES, atol=0.1)


@pytest.mark.parametrize("mechanism", NOISY_MAX[:2], ids=name)
def test_tied_votes_are_decided_by_the_noise_not_by_the_order(mechanism: LaplaceMax) -> None:
    winners = mechanism.privatize(np.full((30_000, 3), 7), rng=np.random.default_rng(1))
    assert stats.chisquare(np.bincount(winners, minlength=3)).pvalue > 0.01


@pytest.mark.parametrize("mechanism", NOISY_MAX[:2], ids=name)
def test_the_winner_is_the_argmax_of_the_noisy_counts(mechanism: LaplaceMax) -> None:
    noisy = mechanism.noisy_counts(VOTES, rng=np.random.default_rng(1))
    winners = mechanism.privatize(VOTES, rng=np.random.default_rng(1))
    assert noisy.dtype == np.float64
    assert winners.tolist() == noisy.argmax(axis=1).tolist()


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
    for mechanism in NOISY_MAX[:2]:
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


def test_confident_max_with_hardly_any_noise_is_a_plain_threshold() -> None:
    mechanism = ConfidentGaussianMax(threshold=6.5, sigma_threshold=0.01, sigma=0.01)
    assert mechanism.privatize(VOTES).tolist() == [1, 0, -1, -1]
    assert mechanism.privatize(VOTES).dtype == np.int16
    always = ConfidentGaussianMax(threshold=-1e300, sigma_threshold=1.0, sigma=0.01)
    assert always.privatize(VOTES)[[0, 1, 3]].tolist() == [1, 0, 2]


def test_events_of_noisy_max_carry_the_votes() -> None:
    from dp_accounting import dp_event

    laplace = LaplaceMax(gamma=0.05, votes=4)
    assert laplace.dp_event() == dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(5.0), 2)
    assert laplace.pure_epsilon == pytest.approx(0.4)
    assert GaussianMax(sigma=10.0, votes=2).dp_event().noise_multiplier == pytest.approx(10 / math.sqrt(8))
    assert GaussianMax(sigma=10.0).pure_epsilon == math.inf
    confident = ConfidentGaussianMax(threshold=1, sigma_threshold=6.0, sigma=10.0, votes=2)
    assert confident.threshold_event().noise_multiplier == 3.0
    assert confident.answer_event() == GaussianMax(sigma=10.0, votes=2).dp_event()
    assert confident.dp_event().events == [confident.threshold_event(), confident.answer_event()]
    assert confident.pure_epsilon == math.inf


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


@pytest.mark.parametrize("gamma", [0, 0.0, -1.0, math.nan, math.inf, 1e-10, True, "1", None, 10**400, np.bool_(1)])
def test_impossible_gammas_are_refused(gamma: object) -> None:
    with pytest.raises(ConfigError, match="gamma must be finite and >= 1e-09, got"):
        LaplaceMax(gamma=gamma)  # type: ignore[arg-type]


@pytest.mark.parametrize("sigma", [0, -1.0, math.nan, math.inf, 1e-4, 1e10, True, "1"])
def test_impossible_sigmas_are_refused(sigma: object) -> None:
    rule = r"sigma must be within 0\.001\.\.1e\+09, got"
    with pytest.raises(ConfigError, match=rule):
        GaussianMax(sigma=sigma)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=rule):
        ConfidentGaussianMax(threshold=1.0, sigma_threshold=1.0, sigma=sigma)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"sigma_threshold must be within 0\.001\.\.1e\+09, got"):
        ConfidentGaussianMax(threshold=1.0, sigma_threshold=sigma, sigma=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("threshold", [math.nan, math.inf, -math.inf, True, "5"])
def test_impossible_thresholds_are_refused(threshold: object) -> None:
    with pytest.raises(ConfigError, match="threshold must be finite, got"):
        ConfidentGaussianMax(threshold=threshold, sigma_threshold=1.0, sigma=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("votes", [0, -1, 1.0, True, "2"])
def test_impossible_votes_are_refused(votes: object) -> None:
    for make in (
        lambda: LaplaceMax(gamma=1.0, votes=votes),  # type: ignore[arg-type]
        lambda: GaussianMax(sigma=1.0, votes=votes),  # type: ignore[arg-type]
        lambda: ConfidentGaussianMax(threshold=1, sigma_threshold=1, sigma=1, votes=votes),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError, match="votes must be a whole number >= 1, got"):
            make()


@pytest.mark.parametrize("mechanism", NOISY_MAX, ids=name)
@pytest.mark.parametrize(
    ("counts", "match"),
    [
        ([1, 2], r"counts must have shape \(rows, classes\) with classes >= 2, got shape \(2,\)"),
        ([[1], [2]], r"counts must have shape \(rows, classes\) with classes >= 2, got shape \(2, 1\)"),
        ([[1, -2]], r"counts must lie within 0\.\.1099511627776, got -2"),
        ([[1, 2**41]], r"counts must lie within 0\.\.1099511627776, got"),
        ([[0.5, 0.5]], "counts must be integers, got dtype float64. Give counts of votes, not shares"),
        ([[True, False]], "counts must be integers, got dtype bool"),
    ],
)
def test_counts_that_are_no_votes_are_refused(mechanism: Mechanism, counts: list, match: str) -> None:
    with pytest.raises(DataError, match=match):
        mechanism.privatize(np.array(counts))


@pytest.mark.parametrize("mechanism", NOISY_MAX, ids=name)
def test_no_rows_are_no_answers(mechanism: Mechanism) -> None:
    assert mechanism.privatize(np.zeros((0, 3), dtype=int)).shape == (0,)


def test_largest_counts_do_not_overflow() -> None:
    counts = np.array([[2**40, 0]])
    assert LaplaceMax(gamma=1e-4).privatize(counts).tolist() == [0]
    assert GaussianMax(sigma=1e6).noisy_counts(counts)[0, 0] > 2**39


# ---------------------------------------------------------------- subsampling


def test_epsilons_of_nfdp_are_natural_logarithms() -> None:
    # ALGORITHMS, section 5: what the paper prints as 0.434 and 0.045 (log10)
    whole = Subsampling(num_rows=2880, subset_rows=2880, replacement=True)
    assert whole.epsilon == pytest.approx(2880 * math.log(2881 / 2880), rel=1e-12)
    assert round(whole.epsilon, 4) == 0.9998
    assert round(Subsampling(num_rows=2880, subset_rows=300, replacement=True).epsilon, 3) == 0.104
    assert whole.delta == pytest.approx(1 - (2879 / 2880) ** 2880)
    some = Subsampling(num_rows=2880, subset_rows=300, replacement=False)
    assert some.epsilon == pytest.approx(math.log(2881 / 2581))
    assert some.delta == 300 / 2880


def _chance_of_any(rows: int, subset_rows: int, replacement: bool) -> Fraction:
    """The probability of one particular draw from ``rows`` rows (each sequence, or each set)."""
    return Fraction(1, rows**subset_rows if replacement else comb(rows, subset_rows))


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n", "k"), [(5, 1), (5, 3), (5, 4), (20, 7), (100, 60)])
def test_nfdp_holds_for_a_row_added_and_for_a_row_removed(n: int, k: int, replacement: bool) -> None:
    mechanism = Subsampling(num_rows=n, subset_rows=k, replacement=replacement)
    power = Fraction(mechanism.epsilon).limit_denominator(10**12)
    e_eps, delta = Fraction(math.exp(power)) * (1 + Fraction(1, 10**11)), mechanism.delta + 1e-12
    for small in (n - 1, n):
        large = small + 1
        in_small, in_large = (_chance_of_any(rows, k, replacement) for rows in (small, large))
        draws = small**k if replacement else comb(small, k)  # those without the row that only the larger set has
        # the hockey-stick divergence, both ways, by summing over all draws
        assert draws * max(0, in_small - e_eps * in_large) <= delta
        assert draws * max(0, in_large - e_eps * in_small) + 1 - draws * in_large <= delta


def test_subset_is_drawn_from_the_system_within_range_and_anew() -> None:
    mechanism = Subsampling(num_rows=1000, subset_rows=200, replacement=False)
    first, second = mechanism.draw(), mechanism.draw()
    assert first.dtype == np.int64
    assert len(set(first.tolist())) == 200
    assert first.min() >= 0
    assert first.max() < 1000
    assert first.tolist() != second.tolist()
    again = [mechanism.draw(rng=np.random.default_rng(1)).tolist() for _ in range(2)]
    assert again[0] == again[1]
    assert Subsampling(num_rows=3, subset_rows=50, replacement=True).draw().shape == (50,)
    assert Subsampling(num_rows=4, subset_rows=4, replacement=False).draw().tolist() == [0, 1, 2, 3]


def test_nfdp_event_is_its_epsilon_and_delta() -> None:
    mechanism = Subsampling(num_rows=100, subset_rows=10, replacement=True)
    event = mechanism.dp_event()
    assert (event.epsilon, event.delta) == (mechanism.epsilon, mechanism.delta)


def test_drawing_every_row_is_not_private() -> None:
    for mechanism in (
        Subsampling(num_rows=7, subset_rows=7, replacement=False),
        Subsampling(num_rows=1, subset_rows=1, replacement=True),
    ):
        assert mechanism.delta == 1
        assert type(mechanism.dp_event()).__name__ == "NonPrivateDpEvent"


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"num_rows": 0}, "num_rows must be a whole number >= 1, got 0"),
        ({"num_rows": True}, "num_rows must be a whole number >= 1, got True"),
        ({"subset_rows": 0}, "subset_rows must be a whole number >= 1, got 0"),
        ({"subset_rows": 2.0}, "subset_rows must be a whole number >= 1, got 2.0"),
        ({"subset_rows": 11}, r"subset_rows must be <= num_rows \(10\), got 11. Draw fewer rows"),
        ({"replacement": 1}, "replacement must be true or false, got 1"),
    ],
)
def test_impossible_subsets_are_refused(changed: dict, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        Subsampling(**({"num_rows": 10, "subset_rows": 5, "replacement": False} | changed))
