"""A line of the egress log says later whether the SuperLink took its reply."""

from fedkd_flwr.silo import receipts
from fedkd_flwr.stores.egress_log import EgressLog, read_log


def test_what_was_noted_is_taken_once_and_settled_in_the_log_that_it_is_of(tmp_path):
    logs = [EgressLog(tmp_path / name, party=name) for name in ("a", "b")]
    for log in logs:
        receipts.note(log, log.append({"left": True})["number"])
    taken = receipts.taken()
    assert receipts.taken() == b""
    receipts.settle(taken, receipts.SENT)
    for log in logs:
        line, answer = read_log(log.path).lines
        assert (answer["answer"], answer["outcome"]) == (line["number"], receipts.SENT)
