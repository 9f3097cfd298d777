"""Records of Flower's older API hold what ours hold."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedkd_flwr.wire.old_records import instruction_from_old, is_old, reply_to_old
from fedkd_flwr.wire.records import instruction_record, named_arrays, open_instruction, reply_record

LABELS = np.array([0, 2, -1], dtype=np.int16)


@pytest.mark.parametrize("stage", ["fit", "evaluate"])
@pytest.mark.parametrize("names", [["labels"], []])
def test_an_instruction_is_read_as_ours(stage, names):
    parameters = ArrayRecord({"0": Array(LABELS)} if names else {"_empty": Array(np.zeros(0))})
    told = {"payload": ",".join(names), "wire-version": 1, "seed": 3}
    content = RecordDict({f"{stage}ins.parameters": parameters, f"{stage}ins.config": ConfigRecord(told)})
    assert is_old(content)
    assert not is_old(instruction_record({}, {}))
    arrays, config = open_instruction(instruction_from_old(content))
    assert config == told
    assert [(name, array.tolist()) for name, array in named_arrays(arrays, config).items()] == [
        (name, LABELS.tolist()) for name in names
    ]


def test_a_reply_is_written_as_a_strategy_of_the_older_api_reads_it():
    said = {"party": "a", "payload": "labels", "wire-version": 1, "accuracy-own": 0.5}
    old = reply_to_old(reply_record([LABELS], 3, said, loss=0.25), "fit")
    assert old["fitres.parameters"]["0"].numpy().tolist() == LABELS.tolist()
    assert dict(old["fitres.metrics"]) == said
    assert (old["fitres.num_examples"]["num_examples"], old["fitres.status"]["code"]) == (3, 0)
    assert reply_to_old(reply_record([], 3, said, loss=0.25), "evaluate")["evaluateres.loss"]["loss"] == 0.25
