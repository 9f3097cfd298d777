import re
from pathlib import Path

import pytest

import fedkd_flwr
from fedkd_flwr.errors import Code, PartyNote
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.report.sentences import NOTES, REASONS, note_sentence


def test_every_code_has_a_sentence_with_a_way_out():
    assert {str(code) for code in Code} <= REASONS.keys()
    assert all(len(sentence.split(". ")) >= 2 for sentence in REASONS.values() if "operator" not in sentence)


def test_every_code_the_package_gives_has_a_sentence():
    sources = Path(fedkd_flwr.__file__).parent.rglob("*.py")
    keyword = re.compile(r"""(?:reason=|code=|reject\(\s*|heard\), )"([a-z]+(?:-[a-z]+)+)"(?=[,)\n])""")
    returned = re.compile(r"""return "([a-z]+(?:-[a-z]+)+)"(?=[,)\n])""")
    given = set()
    for path in sources:
        if path.parent.name != "report":
            given |= set(keyword.findall(path.read_text()))
        if path.name == "roster.py":  # other modules return words that are not codes
            given |= set(returned.findall(path.read_text()))
    assert {"no-reply", "wrong-length", "duplicate-name", "bad-name"} <= given  # so the patterns do find codes
    assert given <= REASONS.keys()


ALL = dict.fromkeys("abcdefg", "no")
# of the codes whose words depend on their values: values, and those words
SAID = [
    ("one-class-votes", {"parties": {"b": "yes", "c": None}, "of": 3, "weight": 0.5, "bounded": True},
     "2 of 3 parties give every public row one class; each casts half a vote, and all such parties together a tenth of "
     "the others' votes at most: b ('yes'), c."),
    ("one-class-votes", {"parties": {"b": "yes"}, "of": 3, "weight": 0, "bounded": False}, "casts no vote: b ('yes')."),
    ("all-one-class", {"parties": ALL}, "a ('no'), b ('no'), c ('no'), d ('no'), e ('no') and 2 more. Their votes"),
    ("nearly-one-class", {"parties": {"b": "yes"}, "of": 2, "share": 0.94},
     "1 of 2 parties give at least 94 % of the public rows one class, and together cast half of the others' votes at "
     "most: b ('yes'). Agreement"),
    ("disagrees", {"agreement": 0.12, "lowest": 0.81, "highest": 0.9, "trust": 0.0},
     "agrees with the consensus on 12% of the rows (others: 81% to 90%), with a trust of 0.00: its labels are "
     "wrong, swapped, nearly all of one class, or from other data, or it has too few rows."),
    ("below-chance", {"known": 1200, "right": 0.1, "by_chance": 0.6},
     "of 1,200 public rows on 10% of them, where chance makes 60%"),
    ("no-gain", {"known": 200, "parties": ["b"], "of": 2},
     "200 known rows do not show that the labels of 1 of 2 parties tell classes apart (b):"),
    ("own-forest", {"known": 90, "by_class": True},
     "by 90 known rows, is better than the parties' votes by the share in each class, averaged over the classes, of "),
    ("own-forest", {"known": 90, "by_class": False}, "by the share of known rows labelled right"),
    ("unknown-classes", {"classes": ["flu", "sepsis"]}, "No party predicts 'flu', 'sepsis' on any public row:"),
    ("class-of-one-party", {"class": "flu", "rows": 3, "party": "a", "kept": 0},
     "Only a ever predicts 'flu' (3 public rows): the vote keeps 0 of them."),
    ("class-of-one-party", {"class": "flu", "rows": 1, "party": "a", "kept": None}, "(1 public row): the vote loses"),
    ("lost-class", {"class": "flu", "rows": 3, "parties": 2, "of": 3},
     "2 of 3 parties predict 'flu' (3 public rows): the vote loses it."),
    ("try-consensus", {"key": "consensus", "consensus": "density-ratio"},
     'consensus="density-ratio" asks each party how well it knows each class, and may keep them.'),
    ("no-labels", {"server_round": 2, "quorum": 0.9},
     "vote of round 2 labels no public row. Lower the quorum (0.9), or use another consensus."),
    ("unused-rows", {"rows": 1, "of": 3, "consistent": True}, "1 of 3 public rows train nothing: no party's students"),
    ("continues", {"run_id": "7", "done": 3}, "continues run 7 after its round 3."),
    ("not-finished", {"party": "a", "code": "internal", "failure": "X: y"}, "a did not finish: internal: X: y"),
    ("divided-by-sum", {"model": "mine:M", "where": "M.predict_proba", "uneven": 2, "rows": 24},
     "mine:M: M.predict_proba: 2 of 24 rows of probabilities"),
    ("no-centralised-model", {"failure": "X: y"}, "no centralised model: X: y"),
    ("weights-left", {"beside": "gradients"}, "Weights of nets trained on private rows, and mean gradients on them "
     "(changes of control variates), left the parties as they are, without noise."),
    ("copied-test-rows", {"copied": 9, "of": 200}, "9 of 200 common test rows equal,"),
    ("copied-test-rows", {"copied": 9, "of": 200}, "take the copies out of the table."),
    ("drawn-rows", {"epsilon": 0.5, "delta": 1e-05, "adversary": "server"},
     "cost epsilon 0.5 at delta 1e-05 (for one record, against the server). What parties said of these rows is another "
     "release: for that no record is protected."),
    ("drawn-rows-too", {"epsilon": 0.5, "delta": 1e-05, "adversary": "server", "total": 1.5, "total_delta": 2e-05},
     "cost epsilon 0.5 at delta 1e-05 (for one record, against the server). With the answers of this run that is at "
     "most epsilon 1.5 at delta 2e-05 for one record;"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "values", "words"), SAID)
def test_a_note_is_said_with_its_values(code, values, words):
    assert words in note_sentence(Note(code, values))


def test_every_code_of_a_note_has_words_and_a_docstring_of_one_sentence():
    codes = {*PartyNote, *NoteCode}
    assert codes == NOTES.keys() > {code for code, _, _ in SAID}
    assert all(code.__doc__.endswith(".") for code in NoteCode)


def test_a_code_that_this_release_does_not_know_is_shown_with_its_values_or_its_author_s_text():
    assert note_sentence(Note("mine", {"text": "Round 1: 5 rows have a label."})) == "Round 1: 5 rows have a label."
    assert note_sentence(Note("mine", {"rows": 5})) == "mine: rows 5"
    other = Note(NoteCode.NOT_FINISHED, {"party": "a"})  # values of another release
    assert note_sentence(other) == "not-finished: party a"
