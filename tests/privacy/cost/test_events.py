"""Events as data: what may be written down comes back the same, and nothing else comes in."""

from __future__ import annotations

import json
import math

import dp_accounting as dp
import pytest

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.cost.events import ApproximateEvent, PureEvent, event_from_json, event_to_json, leaves
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.privacy.noise.votes import ConfidentGaussianMax, GaussianMax, LaplaceMax

MECHANISMS = [
    LaplaceMax(gamma=0.1, votes=2),
    GaussianMax(sigma=0.3),
    ConfidentGaussianMax(threshold=1.0, sigma_threshold=3.0, sigma=1.0),
    RandomizedResponse(epsilon=0.1, num_classes=3),
    BitFlip(epsilon=0.1, num_classes=3),
    Subsampling(num_rows=30, subset_rows=7, replacement=True),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_every_mechanism_s_event_comes_back_from_json_bit_for_bit(mechanism):
    event = mechanism.dp_event()
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


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
        ({"kind": "randomized-response", "noise_parameter": 1.5, "num_buckets": 2}, "noise_parameter must be"),
        ({"kind": "randomized-response", "noise_parameter": 0.5, "num_buckets": 0}, "num_buckets must be"),
        ({"kind": "self-composed", "event": {"kind": "no-op"}, "count": -2}, "count must be a whole number within"),
        ({"kind": "composed", "events": {"kind": "no-op"}}, "events must be a list"),
    ],
)
def test_what_no_event_looks_like_is_refused(data, match):
    with pytest.raises(DataError, match=match):
        event_from_json(data)


def test_a_bottomless_event_is_refused_before_python_gives_up():
    data = {"kind": "no-op"}
    for _ in range(5000):
        data = {"kind": "self-composed", "event": data, "count": 1}
    with pytest.raises(DataError, match="event must be of a kind"):
        event_from_json(data)


def test_an_event_without_a_name_here_is_not_written():
    with pytest.raises(ConfigError, match="event must be one of gaussian"):
        event_to_json(dp.ZCDpEvent(1.0))


def test_composed_events_are_counted_through():
    event = dp.SelfComposedDpEvent(dp.ComposedDpEvent([PureEvent(1.0), dp.SelfComposedDpEvent(PureEvent(2.0), 3)]), 5)
    assert list(leaves(event, 2)) == [(PureEvent(1.0), 10), (PureEvent(2.0), 30)]


def test_statements_outside_their_range_are_refused():
    for epsilon, delta in ((-1.0, 0.1), (1.0, -0.1), (1.0, 1.1), (math.nan, 0.1), (1.0, math.nan)):
        with pytest.raises(ConfigError, match=r"(epsilon must be finite and >= 0|delta must be within \[0, 1\]), got"):
            ApproximateEvent(epsilon, delta)
