"""Notes are codes with values, and none is said twice."""

from fedkd_flwr.record.notes import Note, NoteCode, add_note


def test_runs_with_other_seeds_note_the_same_where_code_and_names_are_equal():
    one, other = ({"class": "flu", "rows": rows, "parties": 2, "of": 3} for rows in (3, 4))
    assert Note(NoteCode.LOST_CLASS, one) != Note(NoteCode.LOST_CLASS, other)
    assert Note(NoteCode.LOST_CLASS, one).kind == Note(NoteCode.LOST_CLASS, other).kind
    assert Note(NoteCode.LOST_CLASS, one).kind != Note(NoteCode.LOST_CLASS, {**one, "class": "cold"}).kind


def test_a_note_is_added_once():
    notes = []
    assert add_note(notes, Note(NoteCode.CONVERGED, {"server_round": 3}))
    assert not add_note(notes, Note(NoteCode.CONVERGED, {"server_round": 3}))
    assert add_note(notes, Note(NoteCode.CONVERGED, {"server_round": 4}))
    assert len(notes) == 2


def test_in_a_log_no_value_obeys_the_terminal():
    assert str(Note("mine", {"party": "a\x1b[31m"})) == r"mine: party a\x1b[31m"
