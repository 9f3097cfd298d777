"""A federation by file: three silos that answer question files give what a run in one process gives."""

import random
import re
from pathlib import Path

import pandas as pd
import pytest
from by_file import FEDCT, L0, L1, L2, NAMES, NOISY_PATE, PATE, spoilt
from silo_files import people

from fedkd_flwr.algorithms import cards
from fedkd_flwr.app.runs import list_runs
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.record.notes import NoteCode
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.status import run_status
from fedkd_flwr.silo import file_server
from fedkd_flwr.silo.file_server import ask, count
from fedkd_flwr.silo.letters import read_letter
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.saved_model import load

pytestmark = pytest.mark.usefixtures("in_this_process", "no_page")  # `cli/test_file.py` has a page


def _predictions(folder):
    """Return what the server's model says of new rows; None where the algorithm leaves it none."""
    path = folder / "model.fedkd"
    return load(path).predict(people(50, seed=77)).tolist() if path.exists() else None


def _told(record):
    """Return what a record says of its rounds and claims, without times."""
    rounds = [(one.answered, one.agreement, one.labelled_share, one.bytes_up, one.bytes_down) for one in record.rounds]
    notes = [note for note in record.notes if note.code != NoteCode.NOT_FINISHED]
    return record.status, rounds, record.claims, notes, record.final_bytes_down


@pytest.mark.parametrize("settings", [L0, PATE, FEDCT], ids=["fedkt", "pate", "fedct"])
def test_by_file_a_run_has_the_labels_and_the_record_of_the_run_in_one_process(federation, settings):
    step, (same, labels) = federation.whole(settings), federation.in_process(settings)
    assert _told(step.record) == _told(same)
    assert read_letter(step.question, None).record("north")["arrays"]["labels"].numpy().tolist() == labels
    assert _predictions(step.folder) == _predictions(federation.out / "runs" / "1")
    if settings is L0:  # a silo takes the result in and has its model
        federation.answer("north", step.question, "report.fedkd")
        assert list(Path(federation.nodes["north"]["state-dir"]).rglob("north.model"))
        assert not (federation.folder / "report.fedkd").exists()


def test_noise_at_a_party_is_charged_and_claimed_as_in_one_process(federation):
    step, (same, _) = federation.whole(L2), federation.in_process(L2)
    assert step.record.claims == same.claims != []
    assert federation.charges() == federation.charges("-0")
    assert {name: len(charged) for name, charged in federation.charges().items()} == dict.fromkeys(NAMES, 1)


def test_every_algorithm_with_noise_at_the_server_keeps_what_it_drew_or_is_refused(federation):
    noisy = {name for name, card in cards().items() if "server" in card.noise}
    assert noisy == {"fedkt", "pate", "dp-fedavg"}
    with pytest.raises(ConfigError, match="must have one round where the server adds noise"):
        federation.ask({"algorithm": "dp-fedavg", "num-rounds": 2, "model": "logistic-regression"})


@pytest.mark.parametrize("settings", [L1, NOISY_PATE], ids=["fedkt", "pate"])
def test_noise_at_the_server_is_drawn_and_charged_once_however_often_a_count_is_begun(
    federation, monkeypatch, settings
):
    answers = federation.answers(federation.ask(settings).question)
    with monkeypatch.context() as patch:
        patch.setattr("fedkd_flwr.silo.file_server.federate", _cut_after(file_server.federate))
        with pytest.raises(KeyboardInterrupt):
            federation.count(answers)
    ((drawn, stored),) = _drawn(federation)
    with pytest.raises(DataError, match="must be those that were counted"):
        federation.count(answers[:2], without=["west"])
    done = federation.count(answers)
    assert _drawn(federation) == [(drawn, stored)]
    assert done.record.claims
    assert done.record.status == "completed"
    with pytest.raises(DataError, match="must wait for answers, got its result"):
        federation.count(answers)


def _cut_after(federate):
    def cut(*args, **keywords):
        federate(*args, **keywords)
        raise KeyboardInterrupt

    return cut


def _drawn(federation):
    """Return what the server's ledger was charged, and the noisy answers that it keeps."""
    store = LedgerStore(federation.out, party="server", data_digest="0" * 16)
    return [
        (entry.events, store.answered(entry.run_id, entry.server_round).arrays["labels"].tolist())
        for entry in store.load().entries
    ]


def test_a_question_is_kept_before_it_is_written_where_it_was_asked_for(federation):
    keys = [federation.folder / f"{name}.pub" for name in NAMES]
    to = federation.folder / "public.csv" / "question.fedkd"
    with pytest.raises(DataError, match=r"Nothing is lost: (\S+) is the file") as told:
        ask(federation.settings(FEDCT), federation.folder / "server", keys, to)
    kept = Path(re.search(r"Nothing is lost: (\S+) is the file", str(told.value))[1])
    answers = federation.answers(kept)
    with pytest.raises(DataError, match="Nothing is lost"):
        count(answers, federation.folder / "public.csv" / "next.fedkd", output_dir=str(federation.out))
    with pytest.raises(DataError, match=r"must answer round 2 .* the question that is open") as told:
        federation.count(answers)
    kept = Path(re.search(r"the question that is open: (\S+)\. Nothing", str(told.value))[1])
    assert federation.count(federation.answers(kept)).letter.round >= 2


def test_another_file_is_not_written_over_and_an_earlier_question_is(federation):
    public = (federation.folder / "public.csv").read_bytes()
    with pytest.raises(ConfigError, match=r"public\.csv must be a new file, or an earlier question of server"):
        federation.ask(L0, "public.csv")
    assert (federation.folder / "public.csv").read_bytes() == public
    step = federation.ask(L0)
    answers = federation.answers(step.question)
    with pytest.raises(ConfigError, match=r"north\.fedkd must be a new file, or an earlier question of server"):
        count(answers, answers[0], output_dir=str(federation.out))
    count(answers, step.question, output_dir=str(federation.out))
    assert read_letter(step.question, None).stage == "evaluate"


def test_answers_that_are_missing_are_waited_for_or_left_out_by_name(federation):
    step = federation.ask(L0)
    (line,), _ = list_runs(federation.out)
    assert (line["status"], line["resume"]) == ("waiting", "")
    said = run_status(RunRecord.load(line["record"])).sentence
    assert said.startswith("This run waits for answers by file in round 1")
    north, south, west = federation.answers(step.question)
    for without, seen in ((["nobody"], "nobody"), (["west", "north"], "north")):
        with pytest.raises(DataError, match=f"--without must name .*, got '{seen}'"):
            federation.count([north, south], without=without)
    with pytest.raises(DataError, match="--without west"):
        federation.count([north, south])
    with pytest.raises(DataError, match="at least min-parties"):
        federation.count([north], without=["south", "west"])
    done = federation.count([north, south], without=["west"])
    assert done.record.rounds[0].answered == ["north", "south"]
    assert [(one.party, one.code) for one in done.record.rounds[0].rejected] == [("west", "no-reply")]
    with pytest.raises(DataError, match="its result"):
        federation.count([north, south, west])


def test_a_file_that_is_not_an_answer_to_the_open_question_is_named_and_nothing_is_counted(federation):
    step = federation.ask(FEDCT)
    first = federation.answers(step.question)
    other = federation.answer("west", federation.ask(FEDCT, "other.fedkd").question, "other-west.fedkd")
    (federation.folder / "copy.fedkd").write_bytes(first[0].read_bytes())
    for paths, seen in (
        ([*first, federation.folder / "copy.fedkd"], "copy.fedkd .* a second answer of north"),
        ([*first[:2], federation.folder / "question.fedkd"], "question.fedkd must be signed by one"),
        ([*first[:2], other], "must be answers to one run"),
    ):
        with pytest.raises(DataError, match=seen):
            federation.count(paths)
    old = [federation.folder / f"old-{path.name}" for path in first]
    for path, to in zip(first, old, strict=True):
        to.write_bytes(path.read_bytes())
    step = federation.count(first)
    second = federation.answers(step.question)
    other = r"old-west.fedkd must answer round 2 of .* got the answer of west about round 1"
    with pytest.raises(DataError, match=other):
        federation.count([*second[:2], old[2]])
    assert federation.count(second).record is not None


def test_two_hundred_answers_that_are_cut_changed_swapped_or_replayed_are_named_and_none_is_counted(federation):
    old = federation.answers(federation.ask(L0).question)[0].read_bytes()
    answers = federation.answers(federation.ask(L0, "second.fedkd").question)
    first, second = (one.read_bytes() for one in answers[:2])
    bad, rng = federation.folder / "bad.fedkd", random.Random(5)
    for i in range(200):
        bad.write_bytes((old if i % 2 else second) if i % 5 == 0 else spoilt(i, first, second, rng))
        with pytest.raises(DataError, match=r"bad\.fedkd"):
            federation.count([*answers[1:], bad])
    assert not (federation.folder / "next.fedkd").exists()
    assert federation.count(answers).record.status == "completed"


def test_a_run_whose_settings_were_changed_between_is_not_gone_on_with(federation):
    step = federation.ask(FEDCT)
    answers = federation.answers(step.question)
    table = pd.read_csv(federation.folder / "public.csv")
    table.loc[0, "age"] += 1
    table.to_csv(federation.folder / "public.csv", index=False)
    with pytest.raises(DataError, match="have the same bytes as the file that was sent"):
        federation.count(answers)
