"""A question or an answer as one file: the wire's records, signed, and bound to run, round and party.

    8 bytes    ``FEDKD-F`` and the version
    4 bytes    the length of the head
    head       canonical JSON: kind, run, stage, round, sender, parties, the digest of what it answers, settings
    4 bytes    the length of the body
    body       Flower's own bytes of a RecordDict for each party, each behind its length, deflated
    32 bytes   SHA-256 of all this
    64 bytes   Ed25519 signature of all this

Nothing of a body is decoded before the digest, the sender and the signature have been found right.
"""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from flwr.app import RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict

from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.files import canonical, write_atomic
from fedkd_flwr.silo.node_client import read_frames, write_frames

__all__ = [
    "Letter",
    "PrivateKey",
    "fingerprint",
    "key_paths",
    "make_key",
    "public_key",
    "read_head",
    "read_letter",
    "sealed",
]

_MAGIC, _VERSION = b"FEDKD-F", 1
_LENGTH = struct.Struct(">I")
_TAIL = 32 + 64
_MOST = 1 << 30  # bytes of a body when it is inflated
_PUBLIC, _PRIVATE = "fedkd-public-key", "fedkd-private-key"
_NAME = 100  # characters

Stage = Literal["fit", "evaluate"]


@dataclass(frozen=True, kw_only=True)
class Letter:
    """One file's content."""

    kind: Literal["question", "answer"]
    run: str
    stage: Stage
    round: int
    sender: str
    parties: tuple[str, ...]  # whom a question asks, in the order of ``contents``; the sender of an answer
    about: str = ""  # the digest of the question that an answer is to
    settings: Mapping[str, Any] = field(default_factory=dict)  # the run's, in a question
    contents: tuple[RecordDict, ...]
    digest: str = ""  # SHA-256 of the file it was read from

    @property
    def title(self) -> str:
        """What it is, for a person."""
        what = "the result" if self.stage == "evaluate" else f"round {self.round}"
        return f"{self.kind} of {self.sender} about {what} of run {self.run}"


@dataclass(frozen=True)
class PrivateKey:
    """Who signs, and with what."""

    name: str
    key: Ed25519PrivateKey

    @classmethod
    def read(cls, path: Path) -> PrivateKey:
        """Read the private half that `make_key` wrote."""
        name, raw = _key_line(path, _PRIVATE)
        return cls(name, Ed25519PrivateKey.from_private_bytes(raw))

    @property
    def public(self) -> bytes:
        """The public half, 32 bytes."""
        return self.key.public_key().public_bytes_raw()


def make_key(name: str, folder: Path) -> tuple[Path, Path]:
    """Draw a key pair; write ``NAME.key``, which stays here, and ``NAME.pub``, which goes to the others.

    Raises `ConfigError` if there is one of this name already: what was signed with it could not be checked any more.
    """
    if not name or len(name) > _NAME or any(c.isspace() or not c.isprintable() or c in "/\\," for c in name):
        raise ConfigError(explain("a key's name", "be a party's name without blanks, commas and slashes", name))
    own, public = folder / f"{name}.key", folder / f"{name}.pub"
    for path in (own, public):
        if path.exists():
            raise ConfigError(explain(f"file {path}", "not be there yet", "a file", "Use it, or move it away."))
    key = PrivateKey(name, Ed25519PrivateKey.generate())
    write_atomic(own, _line(_PRIVATE, name, key.key.private_bytes_raw()))
    write_atomic(public, _line(_PUBLIC, name, key.public))
    return own, public


def public_key(path: Path) -> tuple[str, bytes]:
    """Return whose public key a file holds, and the key, 32 bytes."""
    return _key_line(path, _PUBLIC)


def fingerprint(public: bytes) -> str:
    """Return 20 digits of a public key, to compare by telephone."""
    return sha256(public).hexdigest()[:20]


def _line(kind: str, name: str, raw: bytes) -> bytes:
    return f"{kind} {name} {b64encode(raw).decode()}\n".encode()


def _key_line(path: Path, kind: str) -> tuple[str, bytes]:
    way_out = "`fedkd file key NAME` makes both halves."
    try:
        found, name, text = path.read_text(encoding="utf-8").split()
        raw = b64decode(text, validate=True)
    except OSError as error:
        raise ConfigError(explain(f"key {path}", "be a readable file", error.strerror or "", way_out)) from error
    except ValueError as error:
        raise ConfigError(explain(f"key {path}", "be one line of three words", "others", way_out)) from error
    if found != kind or len(raw) != 32:
        raise ConfigError(explain(f"key {path}", f"be a {kind} of 32 bytes", f"{found}, {len(raw)} bytes", way_out))
    return name, raw


# ------------------------------------------------------------------------------------------------- to and from bytes


def sealed(letter: Letter, key: PrivateKey) -> bytes:
    """Return a letter as the bytes of its file: the same letter and key give the same bytes."""
    head = canonical(
        {
            "kind": letter.kind,
            "run": letter.run,
            "stage": letter.stage,
            "round": letter.round,
            "sender": key.name,
            "parties": list(letter.parties),
            "about": letter.about,
            "settings": dict(letter.settings),
        }
    )
    protos = (recorddict_to_proto(one).SerializeToString(deterministic=True) for one in letter.contents)
    body = zlib.compress(write_frames(*protos), 9)
    said = b"".join((_MAGIC, bytes([_VERSION]), _LENGTH.pack(len(head)), head, _LENGTH.pack(len(body)), body))
    said += sha256(said).digest()
    return said + key.key.sign(said)


def read_letter(path: Path, keys: Mapping[str, bytes] | None) -> Letter:
    """Return what a file says, once it is known to be whole and of whom it says.

    ``keys``: the public keys by their owners' names. None: the signature is not looked at; for a person to read alone.

    Raises `DataError` if it is no such file, was cut or changed, is signed by nobody known, or forged.
    """
    data, head, body = _parts(path)
    if keys is not None:
        _check_signature(path, data, head, keys)
    try:
        frames = read_frames(_inflated(body), len(head["parties"]))
        contents = tuple(recorddict_from_proto(ProtoRecordDict.FromString(one)) for one in frames)
    except Exception as error:  # what is inside may raise anything
        raise _wrong(path, "hold Flower's records", type(error).__name__) from error
    parties = tuple(head.pop("parties"))
    return Letter(**head, parties=parties, contents=contents, digest=sha256(data).hexdigest())


def read_head(path: Path) -> dict[str, Any]:
    """Return the head of a file that is whole. Who wrote it is not known: believe nothing of it."""
    return _parts(path)[1]


def _parts(path: Path) -> tuple[bytes, dict[str, Any], bytes]:
    """Return all bytes of a file, its head and its body; refuse one that is not whole."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _wrong(path, "be a readable file", error.strerror or type(error).__name__) from error
    start = len(_MAGIC) + 1
    if data[: len(_MAGIC)] != _MAGIC:
        raise _wrong(path, "be a file of `fedkd file`", "another kind of file, or a damaged one")
    if data[start - 1 : start] != bytes([_VERSION]):
        way_out = "Install the same release of fedkd-flwr at the server and every party."
        raise _wrong(path, f"have version {_VERSION}", data[start - 1 : start].hex(), way_out)
    said = data[:-_TAIL]
    if len(data) < start + 2 * _LENGTH.size + _TAIL or sha256(said).digest() != data[-_TAIL:-64]:
        raise _wrong(path, "be whole", "cut or changed on its way", "Let its sender send it again.")
    try:
        (size,) = _LENGTH.unpack_from(said, start)
        head = json.loads(said[start + _LENGTH.size : start + _LENGTH.size + size])
        (length,) = _LENGTH.unpack_from(said, start + _LENGTH.size + size)
        body = said[start + 2 * _LENGTH.size + size :]
        if length != len(body) or not _is_head(head):
            raise ValueError
    except (ValueError, TypeError, struct.error, RecursionError) as error:
        raise _wrong(path, "say what it is", "a head that cannot be read") from error
    return data, head, body


def _is_head(head: Any) -> bool:
    kinds: dict[str, type] = {"kind": str, "run": str, "stage": str, "round": int, "sender": str, "parties": list}
    kinds |= {"about": str, "settings": dict}
    return (
        isinstance(head, dict)
        and head.keys() == kinds.keys()
        and all(type(head[name]) is kind for name, kind in kinds.items())
        and head["kind"] in ("question", "answer")
        and head["stage"] in ("fit", "evaluate")
        and head["run"].isascii()
        and head["run"].isdigit()
        and len(head["run"]) <= 20
        and all(type(one) is str and len(one) <= _NAME for one in [head["sender"], *head["parties"]])
    )


def _check_signature(path: Path, data: bytes, head: Mapping[str, Any], keys: Mapping[str, bytes]) -> None:
    sender = str(head["sender"])
    if sender not in keys:
        known = ", ".join(sorted(keys)) or "nobody"
        way_out = "Exchange public keys first, and name them under [file]."
        raise _wrong(path, f"be signed by one whose public key is here ({known})", sender, way_out)
    try:
        Ed25519PublicKey.from_public_bytes(keys[sender]).verify(data[-64:], data[:-64])
    except InvalidSignature as error:
        way_out = f"It is forged, or {sender} has another key now. Ask {sender}, by another way."
        raise _wrong(path, f"be signed with the key of {sender}", "another signature", way_out) from error


def _inflated(body: bytes) -> bytes:
    tool = zlib.decompressobj()
    found = tool.decompress(body, _MOST)
    if not tool.eof or tool.unused_data:
        raise ValueError("not one whole body")
    return found


def _wrong(path: Path, rule: str, seen: str, way_out: str = "") -> DataError:
    return DataError(explain(f"file {path}", rule, seen, f"{way_out} Nothing of it was used.".strip()))


def key_paths(values: Mapping[str, Any], folder: Path, wanted: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return settings without those of ``[file]``, and those, whose paths start from ``folder``.

    Raises `ConfigError` if one of the ``wanted`` is missing or there are others.
    """
    plain = {key: value for key, value in values.items() if not key.startswith("file.")}
    own = {key.removeprefix("file."): str(value) for key, value in values.items() if key not in plain}
    for name in sorted({*own} ^ {*wanted}):
        way_out = f"Under [file] stand {' and '.join(wanted)}, paths of keys that `fedkd file key` made."
        raise ConfigError(explain(f"file.{name}", "be given" if name in wanted else "be known", "no such one", way_out))
    paths = {key: [str(folder / Path(one.strip()).expanduser()) for one in own[key].split(",")] for key in own}
    return plain, {key: ",".join(paths[key]) for key in paths}
