import dataclasses

import pytest
from pages import check_safe_and_alone, written

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.processes.alive import this_process
from fedkd_flwr.record.run_record import Doing, RoundRecord, RunRecord
from fedkd_flwr.report import summary_table
from fedkd_flwr.report.status import main_figure, run_line, run_status, runs_text

pytestmark = pytest.mark.usefixtures("no_pictures")
ASKED = "2026-11-22T10:12:05.123+00:00"


@pytest.fixture
def unfinished(make_record):
    """A record as a process leaves it that is killed in round 4 of 6."""
    record = make_record(5, 3)
    record.status, record.doing, record.num_rounds = "running", Doing.ROUNDS, 6
    record.last_word, record.process, record.centralised = ASKED, this_process(), {}
    for party in record.parties:
        party.solo, party.federated = {}, {}
    record.rounds.append(RoundRecord(server_round=4, asked=5, asked_at=ASKED, ended=False, bytes_down=999))
    return record


def _killed(record):
    return dataclasses.replace(record, process=dataclasses.replace(record.process, started="1"))


def test_the_process_tells_a_run_that_goes_on_from_one_that_was_killed(unfinished):
    far = "3 of 6 rounds ended; round 4 began with 5 parties at 10:12:05 UTC, and their answers may have left them"
    going_on = run_status(unfinished)
    assert (going_on.word, going_on.headline) == ("running", "This run is going on in round 4")
    assert far in going_on.sentence
    killed = run_status(_killed(unfinished))
    assert (killed.word, killed.headline) == ("killed", "This run was killed in round 4")
    assert far in killed.sentence
    unfinished.process.machine = "another"
    elsewhere = run_status(unfinished)
    assert elsewhere.word == "not known"
    assert far in elsewhere.sentence
    assert "cannot be seen from here" in elsewhere.sentence


def test_page_and_table_of_a_killed_run_name_the_round_and_what_may_have_left(unfinished, tmp_path):
    record = _killed(unfinished)
    page = check_safe_and_alone(written(record, tmp_path))
    for text in (page.text, " ".join(summary_table(record).split())):
        assert "was killed in round 4" in text
        assert "round 4 began with 5 parties" in text
        assert "nothing was released" not in text
        assert "0 of 5" not in text  # who answered is not known
        assert "nothing to claim" not in text
    assert "not known of 5" in page.text
    assert "every round that ended" in page.text
    assert "5 of 5" in page.text


def test_a_run_killed_in_its_only_round_may_have_released_labels_and_got_none_back(unfinished, tmp_path):
    record = _killed(unfinished)
    record.rounds, record.num_rounds = record.rounds[-1:], 1
    text = check_safe_and_alone(written(record, tmp_path)).text
    assert "Each party may have sent the server labels" in text
    assert "sent the combined labels back" not in text
    assert "no noise is added" in text
    record.sends = "scores"
    assert "scores that the parties may have sent" in check_safe_and_alone(written(record, tmp_path)).text


@pytest.mark.parametrize("status", ["failed", "stopped"])
def test_how_a_run_ended_stands_on_top_with_the_round(unfinished, tmp_path, status):
    unfinished.status, unfinished.reason = status, "because"
    top = check_safe_and_alone(written(unfinished, tmp_path)).text.partition("Privacy")[0]
    assert f"{status} in round 4: 3 of 6 rounds ended; round 4 began with 5 parties" in top
    assert "because" in top


def test_a_publishable_page_does_not_tell_the_rounds_of_a_run_that_votes_could_have_ended(unfinished, tmp_path):
    for status in ("running", "stopped", "failed"):
        unfinished.status = status
        text = check_safe_and_alone(written(unfinished, tmp_path, publishable=True)).text
        assert "in round 4" not in text
        assert "3 of 6" not in text
        assert "10:12:05" not in text


def test_after_the_rounds_the_part_of_the_run_is_named(unfinished):
    unfinished.rounds.pop()
    unfinished.final_asked = 5
    wheres = {Doing.FINAL: "while the final result went", Doing.AFTER: "after the exchange"}
    for unfinished.doing, where in {**wheres, Doing.ROUNDS: "after round 3"}.items():
        assert where in run_status(unfinished).headline
        assert "on its way to 5 parties" in run_status(unfinished).sentence


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
