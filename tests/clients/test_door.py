"""The open door lets everything out."""

from fedkd_flwr.clients.door import OPEN, Ask, Leaving
from fedkd_flwr.stores.party_state import StoredReply


def test_the_open_door_refuses_nothing_and_has_written_down_what_leaves_without_a_claim():
    noted = []
    OPEN.check_run()
    OPEN.before_rows(Ask(server_round=1, algorithm="fedct", told={}))
    assert OPEN.enough_rows([0, 0])
    OPEN.let_out(Leaving(reply=StoredReply(), num_examples=3, note=lambda: noted.append(True)))
    assert noted == [True]
    assert OPEN.refused("not-allowed") == OPEN.refused("not-allowed") == 1  # each refusal is told
