"""A federation by file: three silos that answer question files give what a run in one process gives."""

from pathlib import Path

import pandas as pd
import pytest
from by_file import FEDCT, L0, L1, L2, NAMES, PATE, people

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.record.notes import NoteCode
from fedkd_flwr.silo.letters import read_letter
from fedkd_flwr.stores.saved_model import load

pytestmark = pytest.mark.usefixtures("in_this_process")


def _predictions(folder):
    """Return what the server's model says of new rows; None where the algorithm leaves it none."""
    path = folder / "model.fedkd"
    return load(path).predict(people(50, seed=77)).tolist() if path.exists() else None


def _result(step):
    """Return the arrays of the result that goes to the parties."""
    return {k: a.numpy().tolist() for k, a in read_letter(step.question, None).contents[0]["arrays"].items()}


def _told(record):
    """Return what a record says of its rounds and claims, without times."""
    rounds = [(one.answered, one.agreement, one.labelled_share, one.bytes_up, one.bytes_down) for one in record.rounds]
    notes = [note for note in record.notes if note.code != NoteCode.NOT_FINISHED]
    return record.status, rounds, record.claims, notes, record.final_bytes_down


@pytest.mark.parametrize("settings", [L0, PATE, FEDCT], ids=["fedkt", "pate", "fedct"])
def test_by_file_a_run_has_the_labels_and_the_record_of_the_run_in_one_process(federation, settings):
    step, (same, labels) = federation.whole(settings), federation.in_process(settings)
    assert _told(step.record) == _told(same)
    assert _result(step)["labels"] == labels
    assert _predictions(step.folder) == _predictions(federation.out / "runs" / "1")


def test_a_silo_takes_the_result_in_and_has_its_model(federation):
    step = federation.whole(L0)
    federation.answer("north", step.question, "report.fedkd")
    assert list(Path(federation.nodes["north"]["state-dir"]).rglob("north.model"))
    assert not (federation.folder / "report.fedkd").exists()


def test_noise_at_a_party_is_charged_and_claimed_as_in_one_process(federation):
    step, (same, _) = federation.whole(L2), federation.in_process(L2)
    assert step.record.claims == same.claims != []
    assert federation.charges() == federation.charges("-0")
    assert {name: len(charged) for name, charged in federation.charges().items()} == dict.fromkeys(NAMES, 1)


def test_noise_at_the_server_is_drawn_once(federation):
    step = federation.ask(L1)
    answers = federation.answers(step.question)
    done = federation.count(answers)
    with pytest.raises(DataError, match="must wait for answers, got its result"):
        federation.count(answers)
    assert done.record.claims
    with pytest.raises(ConfigError, match="must have one round where the server adds noise"):
        federation.ask({"algorithm": "dp-fedavg", "num-rounds": 2, "model": "logistic-regression"})


def test_a_count_that_ended_while_noise_was_drawn_is_not_repeated(federation, monkeypatch):
    step = federation.ask(L1)
    answers = federation.answers(step.question)
    with monkeypatch.context() as patch:
        patch.setattr("fedkd_flwr.silo.file_server.federate", _power_cut)
        with pytest.raises(KeyboardInterrupt):
            federation.count(answers)
    with pytest.raises(DataError, match="must not have drawn its noise"):
        federation.count(answers)


def _power_cut(*_args, **_keywords):
    raise KeyboardInterrupt


def test_answers_that_are_missing_are_waited_for_or_left_out_by_name(federation):
    step = federation.ask(L0)
    north, south, west = federation.answers(step.question)
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
    with pytest.raises(
        DataError, match=r"old-west.fedkd must answer round 2 of .* got the answer of west about round 1"
    ):
        federation.count([*second[:2], old[2]])
    assert federation.count(second).record is not None


def test_a_run_whose_settings_were_changed_between_is_not_gone_on_with(federation):
    step = federation.ask(FEDCT)
    answers = federation.answers(step.question)
    table = pd.read_csv(federation.folder / "public.csv")
    table.loc[0, "age"] += 1
    table.to_csv(federation.folder / "public.csv", index=False)
    with pytest.raises(DataError, match="have the same bytes as the file that was sent"):
        federation.count(answers)
