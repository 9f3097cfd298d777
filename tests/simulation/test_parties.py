"""Parties that compute in processes of their own: one that dies is one lost reply, and another takes its place."""

import os
import time

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.constant import ErrorCode

from fedkd_flwr.simulation.parties import ProcessGrid
from fedkd_flwr.simulation.starter import party_starter

CONFIG = {"dataset": "synthetic(rows=60)", "num-parties": 2, "model": "decision-tree", "algorithm": "fedct"}


@pytest.fixture
def grid(tmp_path):
    told, log = [], str(tmp_path / "log.txt")
    made = ProcessGrid(party_starter(), 2, CONFIG, run_id=7, processes=1, log=log, progress=lambda *at: told.append(at))
    made.told = told
    yield made
    made.close()


def _ask(grid, nodes=(0, 1)):
    content = RecordDict({"config": ConfigRecord({"server-round": 1})})
    ids = [*grid.get_node_ids()]
    return list(grid.push_messages(Message(content, dst_node_id=ids[n], message_type="train") for n in nodes))


def _pulled(grid, ids):
    found, until = [], time.monotonic() + 60
    while len(found) < len(ids) and time.monotonic() < until:
        found += grid.pull_messages(ids)
        time.sleep(0.01)
    return found


def test_one_process_plays_all_parties_and_progress_is_told_after_each(grid):
    replies = _pulled(grid, _ask(grid))
    assert [reply.metadata.src_node_id for reply in replies] == [1000, 1001]
    names = {reply.content.config_records["reply"]["party"] for reply in replies}
    assert names == {"party-000", "party-001"}
    assert grid.told == [("train", 0, answered, 2) for answered in (0, 1, 2)]


def test_a_process_that_dies_is_one_crashed_party_and_the_next_is_answered_by_another(grid):
    start, pids = grid.start, []

    def dying():
        process = start()
        pids.append(process.process.pid)
        if len(pids) == 1:
            process.process.kill()
            process.process.join()
        return process

    grid.start = dying
    first, second = _pulled(grid, _ask(grid))
    grid.close()
    assert first.error.code == ErrorCode.CLIENT_APP_CRASHED
    assert second.content.config_records["reply"]["party"] == "party-001"
    assert len(pids) == 2
    assert not any(_runs(pid) for pid in pids)


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_was_not_answered_is_given_up_when_something_else_is_asked(grid):
    late = _ask(grid)
    now = _ask(grid, [1])
    (reply,) = _pulled(grid, now)
    assert reply.metadata.reply_to_message_id == now[0]
    assert list(grid.pull_messages(late)) == []
