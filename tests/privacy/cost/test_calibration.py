"""The least noise within a target: never above it, close to it, and quick."""

import math
from dataclasses import dataclass

import pytest

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.privacy.cost import calibration
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.calibration import calibrate, calibrate_labels, calibrate_votes
from fedkd_flwr.privacy.cost.events import ApproximateEvent, PureEvent
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse

CASES = {
    "laplace": (calibrate_votes, "laplace", {}),
    "laplace, 5 votes": (calibrate_votes, "laplace", {"votes": 5}),
    "gaussian, 25 votes": (calibrate_votes, "gaussian", {"votes": 25}),
    "confident": (calibrate_votes, "confident-gaussian", {"threshold": 30.0}),
    "response": (calibrate_labels, "randomized-response", {"num_classes": 10}),
    "xor": (calibrate_labels, "xor", {"num_classes": 10}),
    "auto": (calibrate_labels, "auto", {"num_classes": 10}),
}


@pytest.mark.parametrize(("count", "epsilon", "delta"), [(1, 0.5, 1e-5), (100, 0.1, 1e-9)])
@pytest.mark.parametrize("case", CASES)
def test_the_cost_is_within_the_target_and_hardly_below(case, count, epsilon, delta):
    find, name, more = CASES[case]
    uses = {"num_queries" if find is calibrate_votes else "num_labels": count}
    found = find(name, **uses, epsilon=epsilon, delta=delta, **more)
    assert 0.99 * epsilon <= Accountant().compose(found.dp_event(), count).epsilon(delta) <= epsilon


@pytest.mark.parametrize(("num_classes", "crossing"), [(16, 2 * math.log(2)), (41, 2 * math.log(3))])
def test_auto_takes_the_mechanism_whose_counts_vary_less(num_classes, crossing):
    """With x = e^(epsilon / 2): (x^2 + C - 2) / (x^2 - 1)^2 and x / (x - 1)^2 are equal where x^3 + x^2 + x = C - 2."""
    for epsilon, kind in ((0.999 * crossing, BitFlip), (1.001 * crossing, RandomizedResponse)):
        found = calibrate_labels("auto", num_labels=1, epsilon=epsilon, delta=0.0, num_classes=num_classes)
        assert type(found) is kind


def _kind(least, most, event):
    """Return a kind of mechanism of one parameter ``x``, refused outside its range, that spends ``event(x)``."""

    @dataclass(frozen=True)
    class Mechanism:
        x: float

        def __post_init__(self):
            if not least <= self.x <= most:
                raise ConfigError(f"x must be within {least}..{most}")

        def dp_event(self):
            return event(self.x)

    return Mechanism


_Falling = _kind(0.01, 100, lambda noise: PureEvent(1 / noise))
_Rising = _kind(0.01, 30, PureEvent)
_Narrow = _kind(0.5, 2, PureEvent)  # accepts one of the powers of ten from which the search starts
_Stated = _kind(0.01, 30, lambda epsilon: ApproximateEvent(epsilon, 1e-6))


def _found(kind, **target):
    return calibrate(kind, **target, more_is_noisier=kind is _Falling).x


@pytest.mark.parametrize(
    ("kind", "count", "epsilon", "delta", "least"),
    [
        (_Falling, 4, 2.0, 0.0, 2.0),
        (_Rising, 3, 0.06, 0.0, 0.02),
        *((_Rising, 1, 1e6, delta, 30.0) for delta in (0.0, 1e-5)),  # all noise is affordable
        *((_Falling, 1, 1e6, delta, 0.01) for delta in (0.0, 1e-5)),
        (_Narrow, 1, 1e6, 0.0, 2.0),  # one parameter to start from is enough
        (_Narrow, 1, 1.5, 0.0, 1.5),
        (_Stated, 1, 2.0, 1e-6, 2.0),  # a stated delta that is the asked one is within it
    ],
)
def test_the_least_noise_is_found_in_either_direction_and_up_to_the_end_of_the_range(
    kind, count, epsilon, delta, least
):
    assert _found(kind, count=count, epsilon=epsilon, delta=delta) == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "epsilon", "delta", "seen"),
    [(_Falling, 1e-3, 0.0, r"0\.001 at delta 0 for 1 uses"), (_Stated, 2.0, 0.9e-6, "2 at delta 9e-07")],
)
def test_a_target_that_no_noise_reaches_is_refused(kind, epsilon, delta, seen):
    with pytest.raises(ConfigError, match=f"epsilon must be attainable by some noise, got {seen}"):
        _found(kind, count=1, epsilon=epsilon, delta=delta)


class _RoundsUp(Accountant):
    """An accountant whose epsilon is rounded up by more than its delta is."""

    def epsilon(self, delta):
        return super().epsilon(delta) * (1 + 1e-5)


@pytest.mark.parametrize("kind", [_Rising, _Falling])
def test_where_epsilon_is_rounded_up_further_than_delta_the_search_steps_back(kind, monkeypatch):
    monkeypatch.setattr(calibration, "Accountant", _RoundsUp)
    found = kind(_found(kind, count=3, epsilon=2.0, delta=1e-5))
    assert 0.9999 * 2.0 <= _RoundsUp().compose(found.dp_event(), 3).epsilon(1e-5) <= 2.0


@pytest.mark.parametrize("votes", [1, 5])
def test_noise_on_half_votes_is_half_of_what_the_search_finds_for_twice_the_votes(votes):
    target = {"num_queries": 40, "epsilon": 2.0, "delta": 1e-5}
    pure = {**target, "delta": 0.0}
    laplace = calibrate_votes("laplace", **pure, votes=votes, counts_per_vote=2)
    assert laplace.gamma == 2 * calibrate_votes("laplace", **pure, votes=2 * votes).gamma
    gaussian = calibrate_votes("gaussian", **target, votes=votes, counts_per_vote=2)
    assert gaussian.sigma == calibrate_votes("gaussian", **target, votes=2 * votes).sigma / 2
    confident = calibrate_votes("confident-gaussian", **target, threshold=6.0, votes=votes, counts_per_vote=2)
    other = calibrate_votes("confident-gaussian", **target, threshold=12.0, votes=2 * votes)
    assert (confident.sigma, confident.sigma_threshold) == (other.sigma / 2, other.sigma_threshold / 2)
    assert (confident.threshold, confident.sigma_threshold) == (6.0, 3 * confident.sigma)
    assert {m.votes for m in (laplace, gaussian, confident)} == {votes}
    assert {m.counts_per_vote for m in (laplace, gaussian, confident)} == {2}


@pytest.mark.parametrize(
    ("target", "match"),
    [
        ({"epsilon": 0.0}, r"epsilon must be finite and > 0, got .* For no noise use mechanism none"),
        ({"epsilon": math.inf}, "epsilon must be finite and > 0"),
        ({"delta": 1.0}, r"delta must be within \[0, 1\), got"),
        ({"num_queries": 0}, "count must be a whole number >= 1"),
        ({"delta": 0.0}, r"epsilon must be attainable .* Use a larger epsilon, a delta > 0"),
        ({"votes": 0}, "votes must be a whole number >= 1"),
    ],
)
def test_an_impossible_target_is_refused(target, match):
    with pytest.raises(ConfigError, match=match):
        calibrate_votes("gaussian", **{"num_queries": 1, "epsilon": 1.0, "delta": 1e-5, **target})
