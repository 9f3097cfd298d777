"""The in-process grid: each node gets its own message and config, and what it raises is an error reply."""

from flwr.app import ConfigRecord, Message, RecordDict

from fedkd_flwr.simulation.grid import InProcessGrid


def _said(message, context):
    if context.node_config["partition-id"] == 1:
        raise ValueError("no such rows")
    said = {"node": context.node_id, "run": context.run_id, **context.node_config, **context.run_config}
    return Message(RecordDict({"said": ConfigRecord(said)}), reply_to=message)


def _grid():
    return InProcessGrid(_said, [{"partition-id": i} for i in range(3)], {"seed": 5}, run_id=7)


def _messages(grid):
    return [Message(RecordDict(), dst_node_id=node, message_type="train") for node in grid.get_node_ids()]


def test_each_node_answers_with_its_own_config_and_what_one_raises_is_its_error_alone():
    grid = _grid()
    first, failed, last = grid.send_and_receive(_messages(grid))
    for reply, number in ((first, 0), (last, 2)):
        said = {"node": 1000 + number, "run": 7, "partition-id": number, "seed": 5}
        assert dict(reply.content.config_records["said"]) == said
        assert reply.metadata.src_node_id == 1000 + number
    assert "no such rows" in failed.error.reason
    assert (len(grid.sent), len(grid.replies)) == (3, 3)
