"""The integers behind every draw: exact where they claim to be, right in law, and able to fail."""

import math
import os
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import stats

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.privacy.noise import sampling as sampling

WORDS = sampling.WORDS


def exp_bounds(x: Fraction, terms: int = 160) -> tuple[Fraction, Fraction]:
    """Rational bounds of e^x, x > 0, from its series; the upper one needs terms > 2 x."""
    total, term = Fraction(1), Fraction(1)
    for n in range(1, terms):
        term = term * x / n
        total += term
    return total, total + 2 * term


# ---------------------------------------------------------------- words


def test_words_without_rng_are_the_operating_systems_and_never_the_same_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not np.array_equal(sampling.words(4, None), sampling.words(4, None))
    asked: list[int] = []

    def urandom(size: int) -> bytes:
        asked.append(size)
        return bytes(range(size))

    monkeypatch.setattr(os, "urandom", urandom)
    assert sampling.words(2, None).tobytes() == bytes(range(16))
    assert sampling.words(2, None).dtype == np.uint64
    assert asked == [16, 16]


def test_seeded_words_are_the_generator_s_own_64_bits_from_the_first_to_the_last() -> None:
    generator = np.random.default_rng(0)
    assert sampling.words(100, np.random.default_rng(0)).tolist() == generator.bit_generator.random_raw(100).tolist()


@pytest.mark.parametrize("rng", [0, "seed", np.random])
def test_words_refuse_what_is_no_generator(rng: object) -> None:
    with pytest.raises(ConfigError, match="rng must be a numpy Generator or None"):
        sampling.words(1, rng)  # type: ignore[arg-type]


def test_blocks_fill_every_place_once() -> None:
    shape = (2, sampling._BLOCK // 2 + 1)
    noise = sampling.laplace_units(0.001, shape, np.random.default_rng(0))
    assert noise.shape == shape
    assert np.unique(noise).size > 0.99 * noise.size  # 2^31 equally likely places, none left over from np.empty


# ---------------------------------------------------------------- noise


Tables = tuple[tuple[int, np.ndarray], ...]


def _rate(gamma: float) -> Decimal:
    """Return the rate a cell that noise of rate ``gamma`` a vote is drawn with: lowered by 2^-42 a vote, and capped."""
    return (min(Decimal(gamma), Decimal(2**10)) - Decimal(2) ** -42) / 2**20


def _error_a_vote(tables: Tables, rate: Decimal) -> float:
    """Return how far one vote can shift the log of a probability beyond the law, from the thresholds themselves."""
    worst, position = Decimal(0), 0
    for place, (bits, thresholds) in enumerate(tables):
        size, top = 2**bits, place == len(tables) - 1
        mass = [int(high) - int(low) for low, high in pairwise([0, *map(int, thresholds), WORDS])]
        ratio = (-rate * 2**position).exp()
        whole = 1 if top else 1 - ratio**size
        ideal = [ratio**k * (1 - ratio) / whole * WORDS for k in range(size)] + [ratio**size * WORDS] * top
        worst += max(abs(m / i - 1) for m, i in zip(mass, ideal, strict=True))
        position += bits
    # both neighbours err, and a vote may cross the whole table more than once
    return float(2 * worst) * (1 + 2.0 ** (20 - position))


@pytest.mark.parametrize("gamma", [1e-9, 1e-4, 0.04, 1.0, 7.3, 1024.0, 1e300])
def test_rounded_thresholds_cost_less_than_the_allowance_on_the_rate(
    gamma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    tables_of = sampling._digit_tables

    def digit_tables(rate: Decimal) -> Tables:
        used.append((rate, tables_of(rate)))
        return used[-1][1]

    monkeypatch.setattr(sampling, "_digit_tables", digit_tables)
    sampling.laplace_units(gamma, (1,), None)
    ((rate, tables),) = used
    with localcontext(prec=60):
        assert rate == pytest.approx(_rate(gamma), abs=Decimal(10) ** -50)
        assert _error_a_vote(tables, rate) < 2.0**-42


@pytest.mark.parametrize("gamma", [1e-9, 1e-4, 0.04, 1.0, 7.3, 1024.0])
def test_rounded_thresholds_move_the_odds_of_two_classes_by_less_than_the_allowance(gamma: float) -> None:
    """Up to 600 scales: 2 E (3.5 + u / 2) for each neighbour, in scales of the noise, against 2^-41 for two votes."""
    with localcontext(prec=60):
        tables = sampling._digit_tables(_rate(gamma))
        position = sum(bits for bits, _ in tables)
        crossing = _error_a_vote(tables, _rate(gamma)) / (1 + 2.0 ** (20 - position)) / 2
        assert 2 * float(_rate(gamma)) * 2**position >= 2 * 1.999  # a table spans two scales at least
    assert 2 * 2 * crossing * (3.5 + 600 / 2) < 2.0**-41


@pytest.mark.parametrize("rate", ["1e-18", "1e-12", "4e-8", "0.0009765625", "0.1", "1"])
def test_the_difference_of_two_draws_is_dominated_by_that_of_two_continuous_noises(rate: str) -> None:
    """One cell is never worth more than its rate: the steps of u(d) in the module's text."""
    with mpmath.workdps(60):
        rho = mpmath.mpf(rate)
        r = mpmath.exp(-rho)
        a, b = (3 + r) / (4 * (1 + r)), (1 - r) / (4 * r)

        def place(d: int) -> mpmath.mpf:
            tail = r**d * (a + b * d)
            return mpmath.findroot(lambda u: u - mpmath.log(2 + u) + mpmath.log(4 * tail), rho * (d - 0.5))

        assert place(1) <= rho / 2
        assert place(1) >= rho * (1 + a / b) - 2
        for d in (1, 2, 10, 1000):
            assert 0 < place(d + 1) - place(d) <= rho


def test_the_law_of_the_difference_of_two_draws_is_the_one_stated() -> None:
    rho = 0.7
    r = math.exp(-rho)
    value = np.arange(-120, 120)
    mass = (1 - r) / 2 * r ** np.where(value >= 0, value, -value - 1)  # value + 1/2 is the middle of a cell
    difference = np.convolve(mass, mass[::-1])
    at = np.arange(-239, 240)
    for d in range(12):
        exact = float(difference[at >= d].sum())
        assert exact == pytest.approx(r**d * ((3 + r) / (4 * (1 + r)) + (1 - r) / (4 * r) * d), rel=1e-12)


def test_a_table_for_another_rate_costs_more_than_the_allowance() -> None:
    with localcontext(prec=60):
        wrong = sampling._digit_tables(_rate(1.0) * (1 + Decimal(10) ** -9))
        assert _error_a_vote(wrong, _rate(1.0)) > 2.0**-42


@pytest.mark.parametrize("scale", [0.05, 40.0])
@pytest.mark.parametrize("law", ["laplace", "norm"])
def test_noise_follows_its_law_and_no_other(law: str, scale: float) -> None:
    rng, laplace = np.random.default_rng(1), law == "laplace"
    draw, parameter = (sampling.laplace_units, 1 / scale) if laplace else (sampling.gaussian_units, scale)
    noise = draw(parameter, (60_000,), rng) / sampling.UNITS_PER_VOTE
    right, other, factor = (stats.laplace, stats.norm, 1.414) if laplace else (stats.norm, stats.laplace, 1 / 1.414)
    assert stats.kstest(noise, right(scale=scale).cdf).pvalue > 0.01
    for wrong in (right(scale=1.1 * scale), right(scale=0.9 * scale), other(scale=factor * scale)):
        assert stats.kstest(noise, wrong.cdf).pvalue < 1e-6


def test_laplace_tails_go_on_beyond_the_top_digit() -> None:
    noise = sampling.laplace_units(1.0, (1_000_000,), np.random.default_rng(3)) / sampling.UNITS_PER_VOTE
    for beyond in (5.0, 9.0):  # the tables span 2 to 4 scales
        expected = 1_000_000 * math.exp(-beyond)
        assert abs((np.abs(noise) > beyond).sum() - expected) < 4 * math.sqrt(expected)


def test_a_word_of_zero_is_the_cell_next_to_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "words", lambda count, rng: np.zeros(count, dtype=np.uint64))
    # the coin of a zero bit is minus
    assert sampling.laplace_units(1.0, (2,), None).tolist() == [-1, -1]
    assert sampling.gaussian_units(1.0, (2,), None).tolist() == [-1, -1]


def test_a_digit_counts_the_thresholds_up_to_its_word_and_the_top_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = sampling._digit_tables(_rate(1.0))
    assert len(tables) == 3
    lowest, middle, top = (thresholds for _, thresholds in tables)
    position = tables[0][0] + tables[1][0]
    queue = [[lowest[4], lowest[4] - 1], [middle[2], 0], [top[-1], top[9]], [top[7]]]

    def served(count: int, rng: object) -> np.ndarray:
        assert len(queue[0]) == count
        return np.array(queue.pop(0), dtype=np.uint64)

    monkeypatch.setattr(sampling, "words", served)
    first, second = sampling._geometric(tables, 2, None).tolist()
    assert first == 5 + (3 << tables[0][0]) + ((len(top) + 8) << position)
    assert second == 4 + (10 << position)
    assert not queue


@pytest.mark.parametrize("cell", [0, 700_000])
def test_a_gaussian_proposal_is_kept_with_the_density_in_the_middle_of_its_cell(
    cell: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # sigma 1: 2^20 cells; the edge lies where exp(-(x - 1)^2 / 2) is, at the middle x of the cell
    edge = math.exp(-(((cell + 0.5) / 2**20 - 1) ** 2) / 2)
    proposals = [np.array([cell, cell]), np.array([5])]
    monkeypatch.setattr(sampling, "_geometric", lambda tables, count, rng: proposals.pop(0))
    answers = [[int(edge * 2**64 * (1 - 1e-9)), int(edge * 2**64 * (1 + 1e-9))], [0], [0]]
    monkeypatch.setattr(sampling, "words", lambda count, rng: np.array(answers.pop(0), dtype=np.uint64))
    assert sampling.gaussian_units(1.0, (2,), None).tolist() == [-(2 * cell + 1), -11]


def test_the_widest_noise_still_lies_in_the_middle_of_cells() -> None:
    assert np.abs(sampling.laplace_units(1e300, (1000,), None)).max() < 40 * 2**11  # and the narrowest is no wider
    # beyond 2^53 a float would have lost the last bit
    for draw, parameter in ((sampling.laplace_units, 1e-9), (sampling.gaussian_units, 1e9)):
        noise = draw(parameter, (200_000,), np.random.default_rng(7))
        assert np.abs(noise).max() > 2**53
        assert 0.9e9 < np.sqrt(((noise / sampling.UNITS_PER_VOTE) ** 2).mean()) < 1.5e9
        assert (noise % 2 == 1).all()


# ---------------------------------------------------------------- labels, bits, rows


@pytest.mark.parametrize("num_classes", [2, 10, 32767])
@pytest.mark.parametrize("epsilon", [1e-10, 1e-3, 1.0, 20.0, 60.0, 700.0])
def test_response_words_never_claim_less_than_they_reveal(epsilon: float, num_classes: int) -> None:
    kept, each = sampling.response_words(epsilon, num_classes)
    assert kept > 0
    assert kept + num_classes * each == WORDS  # no remainder, so no class is favoured
    lower, upper = exp_bounds(Fraction(epsilon))
    assert Fraction(kept, each) <= lower - 1
    if epsilon <= 20 and each > 1:  # and no word is wasted: one less a class would reveal more
        assert Fraction(kept + num_classes, each - 1) > upper - 1


@pytest.mark.parametrize("epsilon", [1e-10, 1e-3, 1.0, 20.0, 90.0, 700.0])
def test_flip_words_never_claim_less_than_they_reveal(epsilon: float) -> None:
    flipped = sampling.flip_words(epsilon)
    lower, upper = exp_bounds(Fraction(epsilon) / 2)
    assert 0 < flipped < WORDS // 2
    assert Fraction(WORDS - flipped, flipped) <= lower
    if flipped > 1 and epsilon <= 40:
        assert Fraction(WORDS - flipped + 1, flipped - 1) > upper


def test_sixty_digits_survive_a_careless_decimal_context() -> None:
    assert Decimal(1) < sampling._LIFT < Decimal("1.0000000001")
    expected = sampling.response_words(0.1, 10), sampling.flip_words(0.1)
    with localcontext(prec=3):
        assert (sampling.response_words(0.1, 10), sampling.flip_words(0.1)) == expected


def test_bernoulli_uses_its_threshold_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "words", lambda count, rng: np.array([0, 6, 7, WORDS - 1], dtype=np.uint64))
    assert sampling.bernoulli(7, (4,), None).tolist() == [True, True, False, False]


def test_subsets_are_equally_likely() -> None:
    rng = np.random.default_rng(7)
    drawn = [tuple(sampling.subset(5, 2, replacement=False, rng=rng)) for _ in range(5000)]
    names, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(names) == 10
    assert stats.chisquare(counts).pvalue > 0.01
    uneven = counts * np.linspace(0.8, 1.2, 10)
    assert stats.chisquare(uneven * 5000 / uneven.sum()).pvalue < 1e-6


def test_rows_with_replacement_are_equally_likely() -> None:
    drawn = sampling.subset(6, 60_000, replacement=True, rng=np.random.default_rng(8))
    assert drawn.dtype == np.int64
    assert stats.chisquare(np.bincount(drawn, minlength=6)).pvalue > 0.01


@pytest.mark.parametrize(
    ("replacement", "queue"),
    [(True, [[WORDS - 1, WORDS - 2], [4]]), (False, [[5, 5, 9], [8, 2, 1]])],
    ids=["2^64 = 1 mod 3: the topmost word would favour row 0", "equal keys"],
)
def test_words_that_would_favour_a_row_are_drawn_again(
    replacement: bool, queue: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = iter(queue)

    def words(count: int, rng: object) -> np.ndarray:
        given = np.array(next(served), dtype=np.uint64)
        assert len(given) == count
        return given

    monkeypatch.setattr(sampling, "words", words)
    assert sampling.subset(3, 2, replacement=replacement, rng=None).tolist() == [1, 2]
    assert next(served, None) is None
