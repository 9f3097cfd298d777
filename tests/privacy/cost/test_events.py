"""Events as data: what may be written down comes back the same, and nothing else comes in."""

import math
from fractions import Fraction

import dp_accounting as dp
import mpmath
import numpy as np
import pytest

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.cost.events import (
    ApproximateEvent,
    PureEvent,
    TwoClassEvent,
    event_from_json,
    event_to_json,
    leaves,
    pure_epsilon,
)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ({"kind": "magic"}, "event must be of a kind among gaussian"),
        ({}, "event must be of a kind"),
        ([1], "event must be of a kind"),
        ({"kind": ["pure"]}, "event must be of a kind"),
        ({"kind": "pure"}, "event pure must have the fields epsilon"),
        ({"kind": "pure", "epsilon": 1.0, "note": ""}, "event pure must have the fields epsilon"),
        ({"kind": "pure", "epsilon": -1.0}, "epsilon must be finite and >= 0, got"),
        ({"kind": "pure", "epsilon": math.nan}, "epsilon must be finite and >= 0, got"),
        ({"kind": "pure", "epsilon": True}, "epsilon must be finite and >= 0, got"),
        ({"kind": "pure", "epsilon": 10**400}, "epsilon must be finite and >= 0, got"),
        ({"kind": "gaussian", "noise_multiplier": "1"}, "noise_multiplier must be finite and >= 0, got"),
        ({"kind": "two-class", "noise_multiplier": -1.0}, "noise_multiplier must be finite and >= 0, got"),
        ({"kind": "randomized-response", "noise_parameter": 1.5, "num_buckets": 2}, "noise_parameter must be"),
        ({"kind": "randomized-response", "noise_parameter": 0.5, "num_buckets": 0}, "num_buckets must be"),
        ({"kind": "randomized-response", "noise_parameter": 0.5, "num_buckets": 10**15 + 1}, "num_buckets must be"),
        ({"kind": "approximate", "epsilon": math.nan, "delta": 0.1}, "epsilon must be finite and >= 0, got"),
        ({"kind": "approximate", "epsilon": 1.0, "delta": 1.1}, r"delta must be within \[0, 1\], got"),
        ({"kind": "self-composed", "event": {"kind": "no-op"}, "count": -2}, "count must be a whole number within"),
        ({"kind": "self-composed", "event": {"kind": "no-op"}, "count": 10**15 + 1}, "count must be a whole number"),
        ({"kind": "composed", "events": {"kind": "no-op"}}, "events must be a list"),
    ],
)
def test_what_no_event_looks_like_is_refused(data, match):
    with pytest.raises(DataError, match=match):
        event_from_json(data)


def test_an_event_without_a_name_here_is_not_written():
    with pytest.raises(ConfigError, match="event must be one of gaussian"):
        event_to_json(dp.ZCDpEvent(1.0))


def test_composed_events_are_counted_through():
    event = dp.SelfComposedDpEvent(dp.ComposedDpEvent([PureEvent(1.0), dp.SelfComposedDpEvent(PureEvent(2.0), 3)]), 5)
    assert list(leaves(event, 2)) == [(PureEvent(1.0), 10), (PureEvent(2.0), 30)]


def test_each_kind_is_written_under_its_name_and_read_again():
    event, inner = dp.LaplaceDpEvent(2.0), {"kind": "laplace", "noise_multiplier": 2.0}
    response = {"kind": "randomized-response", "noise_parameter": 0.5, "num_buckets": 3}
    both = [
        (event, inner),
        (dp.GaussianDpEvent(2.0), {"kind": "gaussian", "noise_multiplier": 2.0}),
        (TwoClassEvent(2.0), {"kind": "two-class", "noise_multiplier": 2.0}),
        (dp.RandomizedResponseDpEvent(0.5, 3), response),
        (PureEvent(0.5), {"kind": "pure", "epsilon": 0.5}),
        (ApproximateEvent(0.5, 0.25), {"kind": "approximate", "epsilon": 0.5, "delta": 0.25}),
        (dp.NonPrivateDpEvent(), {"kind": "non-private"}),
        (dp.NoOpDpEvent(), {"kind": "no-op"}),
        (dp.SelfComposedDpEvent(event, 4), {"kind": "self-composed", "event": inner, "count": 4}),
        (dp.ComposedDpEvent([event, dp.NoOpDpEvent()]), {"kind": "composed", "events": [inner, {"kind": "no-op"}]}),
    ]
    for one, written in both:
        assert (event_to_json(one), event_from_json(written)) == (written, one)


NON_PRIVATE = dp.NonPrivateDpEvent()


@pytest.mark.parametrize(
    ("event", "leaf"),
    [
        (dp.GaussianDpEvent(0.5), dp.GaussianDpEvent(0.5)),
        (dp.GaussianDpEvent(0.0), NON_PRIVATE),
        (dp.LaplaceDpEvent(0.5), dp.LaplaceDpEvent(0.5)),
        (dp.LaplaceDpEvent(0), NON_PRIVATE),
        (TwoClassEvent(0.5), TwoClassEvent(0.5)),
        (TwoClassEvent(0), NON_PRIVATE),
        (dp.RandomizedResponseDpEvent(0.5, 2), dp.RandomizedResponseDpEvent(0.5, 2)),
        (dp.RandomizedResponseDpEvent(1.0, 10**15), dp.RandomizedResponseDpEvent(1.0, 10**15)),
        (dp.RandomizedResponseDpEvent(0.0, 2), NON_PRIVATE),
        (dp.RandomizedResponseDpEvent(0.0, 1), None),
        (PureEvent(math.inf), NON_PRIVATE),
        (ApproximateEvent(0.5, 0.5), ApproximateEvent(0.5, 0.5)),
        (ApproximateEvent(0.5, 1.0), NON_PRIVATE),
        (ApproximateEvent(math.inf, 0.5), NON_PRIVATE),
        (NON_PRIVATE, NON_PRIVATE),
        (dp.NoOpDpEvent(), None),
    ],
    ids=str,
)
def test_what_adds_no_noise_is_not_private_and_what_tells_nothing_is_nothing(event, leaf):
    assert list(leaves(event, 3)) == ([] if leaf is None else [(leaf, 3)])


@pytest.mark.parametrize(
    ("wrap", "wrap_data"),
    [
        (lambda one: dp.SelfComposedDpEvent(one, 1), lambda one: {"kind": "self-composed", "event": one, "count": 1}),
        (lambda one: dp.ComposedDpEvent([one]), lambda one: {"kind": "composed", "events": [one]}),
    ],
    ids=["self-composed", "composed"],
)
def test_events_may_be_nested_twenty_deep_and_no_deeper(wrap, wrap_data):
    event, data = PureEvent(1.0), {"kind": "pure", "epsilon": 1.0}
    for _ in range(20):
        event, data = wrap(event), wrap_data(data)
    assert list(leaves(event, 1)) == [(PureEvent(1.0), 1)]
    assert event_from_json(data) == event
    with pytest.raises(ConfigError, match="event must be nested at most 20 deep"):
        list(leaves(wrap(event), 1))
    for deeper in (1, 5000):  # before Python gives up
        for _ in range(deeper):
            data = wrap_data(data)
        with pytest.raises(DataError, match="event must be"):
            event_from_json(data)


def test_a_laplace_epsilon_is_rounded_up_and_hardly():
    for noise in np.random.default_rng(0).uniform(0.01, 1000, 500).tolist():
        epsilon = Fraction(pure_epsilon(dp.LaplaceDpEvent(noise)))
        assert 1 / Fraction(noise) <= epsilon <= (1 + Fraction(1, 2**48)) / Fraction(noise)
        assert Fraction(pure_epsilon(TwoClassEvent(noise))) == 2 * epsilon


def test_a_response_s_epsilon_is_rounded_up_and_hardly():
    for noise in (0.9, 0.5, 1e-3, 1 - 2**-20):
        for buckets in (2, 10):
            exact = mpmath.log1p(buckets * (1 - mpmath.mpf(noise)) / mpmath.mpf(noise))
            epsilon = pure_epsilon(dp.RandomizedResponseDpEvent(noise, buckets))
            assert exact <= epsilon <= exact * (1 + mpmath.mpf(2) ** -30)


def test_other_epsilons_are_as_stated_and_gaussian_noise_has_none():
    assert (pure_epsilon(PureEvent(0.5)), pure_epsilon(ApproximateEvent(0.25, 0.1))) == (0.5, 0.25)
    assert pure_epsilon(dp.GaussianDpEvent(5.0)) == math.inf
