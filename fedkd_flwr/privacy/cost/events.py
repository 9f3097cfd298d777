"""Events: what one use of a mechanism does, as data; the accountant measures them.

dp-accounting's event classes, and plain epsilon-delta statements. Composed events are taken apart here, and all of them
can be written as plain JSON (for ledgers).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from fedkd_flwr.checks import check_number, check_whole
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.privacy import dp

__all__ = ["ApproximateEvent", "Event", "PureEvent", "TwoClassEvent"]
__all__ += ["check_cost", "check_count", "check_delta", "event_from_json", "event_to_json", "leaves", "pure_epsilon"]

Event: TypeAlias = Any  # dp-accounting publishes no types

_UP = 1 + 2.0**-50  # what a few roundings may have taken from an epsilon
_DEEPEST = 20  # nesting of composed events


@dataclass(frozen=True)
class PureEvent:
    """Any mechanism of which only ``(epsilon, 0)``-DP is known; ``epsilon`` >= 0, infinite for no privacy."""

    epsilon: float

    def __post_init__(self) -> None:
        check_cost("epsilon", self.epsilon)


@dataclass(frozen=True)
class ApproximateEvent:
    """Any mechanism of which only ``(epsilon, delta)``-DP is known: NFDP's subset; a ``delta`` of 1 is no privacy."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_cost("epsilon", self.epsilon)
        check_number("delta", self.delta, least=0, most=1)


@dataclass(frozen=True)
class TwoClassEvent:
    """The winner of two classes, each count with Laplace noise; the noisy counts themselves are not released.

    ``noise_multiplier`` >= 0 is the scale of the noise, divided by the votes that may move from one class to the other.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        check_cost("noise_multiplier", self.noise_multiplier)


def check_cost(name: str, value: object) -> None:
    """Raise `ConfigError`, naming it, for what is no number >= 0; an epsilon or a noise may also be infinite."""
    if not (isinstance(value, float) and value == math.inf):
        check_number(name, value, least=0, way_out="Infinite is possible too.")


def check_delta(delta: object) -> None:
    """Raise `ConfigError` unless ``0 <= delta < 1``."""
    check_number("delta", delta, least=0, below=1, way_out="Use 1e-5, well below 1 / rows.")


def check_count(count: object) -> int:
    """Return a whole number within 0..10^15; raise `ConfigError` for anything else."""
    return check_whole("count", count, 0, 10**15)


def leaves(event: Event, count: int, depth: int = 0) -> Iterator[tuple[Event, int]]:
    """Take composed events apart: single mechanisms and how often each is used; those without noise as non-private."""
    count = check_count(count)
    if depth > _DEEPEST:
        raise ConfigError(explain("event", f"be nested at most {_DEEPEST} deep", "a deeper one"))
    if isinstance(event, dp.SelfComposedDpEvent):
        yield from leaves(event.event, count * check_count(event.count), depth + 1)
    elif isinstance(event, dp.ComposedDpEvent):
        for part in event.events:
            yield from leaves(part, count, depth + 1)
    elif isinstance(event, dp.GaussianDpEvent | dp.LaplaceDpEvent | TwoClassEvent):
        check_cost("noise_multiplier", event.noise_multiplier)
        yield (event if event.noise_multiplier > 0 else dp.NonPrivateDpEvent()), count
    elif isinstance(event, dp.RandomizedResponseDpEvent):
        check_number("noise_parameter", event.noise_parameter, least=0, most=1)
        check_whole("num_buckets", event.num_buckets, 1, 10**15)
        if event.num_buckets > 1:
            yield (event if event.noise_parameter > 0 else dp.NonPrivateDpEvent()), count
    elif isinstance(event, PureEvent | ApproximateEvent):
        nothing = event.epsilon == math.inf or (isinstance(event, ApproximateEvent) and event.delta == 1)
        yield (dp.NonPrivateDpEvent() if nothing else event), count
    elif isinstance(event, dp.NonPrivateDpEvent):
        yield event, count
    elif not isinstance(event, dp.NoOpDpEvent):
        known = "Gaussian, Laplace, two-class, randomised-response, composed, pure, approximate, NonPrivate or NoOp"
        raise ConfigError(explain("event", f"be a {known} event", type(event).__name__))


def pure_epsilon(leaf: Event) -> float:
    """Return the epsilon of a leaf at its own delta (0, except for `ApproximateEvent`), rounded up; Gaussian: inf."""
    if isinstance(leaf, PureEvent | ApproximateEvent):
        return float(leaf.epsilon)
    if isinstance(leaf, dp.LaplaceDpEvent):
        return _UP / float(leaf.noise_multiplier)
    if isinstance(leaf, TwoClassEvent):
        return 2 * _UP / float(leaf.noise_multiplier)
    if isinstance(leaf, dp.RandomizedResponseDpEvent):
        # 1 - p was rounded when the event was written: take the less noisy end
        noise = math.nextafter(float(leaf.noise_parameter), 0.0)
        return math.log1p(leaf.num_buckets * (1 - noise) / noise) * _UP
    return math.inf


def event_to_json(event: Event) -> dict[str, Any]:
    """Return an event as plain JSON types; `event_from_json` restores it exactly.

    >>> event_to_json(PureEvent(0.5))
    {'kind': 'pure', 'epsilon': 0.5}
    """
    if isinstance(event, dp.SelfComposedDpEvent):
        return {"kind": "self-composed", "event": event_to_json(event.event), "count": event.count}
    if isinstance(event, dp.ComposedDpEvent):
        return {"kind": "composed", "events": [event_to_json(part) for part in event.events]}
    for kind, (cls, fields) in _kinds().items():
        if isinstance(event, cls):
            return {"kind": kind} | {field: getattr(event, field) for field in fields}
    raise ConfigError(explain("event", f"be one of {', '.join(_kinds())}, composed", type(event).__name__))


def event_from_json(data: Any, *, _depth: int = 0) -> Event:
    """Rebuild an event written by `event_to_json`.

    Raises `DataError` for an unknown kind, missing or further fields, or values no event can have.
    """
    kind = data.get("kind") if isinstance(data, dict) else None
    known: dict[str, tuple[Any, tuple[str, ...]]] = _kinds() | {
        "self-composed": (dp.SelfComposedDpEvent, ("event", "count")),
        "composed": (dp.ComposedDpEvent, ("events",)),
    }
    if not isinstance(kind, str) or kind not in known or _depth > _DEEPEST:
        raise DataError(explain("event", f"be of a kind among {', '.join(known)}", kind, "Is it of a newer release?"))
    cls, fields = known[kind]
    if set(data) != {"kind", *fields}:
        raise DataError(explain(f"event {kind}", f"have the fields {', '.join(fields) or 'kind only'}", sorted(data)))
    values = {field: data[field] for field in fields}
    if kind == "self-composed":
        values["event"] = event_from_json(values["event"], _depth=_depth + 1)
    elif kind == "composed":
        if not isinstance(values["events"], list):
            raise DataError(explain("events", "be a list", values["events"]))
        values["events"] = [event_from_json(part, _depth=_depth + 1) for part in values["events"]]
    try:
        event = cls(**values)
        list(leaves(event, 1))
    except ConfigError as error:
        raise DataError(str(error)) from error
    return event


def _kinds() -> dict[str, tuple[Any, tuple[str, ...]]]:
    return {
        "gaussian": (dp.GaussianDpEvent, ("noise_multiplier",)),
        "laplace": (dp.LaplaceDpEvent, ("noise_multiplier",)),
        "two-class": (TwoClassEvent, ("noise_multiplier",)),
        "randomized-response": (dp.RandomizedResponseDpEvent, ("noise_parameter", "num_buckets")),
        "pure": (PureEvent, ("epsilon",)),
        "approximate": (ApproximateEvent, ("epsilon", "delta")),
        "non-private": (dp.NonPrivateDpEvent, ()),
        "no-op": (dp.NoOpDpEvent, ()),
    }
