"""A record as pandas tables."""

import pytest
from report.conftest import sample

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.frames import FRAMES


def test_rounds_have_one_row_each_with_counts_and_figures():
    record = sample(4, 3)
    table = record.to_frame()
    assert table["server_round"].tolist() == [1, 2, 3]
    assert table["answered"].tolist() == [4, 4, 4]
    assert table["agreement"].tolist() == [one.agreement for one in record.rounds]
    assert table["changed_share"].isna().tolist() == [True, False, False]
    assert set(table["run_id"]) == {record.run_id}


def test_parties_have_one_row_each_with_the_figures_of_their_models():
    record = sample(3, 1)
    record.parties[1].class_counts = [5, 7]
    table = record.to_frame("parties").set_index("name")
    assert table.loc["party-002", "federated_common_accuracy"] == record.parties[2].federated["common"].accuracy
    assert table.loc["party-001", "rows_of_class_1"] == 7
    assert table["solo_own_n"].tolist() == [40, 40, 40]


def test_models_are_those_of_the_parties_and_the_servers():
    record = sample(2, 1)
    record.server = {"common": Metrics(n=9, accuracy=0.5)}
    table = record.to_frame("models")
    assert table["whose"].tolist() == (["solo"] * 2 + ["federated"] * 2) * 2 + ["server", "centralised"]
    assert table[table["whose"] == "server"][["n", "accuracy"]].to_numpy().tolist() == [[9, 0.5]]


def test_an_unknown_table_lists_the_known_ones_and_an_empty_record_has_empty_ones():
    record = sample(1, 1)
    with pytest.raises(ConfigError, match="be one of rounds, parties, models"):
        record.to_frame("classes")
    record.rounds, record.parties, record.centralised = [], [], {}
    assert [len(record.to_frame(name)) for name in FRAMES] == [0, 0, 0]
