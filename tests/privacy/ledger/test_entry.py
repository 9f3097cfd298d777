"""One entry of a ledger: what it may say, and the events it holds as plain JSON."""

import math

import pytest
from ledgers import gaussian, make_entry

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.entry import canonical, epsilon_of, plain_events


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run_id": ""}, "run_id must be a text"),
        ({"mechanism": " "}, "mechanism must be a text"),
        ({"adversary": None}, "adversary must be a text"),
        ({"server_round": -1}, "server_round must be a whole number >= 0"),
        ({"server_round": True}, "server_round must be a whole number >= 0"),
        ({"unit": "label"}, "unit must be one of record, party"),
        ({"events": ()}, "events must hold at least one event"),
        ({"when": "yesterday"}, "when must be a date and time in UTC"),
        ({"when": "2029-12-31T10:00:00"}, "when must be a date and time in UTC"),
        ({"when": "2029-12-31T10:00:00+02:00"}, "when must be a date and time in UTC"),
        ({"reply_digest": "abc"}, "reply_digest must be a digest in hexadecimal"),
        ({"reply_digest": "AB" * 32}, "reply_digest must be a digest in hexadecimal"),
        ({"data": "xyz"}, "data digest must be a digest in hexadecimal"),
        ({"events": (({"kind": "no-op"}, 0),)}, "events must pair an event with a whole number >= 1"),
        ({"events": (({"kind": "no-op"}, 1.5),)}, "events must pair an event with a whole number >= 1"),
    ],
)
def test_an_entry_that_says_nothing_useful_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        make_entry(**changes)


def test_an_entry_may_be_of_round_zero_for_a_party_with_any_sha_256():
    entry = make_entry(0, unit="party", reply_digest="0123456789abcdef" * 4)
    assert entry.request == ("r1", 0)


def test_canonical_bytes_are_the_same_whatever_order_a_dict_was_filled_in():
    assert canonical({"b": 1, "a": [1.5, "ä"]}) == b'{"a":[1.5,"\\u00e4"],"b":1}'
    for wrong in ({"a": math.nan}, {"a": math.inf}, {"a": object()}):
        with pytest.raises(ConfigError, match="ledger entry must be plain JSON with finite numbers, got this:"):
            canonical(wrong)


def test_nothing_released_costs_nothing_and_equal_events_are_counted_together():
    assert epsilon_of([], 1e-5) == 0.0
    (event,) = plain_events([(PureEvent(0.5), 1)])
    assert epsilon_of([event], 0.0) == 0.5
    assert epsilon_of([event, (event[0], 2)], 0.0) == 1.5
    noise = plain_events([(gaussian(30.0), 2)])
    assert epsilon_of([*noise, event, *noise, event], 1e-5) == epsilon_of(
        plain_events([(gaussian(30.0), 4), (PureEvent(0.5), 2)]), 1e-5
    )
