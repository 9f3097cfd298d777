"""The server of a federation by file: a run that meets its answers in files, and asks by files where it has none.

Nothing of the run waits between two commands. Each one starts the run afresh, with the same settings and number: what
rounds before have asked is asked again, byte for byte, and answered from the files that were counted then. Where a
round has no answers yet, its messages become the question file, and the command ends.

A round is counted once: its answers are kept before anything is made of them, and no others are let in. A command that
ended in its midst is repeated with the same files. Noise that the server adds is drawn once all the same: its ledger
lets the answer out again that was charged for this run and round. It keeps the last rounds' alone, so a run with such
noise has one round by file.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo

from fedkd_flwr.app.live_run import captured_log
from fedkd_flwr.app.output import output_root
from fedkd_flwr.app.server_app import federate
from fedkd_flwr.errors import ConfigError, DataError, WaitingError, explain
from fedkd_flwr.files import write_atomic, write_sealed
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.settings.config import RunConfig, parse_run_config
from fedkd_flwr.silo.letters import SERVER, Letter, hand_out, packed, private_key, public_key, read_letter, require_own
from fedkd_flwr.simulation.grid import InProcessGrid
from fedkd_flwr.stores.checkpoints import sealed as digest_of_secret
from fedkd_flwr.stores.files import file_name, locked, read_state

__all__ = ["FileRun", "ask", "count"]

_STATE = "by-file.json"


class FileRun(InProcessGrid):
    """A run in its ``folder``: messages are answered from files; the first that nobody answered become ``question``.

    ``state``: ``run``, ``run-seal``, ``settings``, ``key`` (a path), ``parties`` (their public keys), ``counted`` (by
    stage and round the digests of the answers), and ``open``, the stage and round asked last. ``record``: of a run that
    has its result; ``question`` is what goes to the parties then.
    """

    def __init__(self, folder: Path, state: dict[str, Any]):
        self.names = dict(enumerate(sorted(state["parties"]), self.first))
        super().__init__(self._reply, [{"party": name} for name in self.names.values()], run_id=int(state["run"]))
        self.folder, self.state = folder, state
        self.key = private_key(Path(state["key"]))
        keys = {name: bytes.fromhex(raw) for name, raw in state["parties"].items()}
        self.keys = {name: Ed25519PublicKey.from_public_bytes(raw) for name, raw in keys.items()}
        self.question: Letter
        self.record: RunRecord | None = None

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Return the parties under the names of their keys."""
        return [NodeInfo(node_id=node, name=name) for node, name in self.names.items()]

    def kept(self, asked: str, party: str = "") -> Path:
        """Return where the question of a stage and round is kept, or a party's answer."""
        return self.folder / "by-file" / asked / f"{f'from-{file_name(party)}' if party else 'question'}.fedkd"

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Answer messages from files, or end the run with a question; raises `WaitingError` then."""
        messages = list(messages)
        if messages and messages[0].metadata.message_type in ("train", "evaluate"):
            letter = self._letter(messages)
            kept = self.kept(letter.at)
            if kept.exists() and kept.read_bytes() != letter.sealed(self.key):
                way_out = "Settings, public rows, keys and releases must stay as they were when it was asked."
                about = f"{letter.title}, made again,"
                raise DataError(explain(about, "have the same bytes as the file that was sent", "others", way_out))
            if letter.at not in self.state["counted"]:
                self.question = letter
                if letter.stage == "fit":
                    raise WaitingError
                return []  # the run has its result: no report is waited for
        return super().push_messages(messages)

    def _letter(self, messages: Sequence[Message]) -> Letter:
        for message in messages:
            config = message.content.config_records["config"]
            if "run-seal" in config:  # drawn anew by each start of the run
                config["run-seal"] = self.state["run-seal"]
        return Letter(
            kind="question",
            run=self.state["run"],
            stage="fit" if messages[0].metadata.message_type == "train" else "evaluate",
            round=int(messages[0].metadata.group_id),
            sender=SERVER,
            settings={k: v for k, v in sorted(self.state["settings"].items()) if k != "output-dir"},
            **packed({self.names[message.metadata.dst_node_id]: message.content for message in messages}),
        )

    def _reply(self, message: Message, context: Context) -> Message:
        party, metadata = str(context.node_config["party"]), message.metadata
        if metadata.message_type.startswith("query"):
            return Message(RecordDict({"ready": ConfigRecord({"party": party})}), reply_to=message)
        at = f"fit-{metadata.group_id}"
        if party not in self.state["counted"][at]:
            return Message(Error(ErrorCode.REPLY_MESSAGE_UNAVAILABLE, "no file"), reply_to=message)
        return Message(read_letter(self.kept(at, party), self.keys).record(party), reply_to=message)

    def go_on(self, out: Path) -> FileRun:
        """Start the run afresh, up to the first question that nobody has answered; keep that, then write ``out``."""
        context = Context(int(self.state["run"]), 1, {}, RecordDict(), dict(self.state["settings"]))
        with captured_log(), suppress(WaitingError):  # it goes on with the next command
            self.record = federate(self, context, page=False)
            from fedkd_flwr.report.page import write_page

            write_page(self.record, self.folder / "report.html")
        kept = write_atomic(self.kept(self.question.at), self.question.sealed(self.key))
        write_sealed(self.folder / _STATE, self.state | {"open": self.question.at})
        hand_out(kept, out)
        return self


def ask(values: Mapping[str, Any], key: Path, parties: Sequence[Path], out: Path) -> FileRun:
    """Begin a run by file: write its first question to ``out``; the public key of ``north`` is ``north.pub``."""
    keys = {path.stem: public_key(path).public_bytes_raw().hex() for path in parties}
    if len({*keys.values()}) < len(parties):
        seen = ", ".join(map(str, parties))
        raise ConfigError(explain("file.parties", "name each party once, with a key of its own", seen))
    settings = {"num-parties": len(keys), **values}
    config = _checked(settings, len(keys))
    require_own(out, "question", SERVER)
    state: dict[str, Any] = {
        "run": str(secrets.randbelow(2**62) + 1),
        "run-seal": digest_of_secret(secrets.token_hex(32)),
        "settings": settings,
        "key": str(key.absolute()),
        "parties": keys,
        "counted": {},
    }
    return FileRun(output_root(config.output_dir) / "runs" / state["run"], state).go_on(out)


def _checked(values: Mapping[str, Any], num_parties: int) -> RunConfig:
    """Return the settings of a run that can be made by file."""
    config = parse_run_config(values)
    if not config.public_path:
        raise ConfigError(explain("public-path", "be given to a run at real silos", config.public_path))
    for key in ("resume-from", "tracking"):
        if values.get(key):
            raise ConfigError(explain(key, "be left out of a run by file", values[key]))
    if config.num_parties != num_parties:
        way_out = "Leave num-parties out, or name as many public keys under [file] parties."
        raise ConfigError(explain("num-parties", f"be {num_parties}, the keys given", config.num_parties, way_out))
    if config.own.privacy == "server" and not config.card.one_shot:
        way_out = "Each command repeats the rounds before, whose noisy answers are not all kept. Use SuperNodes."
        raise ConfigError(explain("a run by file", "have one round where the server adds noise", "several", way_out))
    return config


def count(paths: Sequence[Path], out: Path, *, output_dir: str = "", without: Sequence[str] = ()) -> FileRun:
    """Count the answers of the round that is open; write the next question, or the result for the parties, to ``out``.

    ``without``: parties whose answers are not waited for. Raises `DataError`, and counts nothing, if one file is not a
    known party's answer to the open question, an answer is missing, or a party to leave out has answered.
    """
    runs = {read_letter(path, None).run: path for path in paths}
    if len(runs) != 1:
        seen = ", ".join(f"{path} of run {run}" for run, path in runs.items()) or "no file"
        raise DataError(explain("the files", "be answers to one run", seen))
    folder = output_root(output_dir) / "runs" / min(runs)
    if not (folder / _STATE).is_file():
        way_out = "Name the folder of results that the question was made with: --output-dir FOLDER."
        raise DataError(explain(f"run {folder.name}", f"have been asked from {folder.parent}", "no such run", way_out))
    with locked(folder / "by-file.lock", timeout_s=5.0):
        run = FileRun(folder, read_state(folder / _STATE, "run by file", "Restore it, or ask anew.", dict))
        require_own(out, "question", SERVER)
        kept = run.kept(run.state["open"])
        question = read_letter(kept, {SERVER: run.key.public_key()})
        if question.stage == "evaluate":
            seen = f"its result: fedkd report {folder.name}. What goes to the parties: {kept}"
            raise DataError(explain(f"run {folder.name}", "wait for answers", seen))
        found = _answers(paths, run, question)
        missing = sorted(question.contents.keys() - found)
        if wrong := {*without} - {*missing}:
            rule = f"name parties whose answers are missing ({', '.join(missing) or 'none is'})"
            raise DataError(explain("--without", rule, min(wrong), "Nothing was counted."))
        if waited := [name for name in missing if name not in without]:
            way_out = f"Wait for the files; or count without: {' '.join(f'--without {name}' for name in waited)}"
            rule = f"come from all of {', '.join(question.contents)}"
            raise DataError(explain("answers", rule, f"none of {', '.join(waited)}", way_out))
        if len(found) < (least := parse_run_config(run.state["settings"]).min_parties):
            raise DataError(explain("answers", f"be at least min-parties ({least})", len(found)))
        digests = {name: letter.digest for name, letter in found.items()}
        if run.state["counted"].setdefault(run.state["open"], digests) != digests:
            way_out = "An earlier count of this round ended in its midst. Give it the same files again."
            raise DataError(explain("answers", "be those that were counted", "others", way_out))
        for name, letter in found.items():
            write_atomic(run.kept(run.state["open"], name), letter.data)
        write_sealed(folder / _STATE, run.state)
        return run.go_on(out)


def _answers(paths: Sequence[Path], run: FileRun, question: Letter) -> dict[str, Letter]:
    """Return the files' letters by party, each a known party's answer to the open question."""
    found: dict[str, Letter] = {}
    bound = {"kind": "answer", "stage": question.stage, "round": question.round, "about": question.digest}
    for path in paths:
        letter, seen = read_letter(path, run.keys), ""
        if any(getattr(letter, name) != value for name, value in bound.items()):
            seen = f"the {letter.title}, to the file {letter.about[:16]}"
        elif [*letter.contents] != [letter.sender] or letter.sender not in question.contents:
            seen = f"one of {letter.sender}, whom it does not ask"
        elif letter.sender in found:
            seen = f"a second answer of {letter.sender}"
        if seen:
            wanted = f"answer round {question.round} of run {question.run}, asked by the file {question.digest[:16]}"
            way_out = f"Leave it out; the question that is open: {run.kept(run.state['open'])}. Nothing was counted."
            raise DataError(explain(f"file {path}", wanted, seen, way_out))
        found[letter.sender] = letter
    return found
