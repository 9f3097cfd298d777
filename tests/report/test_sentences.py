import re
from pathlib import Path

import fedkd_flwr
from fedkd_flwr.errors import Code, Note
from fedkd_flwr.report.sentences import NOTES, REASONS


def test_every_code_has_a_sentence_with_a_way_out():
    assert {str(code) for code in Code} <= REASONS.keys()
    assert all(len(sentence.split(". ")) >= 2 for sentence in REASONS.values() if "operator" not in sentence)


def test_every_code_the_package_gives_has_a_sentence():
    sources = Path(fedkd_flwr.__file__).parent.rglob("*.py")
    keyword = re.compile(r"""(?:reason=|code=|reject\(\s*)"([a-z]+(?:-[a-z]+)+)"(?=[,)\n])""")
    returned = re.compile(r"""return "([a-z]+(?:-[a-z]+)+)"(?=[,)\n])""")
    given = set()
    for path in sources:
        if path.parent.name != "report":
            given |= set(keyword.findall(path.read_text()))
        if path.name == "reception.py":  # other modules return words that are not codes
            given |= set(returned.findall(path.read_text()))
    assert {"no-reply", "wrong-length", "duplicate-name", "bad-name"} <= given  # so the patterns do find codes
    assert given <= REASONS.keys()


def test_every_note_of_a_party_has_a_sentence():
    assert {str(note) for note in Note} == NOTES.keys()
