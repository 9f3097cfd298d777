"""The server of a federation by file: a run that meets its answers in files, and asks by files where it has none.

Nothing of the run waits between two commands. Each one starts the run afresh, with the same settings and number: what
rounds before have asked is asked again, byte for byte, and answered from the files that were counted then. Where a
round has no answers yet, its messages become the question file, and the command ends.

A round is counted once: its answers are kept, and no later one is let in. Noise that the server adds is drawn once; so
a run with such noise has one round by file, and what was counted is never counted again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo

from fedkd_flwr.app.captured_log import captured_log
from fedkd_flwr.app.output import output_root
from fedkd_flwr.app.server_app import federate
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.files import write_atomic, write_sealed
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.settings.config import RunConfig, parse_run_config
from fedkd_flwr.silo.letters import Letter, PrivateKey, public_key, read_head, read_letter, sealed
from fedkd_flwr.simulation.grid import InProcessGrid
from fedkd_flwr.stores.checkpoints import sealed as digest_of_secret
from fedkd_flwr.stores.files import file_name, locked, read_state
from fedkd_flwr.stores.record_file import RecordFile

__all__ = ["Step", "ask", "count"]

_STATE = "by-file.json"
_Asked = tuple[str, int]  # stage and round


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one command has done."""

    run: str
    question: Path | None  # the file that goes out next: a round's question, or the result for the parties
    parties: Sequence[str]  # whom it is for
    record: RunRecord | None  # of a run that has its result
    folder: Path


class _Open(BaseException):
    """The run has come to a round without answers: no `Exception`, because nothing has failed."""


class _FileGrid(InProcessGrid):
    """Answers a run's messages from files; the first that nobody has answered yet become ``question`` and end it."""

    def __init__(self, state: Mapping[str, Any], key: PrivateKey, answers: Mapping[_Asked, Mapping[str, Letter]]):
        parties = sorted(state["parties"])
        super().__init__(self._reply, [{"party": name} for name in parties], run_id=int(state["run"]))
        self.state, self.key, self.answers = state, key, answers
        self.names = dict(enumerate(parties, self.first))
        self.question: Letter | None = None

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Return the parties under the names of their keys."""
        return [NodeInfo(node_id=node, name=name) for node, name in self.names.items()]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Answer messages from files, or end the run with a question."""
        messages = list(messages)
        kinds = {message.metadata.message_type for message in messages}
        if kinds & {"train", "evaluate"}:
            letter = self._letter(messages)
            asked = letter.stage, letter.round
            known = next((one for one in self.state["asked"] if (one["stage"], one["round"]) == asked), None)
            if known is not None and sha256(sealed(letter, self.key)).hexdigest() != known["question"]:
                way_out = "Settings, public rows, keys and releases must stay as they were when it was asked."
                about = f"{letter.title}, made again,"
                raise DataError(explain(about, "have the same bytes as the file that was sent", "others", way_out))
            if asked not in self.answers:
                self.question = letter
                if letter.stage == "fit":
                    raise _Open
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
            sender=self.key.name,
            parties=tuple(self.names[message.metadata.dst_node_id] for message in messages),
            settings={k: v for k, v in self.state["settings"].items() if k not in ("output-dir", "tracking")},
            contents=tuple(message.content for message in messages),
        )

    def _reply(self, message: Message, context: Context) -> Message:
        party, kind = str(context.node_config["party"]), message.metadata.message_type
        if kind.startswith("query"):
            return Message(RecordDict({"ready": ConfigRecord({"party": party})}), reply_to=message)
        asked = "fit" if kind == "train" else "evaluate", int(message.metadata.group_id)
        if (answer := self.answers[asked].get(party)) is None:
            return Message(Error(ErrorCode.REPLY_MESSAGE_UNAVAILABLE, "no file"), reply_to=message)
        return Message(answer.contents[0], reply_to=message)


# ------------------------------------------------------------------------------------------------------- ask and count


def ask(values: Mapping[str, Any], key: Path, parties: Sequence[Path], out: Path) -> Step:
    """Begin a run by file: write its first question.

    Parameters
    ----------
    values : mapping
        The run's settings, by key.
    key, parties : Path, sequence of Path
        The server's private key, and the public keys of the parties.
    out : Path
        Where the question goes.

    Raises
    ------
    ConfigError
        If a setting is wrong, or the run cannot be made by file.
    """
    keys = [public_key(path) for path in parties]
    known = dict(keys)
    if len(known) < len(keys):
        raise ConfigError(explain("file.parties", "name each party once", ", ".join(name for name, _ in keys)))
    config = _checked({"num-parties": len(known), **values}, len(known))
    state: dict[str, Any] = {
        "run": str(secrets.randbelow(2**62) + 1),
        "run-seal": digest_of_secret(secrets.token_hex(32)),
        "settings": {"num-parties": len(known), **values},
        "key": str(key.absolute()),
        "parties": {name: raw.hex() for name, raw in keys},
        "asked": [],  # the questions, in their order: stage, round, digest, parties, counted
        "drawn": False,
    }
    return _go_on(_folder(config, state["run"]), state, {}, out)


def count(paths: Sequence[Path], out: Path, *, output_dir: str = "", without: Sequence[str] = ()) -> Step:
    """Count the answers of the round that is open, and go on to the next question or the result.

    Parameters
    ----------
    paths : sequence of Path
        The answers' files.
    out : Path
        Where the next question, or the result for the parties, goes.
    output_dir : str
        The run's folder of results; ``~/.fedkd`` if empty.
    without : sequence of str
        Parties whose answers are not waited for.

    Raises
    ------
    DataError
        If one file is not a known party's answer to the open question, by name; nothing is counted then. Or if a
        party's answer is missing.
    """
    runs = {str(read_head(path)["run"]) for path in paths}
    if len(runs) != 1:
        raise DataError(explain("the files", "be answers to one run", ", ".join(sorted(runs)) or "no file"))
    folder = output_root(output_dir) / "runs" / runs.pop()
    if not (folder / _STATE).is_file():
        way_out = "Name the folder of results that the question was made with: --output-dir FOLDER."
        raise DataError(explain(f"run {folder.name}", f"have been asked from {folder.parent}", "no such run", way_out))
    with locked(folder / "by-file.lock", timeout_s=5.0):
        state = read_state(folder / _STATE, "run by file", "Restore it, or ask anew.")
        this = _open_question(folder, state)
        found = _answers(paths, state, this)
        missing = sorted({*this["parties"]} - {*found} - {*without})
        if missing:
            way_out = f"Wait for the files; or count without: {' '.join(f'--without {name}' for name in missing)}"
            raise DataError(explain("answers", f"come from all of {this['parties']}", f"none of {missing}", way_out))
        config = _checked(state["settings"], len(state["parties"]))
        if len(found) < config.min_parties:
            raise DataError(explain("answers", f"be at least min-parties ({config.min_parties})", len(found)))
        if config.own.privacy == "server":
            write_sealed(folder / _STATE, {**state, "drawn": True})  # before the noise is
        for name, path in found.items():
            write_atomic(_kept(folder, this, name), path.read_bytes())
        this["counted"] = sorted(found)
        return _go_on(folder, state, _kept_answers(folder, state), out)


def _checked(values: Mapping[str, Any], num_parties: int) -> RunConfig:
    """Return the settings of a run that can be made by file."""
    config = parse_run_config(values)
    if not config.public_path:
        raise ConfigError(explain("public-path", "be given to a run at real silos", config.public_path))
    for key in ("resume-from", "rehearsal", "tracking"):
        if values.get(key):
            raise ConfigError(explain(key, "be left out of a run by file", values[key]))
    if config.num_parties != num_parties:
        way_out = "Leave num-parties out, or name as many public keys under [file] parties."
        raise ConfigError(explain("num-parties", f"be {num_parties}, the keys given", config.num_parties, way_out))
    if config.own.privacy == "server" and not config.card.one_shot:
        way_out = "Each command repeats the rounds before, and their noise would be drawn again. Use SuperNodes."
        raise ConfigError(explain("a run by file", "have one round where the server adds noise", "several", way_out))
    return config


def _folder(config: RunConfig, run: str) -> Path:
    return output_root(config.output_dir) / "runs" / run


def _open_question(folder: Path, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the question that is open."""
    this: dict[str, Any] = state["asked"][-1]
    if this["stage"] == "evaluate":
        raise DataError(explain(f"run {folder.name}", "wait for answers", f"its result: fedkd report {folder.name}"))
    if state["drawn"]:
        way_out = "An earlier count ended in its midst. Ask anew: a second draw would be a second release."
        raise DataError(explain(f"run {folder.name}", "not have drawn its noise", "noise that was drawn", way_out))
    return this


def _answers(paths: Sequence[Path], state: Mapping[str, Any], this: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files by party, each a known party's answer to the open question."""
    keys = {name: bytes.fromhex(raw) for name, raw in state["parties"].items()}
    found: dict[str, Path] = {}
    for path in paths:
        letter = read_letter(path, keys)
        name = letter.sender
        wanted = f"answer round {this['round']} of run {state['run']}, asked by the file {this['question'][:16]}"
        bound = letter.run, letter.stage, letter.round, letter.about, letter.parties, letter.kind
        if bound != (state["run"], this["stage"], this["round"], this["question"], (name,), "answer"):
            seen = f"the {letter.title}, to the file {letter.about[:16]}"
            raise DataError(explain(f"file {path}", wanted, seen, "Leave it out. Nothing was counted."))
        if name not in this["parties"] or name in found:
            seen = f"a second answer of {name}" if name in found else f"{name}, whom it does not ask"
            raise DataError(explain(f"file {path}", wanted, seen, "Leave it out. Nothing was counted."))
        found[name] = path
    return dict(sorted(found.items()))


def _kept(folder: Path, asked: Mapping[str, Any], party: str) -> Path:
    return folder / "answers" / f"{asked['stage']}-{asked['round']}-{file_name(party)}.fedkd"


def _kept_answers(folder: Path, state: Mapping[str, Any]) -> dict[_Asked, dict[str, Letter]]:
    """Return the answers of the rounds that are counted."""
    keys = {name: bytes.fromhex(raw) for name, raw in state["parties"].items()}
    return {
        (one["stage"], one["round"]): {name: read_letter(_kept(folder, one, name), keys) for name in one["counted"]}
        for one in state["asked"]
        if one["counted"]
    }


def _go_on(folder: Path, state: dict[str, Any], answers: Mapping[_Asked, Mapping[str, Letter]], out: Path) -> Step:
    """Start the run afresh, up to the first question that nobody has answered; write that, and what it was."""
    key = PrivateKey.read(Path(state["key"]))
    grid = _FileGrid(state, key, answers)
    context = Context(int(state["run"]), 1, {}, RecordDict(), dict(state["settings"]))
    record: RunRecord | None = None
    try:
        with captured_log():
            record = federate(grid, context, page=False)
    except _Open:  # the run goes on with the next command
        file = RecordFile(folder / "record.json")
        open_now = RunRecord.load(file.path)
        open_now.status, open_now.reason = "running", ""
        file.write(open_now)
    if record is not None:
        from fedkd_flwr.report.page import write_page

        write_page(record, folder / "report.html")
    if (letter := grid.question) is not None:
        data = sealed(letter, key)
        write_atomic(out, data)
        asked = {"stage": letter.stage, "round": letter.round, "question": sha256(data).hexdigest()}
        state["asked"].append({**asked, "parties": list(letter.parties), "counted": []})
    write_sealed(folder / _STATE, state)
    question = out if letter is not None else None
    return Step(
        run=state["run"], question=question, parties=letter.parties if letter else (), record=record, folder=folder
    )
