"""What the ServerApp notes in a run's record before the first round."""

from types import SimpleNamespace

from fedkd_flwr.app.server_app import _say_how_it_was_read
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RunRecord


def test_the_command_that_names_left_out_columns_is_the_same_in_a_continued_run_so_that_it_is_noted_once():
    noted = []
    for more in ("name=first", "name=first resume-from=/runs/7/record.json"):
        record = RunRecord(run_id="7", algorithm="fedct")
        pool = _pool()
        pool.next_command = f"fedkd simulate table=a.csv id-column=id {more}"
        _say_how_it_was_read(pool, record)
        noted += record.notes
    assert noted == [Note(NoteCode.LOOK_AT_COLUMNS, {"command": "fedkd simulate table=a.csv id-column=id"})] * 2


def _pool(shape=None, num_copied=0):
    return SimpleNamespace(
        columns=[],
        next_command="",
        y_test=[0] * 200,
        public=SimpleNamespace(schema=SimpleNamespace(shape=shape)),
        num_copied_test_rows=lambda: num_copied,
    )


def test_test_rows_that_stand_among_the_private_ones_too_are_noted_from_one_in_a_hundred_on_but_for_images():
    for copied, shape, says in ((3, None, True), (2, None, True), (1, None, False), (3, (28, 28), False)):
        record = RunRecord(run_id="7", algorithm="fedct")
        _say_how_it_was_read(_pool(shape, copied), record)
        assert (Note(NoteCode.COPIED_TEST_ROWS, {"copied": copied, "of": 200}) in record.notes) == says
