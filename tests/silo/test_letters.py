"""Files of questions and answers: signed, bound to run, round and party, and keys that are made once."""

import stat

import pytest
from flwr.app import ConfigRecord, RecordDict

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.silo.letters import Letter, PrivateKey, fingerprint, make_key, public_key, read_letter, sealed


@pytest.fixture
def keys(tmp_path):
    own, public = make_key("north", tmp_path)
    return PrivateKey.read(own), public_key(public)


def _letter(**changes):
    content = RecordDict({"reply": ConfigRecord({"party": "north"})})
    one = {"kind": "answer", "run": "7", "stage": "fit", "round": 1, "sender": "north", "parties": ("north",)}
    return Letter(**{**one, "about": "ab", "contents": (content,), **changes})


def test_a_letter_comes_back_as_it_was_and_has_one_form(tmp_path, keys):
    key, (name, public) = keys
    path = tmp_path / "answer.fedkd"
    path.write_bytes(sealed(_letter(), key))
    read = read_letter(path, {name: public})
    assert (read.run, read.round, read.parties, read.about) == ("7", 1, ("north",), "ab")
    assert read.contents[0]["reply"]["party"] == "north"
    assert sealed(_letter(), key) == sealed(read, key) == path.read_bytes()


@pytest.mark.parametrize("changes", [{"run": "../7"}, {"run": "-1"}, {"stage": "other"}, {"parties": (1,)}])
def test_a_head_that_names_a_path_or_what_is_unknown_is_refused_though_it_is_signed(tmp_path, keys, changes):
    key, (name, public) = keys
    path = tmp_path / "answer.fedkd"
    path.write_bytes(sealed(_letter(**changes), key))
    with pytest.raises(DataError, match="must say what it is"):
        read_letter(path, {name: public})


def test_a_body_of_too_few_contents_is_refused(tmp_path, keys):
    key, (name, public) = keys
    path = tmp_path / "answer.fedkd"
    path.write_bytes(sealed(_letter(parties=("north", "south")), key))
    with pytest.raises(DataError, match="must hold Flower's records"):
        read_letter(path, {name: public})


def test_a_key_is_its_owners_alone_and_is_never_replaced(tmp_path, keys):
    assert stat.S_IMODE((tmp_path / "north.key").stat().st_mode) == 0o600
    assert keys[1] == ("north", keys[0].public)
    assert len(fingerprint(keys[0].public)) == 20
    with pytest.raises(ConfigError, match="must not be there yet"):
        make_key("north", tmp_path)
    for name in ("", "a b", "../x", "a,b"):
        with pytest.raises(ConfigError, match="a key's name must"):
            make_key(name, tmp_path)


def test_a_key_file_of_the_other_half_or_of_another_kind_is_refused(tmp_path, keys):
    with pytest.raises(ConfigError, match="must be a fedkd-public-key of 32 bytes"):
        public_key(tmp_path / "north.key")
    (tmp_path / "other.pub").write_text("one line", encoding="utf-8")
    with pytest.raises(ConfigError, match="three words"):
        public_key(tmp_path / "other.pub")
    with pytest.raises(ConfigError, match="must be a readable file"):
        PrivateKey.read(tmp_path / "nobody.key")
