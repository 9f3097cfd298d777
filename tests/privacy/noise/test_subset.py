"""NFDP's random subset: what it costs by summing over all draws, and who draws it."""

import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.privacy.noise.subset import Subsampling


def test_epsilons_of_nfdp_are_natural_logarithms() -> None:
    # ALGORITHMS, section 5: what the paper prints as 0.434 and 0.045 (log10)
    whole = Subsampling(num_rows=2880, subset_rows=2880, replacement=True)
    assert whole.epsilon == pytest.approx(2880 * math.log(2881 / 2880), rel=1e-12)
    assert round(Subsampling(num_rows=2880, subset_rows=300, replacement=True).epsilon, 3) == 0.104
    assert whole.delta == pytest.approx(1 - (2879 / 2880) ** 2880)
    some = Subsampling(num_rows=2880, subset_rows=300, replacement=False)
    assert some.epsilon == pytest.approx(math.log(2881 / 2581))
    assert some.delta == 300 / 2880
    assert (some.dp_event().epsilon, some.dp_event().delta) == (some.epsilon, some.delta)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n", "k"), [(5, 1), (5, 3), (5, 4), (20, 7), (100, 60)])
def test_nfdp_holds_for_a_row_added_and_for_a_row_removed(n: int, k: int, replacement: bool) -> None:
    mechanism = Subsampling(num_rows=n, subset_rows=k, replacement=replacement)
    power = Fraction(mechanism.epsilon).limit_denominator(10**12)
    e_eps, delta = Fraction(math.exp(power)) * (1 + Fraction(1, 10**11)), mechanism.delta + 1e-12
    for small in (n - 1, n):
        large = small + 1
        # of one particular draw, each sequence or each set
        in_small, in_large = (Fraction(1, rows**k if replacement else comb(rows, k)) for rows in (small, large))
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


@pytest.mark.parametrize(
    ("known", "replacement", "rows"),
    [(0, True, 30), (0, False, 30), (20, True, 20), (20, False, 30), (100, False, 100)],
)
def test_what_is_claimed_is_of_the_rows_that_anybody_may_know_of(known, replacement, rows):
    claimed = Subsampling.claimed(rows_at_least=known, subset_rows=30, replacement=replacement)
    assert claimed == Subsampling(num_rows=rows, subset_rows=30, replacement=replacement)


@pytest.mark.parametrize("replacement", [True, False])
def test_the_numbers_of_fewer_rows_cover_every_larger_number(replacement):
    """So a claim of a lower bound holds for each true number of rows, and need not tell it."""
    drawn = [Subsampling(num_rows=n, subset_rows=20, replacement=replacement) for n in range(20, 400)]
    assert (np.diff([one.epsilon for one in drawn]) < 0).all()
    assert (np.diff([one.delta for one in drawn]) < 0).all()
