"""What the list of runs says of one run."""

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.runs import main_figure, run_line, runs_text


def test_without_parties_models_it_is_the_servers_and_without_any_none(make_record):
    record = make_record(3, 2)
    for party in record.parties:
        party.federated = {}
    record.server = {"common": Metrics(n=50, accuracy=0.5)}
    assert main_figure(record)["whose"] == "server"
    assert main_figure(RunRecord(run_id="7", algorithm="fedct")) is None


def test_the_table_has_the_run_its_status_and_n_and_no_column_of_names_that_nobody_gave(make_record, failed_record):
    record = make_record(3, 2)
    text = runs_text([run_line(record), run_line(failed_record)])
    assert "name" not in text.splitlines()[0]
    assert "completed" in text.splitlines()[1]
    assert "(parties, n = 2,000)" in text.splitlines()[1]
    assert text.splitlines()[2].split()[-2:] == ["failed", "–"]
    record.config["name"] = "even"
    assert "even" in runs_text([run_line(record)])


def test_a_hostile_record_moves_no_cursor(hostile_record):
    text = runs_text([run_line(hostile_record)])
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_columns_are_left_out_until_the_list_fits_a_terminal(make_record):
    lines = [run_line(make_record())]
    whole, narrow = runs_text(lines).splitlines(), runs_text(lines, 58).splitlines()
    assert "started (UTC)" in whole[0]
    assert narrow[0].split() == ["id", "status", "result"]
    assert max(map(len, narrow)) <= 58
