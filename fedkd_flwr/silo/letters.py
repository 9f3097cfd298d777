"""A question or an answer as one file, signed, and bound to run, round and party: three lines of text.

    1   the letter as JSON: the wire's records, one for each party, are Flower's own bytes, packed together, in Base64
    2   SHA-256 of line 1
    3   Ed25519 signature of line 1, in Base64

No record is decoded before the digest, the sender and the signature have been found right. Keys are those of OpenSSH.
"""

from __future__ import annotations

import itertools
import lzma
import os
import stat
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from flwr.app import RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict
from pydantic import BaseModel, ConfigDict, Field

from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.files import write_atomic

__all__ = ["SERVER", "Letter"]
__all__ += ["hand_out", "packed", "private_key", "public_key", "read_key", "read_letter", "require_own"]

SERVER = "server"  # who sends questions
_MOST = 1 << 30  # bytes of all records when they are unpacked


class Letter(BaseModel):
    """One file's content."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    version: Literal["fedkd-file-1"] = "fedkd-file-1"
    kind: Literal["question", "answer"]
    run: str = Field(pattern=r"^[0-9]{1,20}$")  # it names a folder
    stage: Literal["fit", "evaluate"]
    round: int
    sender: str
    about: str = ""  # the digest of the question that an answer is to
    settings: dict[str, Any] = Field(default_factory=dict)  # the run's, in a question
    contents: dict[str, int]  # the bytes of a record by party: those a question asks, or the sender of an answer
    records: str  # all of them, `packed`
    data: bytes = Field(default=b"", exclude=True)  # all of the file that it was read from

    @property
    def at(self) -> str:
        """Its stage and round, as part of a file's name."""
        return f"{self.stage}-{self.round}"

    @property
    def title(self) -> str:
        """What it is, for a person."""
        what = "the result" if self.stage == "evaluate" else f"round {self.round}"
        return f"{self.kind} of {self.sender} about {what} of run {self.run}"

    @property
    def digest(self) -> str:
        """The second line of its file."""
        return self.data.split(b"\n")[1].decode()

    def record(self, party: str) -> RecordDict:
        """Return a party's record; call it once the signature is known to be right."""
        data = lzma.LZMADecompressor(memlimit=_MOST).decompress(b64decode(self.records), _MOST)
        start = sum(size for _, size in itertools.takewhile(lambda one: one[0] != party, self.contents.items()))
        return recorddict_from_proto(ProtoRecordDict.FromString(data[start : start + self.contents[party]]))

    def sealed(self, key: Ed25519PrivateKey) -> bytes:
        """Return the bytes of its file: the same letter and key give the same bytes."""
        line = self.model_dump_json().encode()
        return b"\n".join((line, sha256(line).hexdigest().encode(), b64encode(key.sign(line)), b""))


def packed(records: Mapping[str, RecordDict]) -> dict[str, Any]:
    """Return the ``contents`` and ``records`` of a letter: what all parties are told alike takes its bytes once."""
    data = {name: recorddict_to_proto(one).SerializeToString(deterministic=True) for name, one in records.items()}
    together = lzma.compress(b"".join(data.values()), check=lzma.CHECK_NONE)  # the letter has a digest
    return {"contents": {name: len(one) for name, one in data.items()}, "records": b64encode(together).decode()}


def read_letter(path: Path, keys: Mapping[str, Ed25519PublicKey] | None) -> Letter:
    """Return what a file says, once it is known to be whole and of whom it says; else raise `DataError`.

    ``keys``: the public keys by their owners' names. None: the signature is not looked at; believe nothing of it then.
    """
    rule, seen, way_out = "be a file of `fedkd file`", "another kind of file, or of another release", ""
    try:
        if not (data := path.read_bytes()).startswith(b'{"version":"fedkd-file-'):
            raise ValueError
        rule, seen, way_out = "be whole", "cut or changed on its way", "Let its sender send it again."
        line, digest, signature, end = data.split(b"\n")
        if sha256(line).hexdigest().encode() != digest or end:
            raise ValueError
        rule, seen = "say what it is", "a head that cannot be read"
        letter = Letter.model_validate_json(line)
        if keys is not None:
            known = ", ".join(sorted(keys)) or "nobody"
            rule, seen = f"be signed by one whose public key is here ({known})", letter.sender
            way_out = "Exchange public keys first, and name them under [file]."
            key = keys[letter.sender]
            rule, seen = f"be signed with the key of {letter.sender}", "another signature"
            way_out = f"It is forged, or {letter.sender} has another key now. Ask {letter.sender}, by another way."
            if b64encode(raw := b64decode(signature, validate=True)) != signature:  # a letter has one form
                raise ValueError
            key.verify(raw, line)
    except (OSError, ValueError, KeyError, InvalidSignature) as error:
        seen = error.strerror or seen if isinstance(error, OSError) else seen
        raise DataError(explain(f"file {path}", rule, seen, f"{way_out} Nothing of it was used.".strip())) from error
    return letter.model_copy(update={"data": data})


def require_own(out: Path, kind: str, sender: str) -> None:
    """Refuse to write over a file that is not an earlier letter of this kind and sender; raises `ConfigError`."""
    try:
        before = read_letter(out, None)
        own = (before.kind, before.sender) == (kind, sender)
    except DataError:
        own = not os.path.lexists(out)
    if not own:
        rule = f"be a new file, or an earlier {kind} of {sender}"
        raise ConfigError(explain(f"-o {out}", rule, "another file", "Nothing was done. Give another name."))


def hand_out(kept: Path, out: Path) -> None:
    """Copy a file that is kept to where it was asked for; raises `DataError` that names the kept one."""
    try:
        write_atomic(out, kept.read_bytes())
    except OSError as error:
        way_out = f"Nothing is lost: {kept} is the file. Copy it."
        raise DataError(explain(f"-o {out}", "be a place to write to", error.strerror or "", way_out)) from error


def private_key(path: Path) -> Ed25519PrivateKey:
    """Return one's own half of a key pair, as `public_key`; its file must be readable by its owner alone."""
    key: Ed25519PrivateKey = read_key(path, Ed25519PrivateKey)
    if os.name == "posix" and (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077:
        way_out = f"chmod 600 {path}; if somebody read it, make a new pair."
        raise ConfigError(explain(f"key {path}", "be readable by its owner alone", f"mode {mode:04o}", way_out))
    return key


def public_key(path: Path) -> Ed25519PublicKey:
    """Return the half to hand out of a pair that ``ssh-keygen -t ed25519`` made; `ConfigError` where it is none."""
    key: Ed25519PublicKey = read_key(path, Ed25519PublicKey)
    return key


def read_key(path: Path, kind: type) -> Any:
    """Return half of a key pair of this kind, as OpenSSH writes it, or raise `ConfigError`."""
    private = kind in (Ed25519PrivateKey, EllipticCurvePrivateKey)
    try:
        data = path.read_bytes()
        key = load_ssh_private_key(data, None) if private else load_ssh_public_key(data)
        if not isinstance(key, kind):
            raise TypeError(f"a key of {type(key).__name__}")
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        name, make = ("ECDSA", "ecdsa -b 384") if kind is EllipticCurvePrivateKey else ("Ed25519", "ed25519")
        rule, way_out = f"be half of an {name} pair of OpenSSH", f"Make one: ssh-keygen -t {make} -N '' -f NAME"
        seen = error.strerror or "" if isinstance(error, OSError) else str(error)
        raise ConfigError(explain(f"key {path}", rule, seen, way_out)) from error
    return key
