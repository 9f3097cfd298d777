"""What compositions cost: reference values, bounds that hold, and how the accountant treats odd input."""

import json
import math
from pathlib import Path

import dp_accounting as dp
import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.privacy.cost import accountant as accountants
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.events import ApproximateEvent, PureEvent, TwoClassEvent, pure_epsilon
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.privacy.noise.votes import GaussianMax

ORACLE = json.loads((Path(__file__).parents[2] / "oracles" / "privacy.json").read_text(encoding="utf-8"))

EVENTS = [
    dp.GaussianDpEvent(3.0),
    dp.LaplaceDpEvent(5.0),
    dp.RandomizedResponseDpEvent(0.9, 10),
    dp.SelfComposedDpEvent(dp.LaplaceDpEvent(25.0), 2),
    dp.ComposedDpEvent([dp.GaussianDpEvent(30.0), dp.LaplaceDpEvent(9.0), dp.NoOpDpEvent()]),
    dp.NonPrivateDpEvent(),
    dp.NoOpDpEvent(),
    PureEvent(0.1),
    ApproximateEvent(0.1, 1e-7),
    TwoClassEvent(10.0),
]


def _spent(*uses):
    accountant = Accountant()
    for event, count in uses:
        accountant.compose(event, count)
    return accountant


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_n_compositions_of_one_use_in_any_order_are_one_composition_of_n(event):
    single = _spent(*[(event, 1)] * 7)
    assert single.events == _spent((event, 7)).events == _spent((dp.SelfComposedDpEvent(event, 7), 1)).events
    mixed = [(EVENTS[0], 1), (event, 3), (EVENTS[1], 2)]
    assert _spent(*mixed).events == _spent(*mixed[::-1]).events
    # whatever is equal in its events is equal in its costs; epsilon at another delta is the same computation
    assert single.epsilon(0.0) == _spent((event, 7)).epsilon(0.0)
    assert single.delta(1.0) == _spent((event, 7)).delta(1.0)


@pytest.mark.parametrize("case", ORACLE["randomized_response"], ids=lambda case: f"eps {case['epsilon']:g}")
def test_randomised_responses_cost_what_the_reference_says(case):
    event = dp.RandomizedResponseDpEvent(1 - case["beta"], case["C"])
    one = _spent((event, 1)).epsilon(0.0)
    assert one == pytest.approx(case["per_label_eps_closed_form"], rel=1e-9)
    # the reference rounded losses up to a grid of 1e-4: one label by up to 1e-4, a hundred by up to 1e-2
    assert one * (1 - 1e-9) <= case["pld_eps_1label_delta0"] <= one + 1e-4 * (1 + 1e-9)
    hundred = _spent((event, 100)).epsilon(1e-5)
    assert hundred * (1 - 1e-7) <= case["pld_eps_100labels_delta1e5"] <= hundred + 1e-2
    if abs(one / 1e-4 - round(one / 1e-4)) < 1e-9 and one in (2.5, 1.0):
        assert hundred == pytest.approx(case["pld_eps_100labels_delta1e5"], rel=1e-7)
    assert hundred < case["rdp_eps_100labels_delta1e5"] < _spent((event, 100)).epsilon(0.0)
    assert _spent((event, 100)).epsilon(0.0) == pytest.approx(case["basic_composition_100labels"], rel=1e-9)


@pytest.mark.parametrize("case", ORACLE["nfdp"], ids=lambda case: f"{case['k']} of {case['n']}")
def test_subsampling_costs_what_the_reference_says_at_its_own_delta_and_nothing_finite_below(case):
    drawn = Subsampling(num_rows=case["n"], subset_rows=case["k"], replacement=case["replacement"])
    spent = _spent((drawn.dp_event(), 1))
    assert spent.epsilon(drawn.delta) == pytest.approx(case["epsilon"], rel=1e-12)
    assert spent.delta(drawn.epsilon) == pytest.approx(case["delta"], rel=1e-12)
    assert spent.epsilon(drawn.delta * 0.99) == math.inf
    assert 0 <= spent.epsilon((1 + drawn.delta) / 2) < case["epsilon"]


def test_gaussian_queries_alone_cost_the_exact_amount_and_less_than_renyi_s():
    case = next(c for c in ORACLE["pate2018"] if c["id"] == "gn05_100q_sigma20")
    exact = _spent((GaussianMax(sigma=20.0).dp_event(), 100)).epsilon(1e-5)
    assert exact == pytest.approx(dp.get_epsilon_gaussian(20 / math.sqrt(200), 1e-5), rel=1e-10)
    assert 0.8 * case["eps_data_independent"] < exact < case["eps_data_independent"]
    # unequal ones: precisions add
    mixed = _spent((dp.GaussianDpEvent(3.0), 1), (dp.GaussianDpEvent(4.0), 1)).epsilon(1e-5)
    assert mixed == pytest.approx(dp.get_epsilon_gaussian(12 / 5, 1e-5), rel=1e-10)


GAUSSIAN, LAPLACE = (dp.GaussianDpEvent(4.0), 3), (dp.LaplaceDpEvent(10.0), 40)


@pytest.mark.parametrize(
    "uses", [(GAUSSIAN, LAPLACE), ((TwoClassEvent(12.5), 40), (PureEvent(0.1), 30))], ids=["votes", "two classes"]
)
def test_unlike_events_together_cost_more_than_either_and_less_than_both(uses):
    apart = [_spent(one).epsilon(1e-5) for one in uses]
    assert max(apart) < _spent(*uses).epsilon(1e-5) < sum(apart)


def test_gaussian_beside_laplace_noise_costs_what_dp_accounting_finds_on_a_fine_grid():
    accountant = dp.pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-4)
    reference = accountant.compose(*GAUSSIAN).compose(*LAPLACE).get_epsilon(1e-5)
    assert _spent(GAUSSIAN, LAPLACE).epsilon(1e-5) == pytest.approx(reference, rel=1e-5)


def test_two_strengths_of_one_kind_cost_more_than_the_weaker_twice_and_less_than_the_stronger_twice():
    weak, both, strong = ([(TwoClassEvent(noise), 40) for noise in two] for two in ((20, 20), (12.5, 20), (12.5, 12.5)))
    assert _spent(*weak).epsilon(1e-5) < _spent(*both).epsilon(1e-5) < _spent(*strong).epsilon(1e-5)


OF_EPSILON = {
    "pure": PureEvent,
    "laplace": lambda epsilon: dp.LaplaceDpEvent(1 / epsilon),
    "two classes": lambda epsilon: TwoClassEvent(2 / epsilon),
}
DELTAS = [1e-300, 1e-200, 1e-12, 1e-5, 0.1, 0.9]


@example(53.5625, 22123, 0.9, "pure")  # at delta 0.99 the first guess of an epsilon is just too small to prove
@settings(max_examples=18)
@given(st.floats(1e-9, 60), st.integers(1, 10**6), st.sampled_from(DELTAS), st.sampled_from([*OF_EPSILON]))
def test_epsilon_is_within_the_plain_sum_of_two_classes_within_any_mechanism_s_and_its_delta_is_kept(
    per_use, count, delta, kind
):
    spent = _spent((OF_EPSILON[kind](per_use), count))
    epsilon = spent.epsilon(delta)
    assert 0 <= epsilon <= spent.epsilon(0.0) <= per_use * count * (1 + 1e-12)
    if kind == "two classes" and delta >= 1e-200:  # a mass of 1e-290 is left beyond its grids
        assert epsilon <= _spent((PureEvent(per_use), count)).epsilon(delta) * (1 + 1e-9)
    # read the other way round: as good, whichever tilt each of them chose; far out the way back is looser, see below
    if delta >= 1e-12:
        assert spent.delta(epsilon) <= delta * (1 + 1e-2)
    assert spent.epsilon(min(0.99, delta * 2)) <= epsilon * (1 + 1e-9)


def test_events_of_dp_accounting_mean_what_we_take_them_for():
    # noise_parameter: the probability of a uniform answer; the loss of the kept class is the epsilon
    noise = 0.4
    assert pure_epsilon(dp.RandomizedResponseDpEvent(noise, 4)) == pytest.approx(math.log((0.6 + 0.1) / 0.1), rel=1e-12)
    lost = dp.pld.privacy_loss_distribution.from_randomized_response(noise, 4, value_discretization_interval=1e-6)
    assert lost.get_epsilon_for_delta(0.0) == pytest.approx(math.log(7), abs=2e-6)
    # replace-one, either way round: losses log 7, 0, -log 7 with probability 0.7, 0.2, 0.1
    assert lost.get_delta_for_epsilon(0.0) == pytest.approx(0.7 - 0.1, abs=1e-5)
    # noise_multiplier: scale over sensitivity
    assert pure_epsilon(dp.LaplaceDpEvent(4.0)) == pytest.approx(0.25, rel=1e-12)
    laplace = dp.pld.PLDAccountant().compose(dp.LaplaceDpEvent(4.0))
    assert laplace.get_epsilon(1e-9) == pytest.approx(0.25, abs=1e-3)


def test_no_noise_has_no_bound_and_nothing_costs_nothing():
    nothing = _spent((dp.NoOpDpEvent(), 5), (dp.LaplaceDpEvent(1.0), 0))
    assert (nothing.epsilon(0.0), nothing.epsilon(1e-5), nothing.delta(0.0), nothing.events) == (0.0, 0.0, 0.0, ())
    for event in (
        dp.NonPrivateDpEvent(),
        dp.GaussianDpEvent(0.0),
        dp.LaplaceDpEvent(0.0),
        dp.RandomizedResponseDpEvent(0.0, 3),
        TwoClassEvent(0.0),
        ApproximateEvent(0.1, 1.0),
        PureEvent(math.inf),
    ):
        spent = _spent((event, 1), (PureEvent(0.1), 1))
        assert (spent.epsilon(0.5), spent.delta(100.0)) == (math.inf, 1.0)


def test_at_delta_zero_pure_events_sum_and_others_have_no_bound_and_stated_deltas_count_against_the_asked_one():
    assert _spent((PureEvent(0.5), 4), (dp.LaplaceDpEvent(2.0), 2)).epsilon(0.0) == pytest.approx(3.0)
    assert _spent((dp.GaussianDpEvent(100.0), 1)).epsilon(0.0) == math.inf
    spent = _spent((ApproximateEvent(0.1, 1e-6), 20))
    assert spent.epsilon(0.0) == spent.epsilon(1e-6) == math.inf
    assert 0 < spent.epsilon(1e-4) <= 20 * 0.1
    assert _spent((ApproximateEvent(0.0, 1e-6), 20)).epsilon(1e-4) < 1e-9


@pytest.mark.parametrize("noise", [0.3, 1.0, 7.0, 1000.0])
def test_a_gaussian_s_delta_is_the_closed_form_s_rounded_up(noise):
    """Balle and Wang 2018, Theorem 8, in 60 digits."""
    with mpmath.workdps(60):
        for epsilon in (0.0, 0.01, 0.7, 3.0, 20.0):
            half, moved = mpmath.mpf(1) / (2 * mpmath.mpf(noise)), mpmath.mpf(epsilon) * mpmath.mpf(noise)
            if half - moved > -30:
                exact = mpmath.log(mpmath.ncdf(half - moved) - mpmath.exp(epsilon) * mpmath.ncdf(-half - moved))
                found = accountants._gaussian_log_delta(noise, epsilon)
                assert exact <= found <= exact + 1e-9
                assert _spent((dp.GaussianDpEvent(noise), 1)).delta(epsilon) == pytest.approx(float(mpmath.exp(exact)))


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.05])
def test_a_gaussian_s_epsilon_keeps_its_delta_and_hardly_more(delta):
    for noise in (0.01, 0.5, 1.0, 1.5, 3.0, 8.0):
        epsilon = _spent((dp.GaussianDpEvent(noise), 1)).epsilon(delta)
        assert accountants._gaussian_log_delta(noise, epsilon) <= math.log(delta)
        if epsilon:
            assert accountants._gaussian_log_delta(noise, epsilon * (1 - 1e-9)) > math.log(delta)
            assert epsilon == pytest.approx(dp.get_epsilon_gaussian(noise, delta), rel=1e-9)


def test_gaussian_noise_beyond_all_numbers_costs_nothing_and_noise_below_them_all():
    much, none = _spent((dp.GaussianDpEvent(1e200), 7)), _spent((dp.GaussianDpEvent(1e-150), 1))
    assert (much.epsilon(1e-320), much.epsilon(1e-5), much.delta(0.0)) == (0.0, 0.0, 0.0)
    assert (none.epsilon(0.5), none.delta(1e100)) == (math.inf, 1.0)
    assert _spent((dp.GaussianDpEvent(1.0), 1)).delta(1e200) == 0.0
    assert _spent((dp.GaussianDpEvent(1000.0), 1)).epsilon(0.5) == 0.0


def test_gaussian_noise_too_little_for_a_grid_has_the_plain_sum_alone():
    for noise, held in ((1e-6, False), (1.001e-6, True)):
        spent = _spent((dp.GaussianDpEvent(noise), 1), (PureEvent(0.1), 1))
        assert (spent.epsilon(1e-5) < math.inf) == held
        assert (spent.delta(1.0), spent._parts() is None) == (1.0, not held)


def test_at_the_plain_sum_no_more_than_the_stated_deltas_is_left():
    assert _spent((PureEvent(0.5), 4)).delta(2.0) == 0.0
    assert 0 < _spent((PureEvent(0.5), 4)).delta(1.999) < 1e-3
    assert _spent((ApproximateEvent(0.5, 1e-6), 1), (PureEvent(0.5), 1)).delta(1.0) == 1e-6
    assert _spent((ApproximateEvent(0.5, 1e-6), 1)).epsilon(1e-6) == 0.5


@pytest.mark.parametrize("uses", [[(1e-6, 2)], [(1e-6, 1), (1e-3, 1)], [(0.1, 3), (1e-12, 5), (0.5, 1)], [(0.9, 400)]])
def test_stated_deltas_compose_as_chances_of_at_least_one_rounded_up(uses):
    found = _spent(*[(ApproximateEvent(0.1, delta), count) for delta, count in uses]).delta(1e6)
    with mpmath.workdps(60):
        none = mpmath.mpf(1)
        for delta, count in uses:
            none *= (1 - mpmath.mpf(delta)) ** count
        assert min(1 - none, 1) - mpmath.mpf(10) ** -40 <= found <= min(1, (1 - none) * (1 + 1e-14))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        *((lambda v=v: Accountant().epsilon(v), r"delta must be within \[0, 1\), got") for v in (-1e-9, 1.0, math.nan)),
        *((lambda v=v: Accountant().delta(v), "epsilon must be finite and >= 0, got") for v in (-1.0, math.nan, True)),
        (lambda: Accountant().compose(PureEvent(1.0), 10**15 + 1), "count must be a whole number within"),
    ],
)
def test_impossible_numbers_are_refused(call, match):
    with pytest.raises(ConfigError, match=match):
        call()


def test_an_event_that_cannot_be_accounted_for_is_refused_and_leaves_nothing_behind():
    accountant = Accountant()
    with pytest.raises(ConfigError, match="event must be a Gaussian"):
        accountant.compose(dp.ComposedDpEvent([PureEvent(1.0), dp.ZCDpEvent(1.0)]))
    assert accountant.events == ()


# --------------------------------------------------------------------------------------------------- cumulants


def _response_cumulant(noise, classes, tilt):
    """``ln E exp(tilt * loss)`` of one randomised response: three losses, in mpmath."""
    other = mpmath.mpf(noise) / classes
    likely = 1 - mpmath.mpf(noise) + other
    loss = mpmath.log(likely / other)
    return mpmath.log(likely * mpmath.exp(tilt * loss) + other * mpmath.exp(-tilt * loss) + (classes - 2) * other)


def _laplace_cumulant(epsilon, tilt):
    """Half of the losses are epsilon, e^-epsilon / 2 are -epsilon, between is a density e^((l - epsilon) / 2) / 4."""
    epsilon, rate = mpmath.mpf(epsilon), mpmath.mpf(tilt) + mpmath.mpf(1) / 2
    ends = mpmath.exp(tilt * epsilon) / 2 + mpmath.exp(-epsilon - tilt * epsilon) / 2
    return mpmath.log(ends + mpmath.exp(-epsilon / 2) / 2 * mpmath.sinh(rate * epsilon) / rate)


@pytest.mark.parametrize("classes", [0, 2, 10])
@pytest.mark.parametrize("epsilon", [10.0**-k for k in (4, 7, 10)])
def test_the_cumulant_of_a_tiny_release_is_at_least_the_exact_one_and_hardly_more(epsilon, classes):
    """Of responses among so many classes, or of Laplace noise."""
    event, grid = dp.LaplaceDpEvent(1 / epsilon), 1e-8
    if classes:
        event, grid = RandomizedResponse(epsilon=epsilon, num_classes=classes).dp_event(), 1e-12
    for tilt in (0.5, 3.0, 16.79, 400.0):
        with mpmath.workdps(60):
            if classes:
                exact = _response_cumulant(event.noise_parameter, classes, tilt)
            else:
                exact = _laplace_cumulant(1 / mpmath.mpf(event.noise_multiplier), tilt)
            for count in (1, 10**12) if classes else (1,):
                found = _spent((event, count)).cumulant(tilt)
                assert count * exact <= found <= count * exact * (1 + grid + 1e-14 / epsilon)


@pytest.mark.parametrize("tilt", [0.5, 16.79])
def test_the_cumulant_of_tiny_labels_of_two_classes_is_at_least_that_of_the_worst_equal_votes(tilt):
    """The excess is that of larger epsilons: it comes from the bound, not from rounding."""
    excess = []
    for epsilon in (1e-3, 1e-6, 1e-8):
        with mpmath.workdps(60):
            moved = mpmath.mpf(epsilon)
            worst = 0
            for place in [mpmath.mpf(k) / 20 for k in range(-60, 1)]:
                p, q = ((2 - u) * mpmath.exp(u) / 4 for u in (place - moved, place))  # the losing side of the coin
                worst = max(worst, mpmath.log(p * (p / q) ** tilt + (1 - p) * ((1 - p) / (1 - q)) ** tilt))
            excess.append(float(_spent((TwoClassEvent(2 / epsilon), 1)).cumulant(tilt) / worst) - 1)
    assert min(excess) > 0
    assert excess == pytest.approx([excess[0]] * 3, abs=0.02)


@pytest.mark.parametrize("tilt", [1.0, 100.0, 10_000.0])
def test_the_cumulant_of_gaussian_noise_beside_other_noise_is_the_sum_of_both_at_every_tilt(tilt):
    """A grid of 37 standard deviations does not hold what a large tilt weighs: it gave a sum many times too low."""
    for noise in (1.0, 10.0):
        together = _spent((dp.GaussianDpEvent(noise), 1), (PureEvent(1e-3), 1)).cumulant(tilt)
        apart = tilt * (1 + tilt) / 2 / noise**2 + _spent((PureEvent(1e-3), 1)).cumulant(tilt)
        assert together == pytest.approx(apart, rel=1e-11)


def test_the_cumulant_at_the_ends():
    assert _spent().cumulant(2.0) == _spent((dp.GaussianDpEvent(1e200), 3)).cumulant(2.0) == 0.0
    assert _spent((dp.GaussianDpEvent(1e-200), 1)).cumulant(2.0) == math.inf
    assert _spent((PureEvent(30.0), 2)).cumulant(1e4) == pytest.approx(6e5, rel=1e-9)  # exp() of it overflows
    assert _spent((dp.NonPrivateDpEvent(), 1)).cumulant(2.0) == math.inf
