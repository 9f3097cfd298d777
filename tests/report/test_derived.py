from fedkd_flwr.report import derived
from fedkd_flwr.run_record import RunRecord


def test_fedavg_cannot_average_different_models(make_record):
    record = make_record(2, 1, model="mlp")
    assert derived.model_sharing(record) == (2_600_000, True)
    record.parties[1].model = "cnn"
    assert derived.model_sharing(record) == (2_600_000, False)


def test_bytes_are_per_party_and_round(make_record):
    sent = derived.traffic(make_record(4, 3))
    assert (sent.up_first, sent.up_later) == (5_130, 590)
    assert sent.down == 2 * 5_040 / 3


def test_a_record_without_sizes_has_no_traffic():
    assert derived.traffic(RunRecord(run_id="7", algorithm="fedct")).up is None


def test_a_party_is_listed_once_per_reason(make_record, failed_record):
    first = failed_record.rounds[0]
    failed_record.rounds.append(make_record(5, 2).rounds[1])
    failed_record.rounds[1].rejected = first.rejected[:1]
    found = derived.left_out(failed_record)
    assert [(entry.who, entry.rounds) for entry in found[:2]] == [("party-001", [1, 2]), ("party-002", [1])]
    assert found[-1].who == f"node {'9' * 19} (never said its name)"
