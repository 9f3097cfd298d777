"""What stands in place of a ledger or a state does what its namesake does, and nothing is written down by it."""

import inspect

import pytest

from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.nothing import NO_LEDGER, NO_STATE, NoLedger, NoState
from fedkd_flwr.stores.party_state import PartyState, Saved, StoredReply


@pytest.mark.parametrize(("nothing", "something"), [(NoLedger, LedgerStore), (NoState, PartyState)])
def test_its_methods_take_what_those_of_the_real_one_take(nothing, something):
    methods = [name for name, _ in inspect.getmembers(nothing, inspect.isfunction)]
    assert methods
    for name in methods:
        assert inspect.signature(getattr(nothing, name)) == inspect.signature(getattr(something, name)), name


def test_a_reply_that_was_charged_here_is_not_known_afterwards():
    reply, asked = StoredReply(metrics={"party": "a"}), {"run_id": "1", "server_round": 1}
    assert NO_LEDGER.charge(**asked, events=[(PureEvent(1.0), 1)], reply=reply, budget=Budget()) is reply
    assert NO_LEDGER.answered(**asked) is None
    assert NO_LEDGER.entries("1") == []


def test_nothing_comes_back_of_what_was_saved():
    NO_STATE.save(Saved(server_round=1))
    assert NO_STATE.load() is None
