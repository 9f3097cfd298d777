"""One entry of a ledger: what it may say, and the events it holds as plain JSON."""

from __future__ import annotations

import pytest
from ledgers import make_entry, make_ledger

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.entry import plain_events
from fedkd_flwr.privacy.ledger.ledger import Budget


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run_id": ""}, "run_id must be a text"),
        ({"mechanism": " "}, "mechanism must be a text"),
        ({"adversary": None}, "adversary must be a text"),
        ({"server_round": -1}, "server_round must be a whole number >= 0"),
        ({"server_round": True}, "server_round must be a whole number >= 0"),
        ({"unit": "label"}, "unit must be record or party"),
        ({"events": ()}, "events must hold at least one event"),
        ({"when": "yesterday"}, "when must be a date and time in UTC"),
        ({"when": "2029-12-31T10:00:00"}, "when must be a date and time in UTC"),
        ({"when": "2029-12-31T10:00:00+02:00"}, "when must be a date and time in UTC"),
        ({"reply_digest": "abc"}, "reply_digest must be a SHA-256"),
    ],
)
def test_an_entry_that_says_nothing_useful_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        make_entry(**changes)


def test_events_may_be_given_as_plain_json_too():
    asked = plain_events([(PureEvent(0.4), 3)])
    assert make_ledger().would_exceed(asked, Budget(epsilon=1.0, delta=0.0))
    assert plain_events(asked) == asked
