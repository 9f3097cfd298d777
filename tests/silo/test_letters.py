"""Files of questions and answers: signed, and bound to run, round and party; keys of OpenSSH."""

import json
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256

import pytest
from by_file import make_key
from flwr.app import ConfigRecord, RecordDict

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.silo.letters import Letter, packed, private_key, public_key, read_letter


@pytest.fixture
def key(tmp_path):
    return make_key("north", tmp_path)


def _letter(**changes):
    content = packed({"north": RecordDict({"reply": ConfigRecord({"party": "Zoë"})})})
    one = {"kind": "answer", "run": "7", "stage": "fit", "round": 1, "sender": "north", "about": "ab"}
    return {"version": "fedkd-file-1", **one, **content, **changes}


def test_a_letter_comes_back_as_it_was_and_has_one_form(tmp_path, key):
    path = tmp_path / "answer.fedkd"
    path.write_bytes(Letter(**_letter(settings={"name": "Zoë"})).sealed(key))
    read = read_letter(path, {"north": key.public_key()})
    assert (read.run, read.round, read.sender, read.about, read.settings) == ("7", 1, "north", "ab", {"name": "Zoë"})
    assert read.record("north")["reply"]["party"] == "Zoë"
    assert read.sealed(key) == read.data == path.read_bytes()
    assert read.digest.encode() in read.data
    at = len(read.data) - 4  # the last character of the signature, of which four bits say nothing
    path.write_bytes(read.data[:at] + bytes([read.data[at] + 1]) + read.data[at + 1 :])
    with pytest.raises(DataError, match="signed with the key of north, got another signature"):
        read_letter(path, {"north": key.public_key()})


@pytest.mark.parametrize(
    "changes",
    [{"version": "fedkd-file-2"}, {"run": "../7"}, {"run": "-1"}, {"stage": "other"}, {"round": "1"}, {"more": 1}],
)
def test_a_head_that_names_a_path_or_what_is_unknown_is_refused_though_it_is_signed(tmp_path, key, changes):
    path, line = tmp_path / "answer.fedkd", json.dumps(_letter(**changes), separators=(",", ":")).encode()
    path.write_bytes(b"\n".join((line, sha256(line).hexdigest().encode(), b64encode(key.sign(line)), b"")))
    with pytest.raises(DataError, match="must say what it is"):
        read_letter(path, {"north": key.public_key()})


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="OpenSSH is not installed")
def test_a_key_that_ssh_keygen_made_is_read(tmp_path):
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(tmp_path / "west")]
    subprocess.run(command, check=True)
    own, public = private_key(tmp_path / "west"), public_key(tmp_path / "west.pub")
    assert own.public_key() == public


def test_a_private_key_that_others_may_read_is_refused(tmp_path, key):
    (tmp_path / "north").chmod(0o644)
    with pytest.raises(ConfigError, match=r"north must be readable by its owner alone, got .*0644.* chmod 600"):
        private_key(tmp_path / "north")


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="OpenSSH is not installed")
def test_a_key_file_of_the_other_half_or_of_another_kind_is_refused(tmp_path, key):
    (tmp_path / "other.pub").write_text("one line", encoding="utf-8")
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(tmp_path / "ecdsa")], check=True)
    for name in ("north", "other.pub", "ecdsa.pub", "nobody.pub"):
        with pytest.raises(ConfigError, match=f"key .*{name} must be half of an Ed25519 pair"):
            public_key(tmp_path / name)
    for name in ("north.pub", "ecdsa"):
        with pytest.raises(ConfigError, match=f"key .*{name} must be half of an Ed25519 pair"):
            private_key(tmp_path / name)
