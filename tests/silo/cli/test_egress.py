"""The commands `fedkd node egress ...`: what a steward sees, and what the exit codes say."""

import json

import numpy as np
import pytest
from ledgers import past, write_ledger

from fedkd_flwr.cli.main import main
from fedkd_flwr.stores.egress_log import EgressLog, output_of, read_log
from fedkd_flwr.stores.held_replies import HeldReplies
from fedkd_flwr.stores.party_state import StoredReply

REPLY = StoredReply(arrays={"labels": np.arange(5, dtype=np.uint8)}, metrics={"party": "a", "payload": "labels"})


def _hold(
    state, *, run="8797555162871205416", server_round=1, party="a", until="9999-01-01T00:00:00+00:00", reply=REPLY
):
    facts = {"run": run, "run_name": "monday", "round": server_round, "party": party, "algorithm": "fedct"}
    facts |= {"claim": None, "rules": [], "since": "2026-11-22T12:00:00+00:00", "until": until}
    facts["output"] = output_of(reply, num_examples=5)
    table = [["public row", "age", "label"], *([i, 20 + i, "low\x1b[31m"] for i in range(5))]
    return HeldReplies(EgressLog(state, party=party).directory / "held").put(reply, facts, table)


@pytest.fixture
def log(tmp_path):
    made = EgressLog(tmp_path, party="a")
    line = {"run": "7", "run_name": "monday", "algorithm": "fedct", "claim": None, "output": output_of(REPLY)}
    line["approval"] = {"policy": "always", "verdict": "rejected", "by": "Ada", "reason": "a, b"}
    for number, left in ((1, True), (2, True), (3, False)):
        rules = [{"rule": "run-rules", "wanted": "num-rounds<=2", "seen": "3", "kept": left}]
        made.append({**line, "round": number, "left": left, "code": "" if left else "held-back", "rules": rules})
    return made


# ---------------------------------------------------------------------------------------------------------- waiting


def test_what_waits_is_shown_as_a_table_and_no_name_obeys_the_terminal(fedkd, tmp_path):
    _hold(tmp_path)
    done = fedkd("node", "egress", "pending", tmp_path, "--rows", "2")
    assert done.code == 0
    assert "public row  age  label" in done.out
    assert "... 3 rows more" in done.out
    assert "\x1b" not in done.out
    digest = output_of(REPLY)["sha256"][:16]
    assert f"fedkd node egress approve 8797555162871205416 --digest {digest} --state-dir {tmp_path}" in done.out
    (shown,) = json.loads(fedkd("node", "egress", "pending", tmp_path, "--json").out)
    assert shown["output"]["sha256"] == output_of(REPLY)["sha256"]
    _hold(late := tmp_path / "late", until="2020-01-01T00:00:00+00:00")  # which no longer waits
    assert fedkd("node", "egress", "pending", late).out == "No reply waits for approval.\n"
    assert fedkd("node", "egress", "approve", "last", "--state-dir", late).code == 2


@pytest.mark.parametrize("name", ["879", "monday"])
def test_a_run_is_named_by_its_id_its_start_its_name_or_last(fedkd, tmp_path, name):
    held = _hold(tmp_path)
    done = fedkd("node", "egress", "approve", name, "--state-dir", tmp_path, "--reason", "seen", "--by", "Ada")
    assert done.code == 0
    assert done.out.startswith("approved: round 1 of run 8797555162871205416 (a), by Ada")
    assert (held.decision.verdict, held.decision.reason) == ("approved", "seen")
    assert held.decision.sha256 == output_of(REPLY)["sha256"]


def test_commands_to_copy_are_quoted_where_a_path_has_spaces(fedkd, tmp_path):
    place = tmp_path / "Häuser und Höfe"
    _hold(place)
    shown = fedkd("node", "egress", "pending", place).out
    refused = fedkd("node", "egress", "reject", "last", "--state-dir", place).err
    unknown = fedkd("node", "egress", "approve", "1", "--state-dir", place).err
    for text in (shown, refused, unknown):
        assert f"'{place}'" in " ".join(text.split())


# -------------------------------------------------------------------------------------------------------------- log


def test_the_log_comes_as_a_table_and_as_json(fedkd, log, tmp_path):
    text = fedkd("node", "egress", "log", tmp_path).out
    assert "only the code held-back" in text
    assert "rejected by Ada: a, b" in text
    assert "run-rules (3)" in text
    lines = read_log(log.path).lines
    assert json.loads(fedkd("node", "egress", "log", log.path, "--json").out) == lines


def test_verify_says_by_its_exit_code_whether_the_log_holds(fedkd, log, tmp_path):
    done = fedkd("node", "egress", "verify", tmp_path)
    head = read_log(log.path).head
    assert (done.code, f"head   {head}" in done.out) == (0, True)
    log.append({"round": 4})
    assert fedkd("node", "egress", "verify", tmp_path, "--head", head).code == 0
    log.path.write_bytes(log.path.read_bytes().replace(b'"by":"Ada"', b'"by":"Bob"'))
    done = fedkd("node", "egress", "verify", tmp_path)
    assert done.code == 1
    assert "WRONG  Line 1 was altered" in done.out
    (said,) = json.loads(fedkd("node", "egress", "verify", tmp_path, "--json").out)
    assert (said["holds"], said["head"].partition("-")[0]) == (False, "4")
    other = EgressLog(tmp_path / "other", party="a")  # a log that was written anew holds without the head
    for _ in range(3):
        other.append({"left": True})
    assert fedkd("node", "egress", "verify", other.path).code == 0
    done = fedkd("node", "egress", "verify", other.path, "--head", head)
    assert (done.code, "was rewritten" in done.out) == (1, True)
    (tmp_path / "none").mkdir()
    done = fedkd("node", "egress", "verify", tmp_path / "none")
    assert (done.code, "Give a party's state-dir" in done.err) == (2, True)


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_only_the_answer_that_was_looked_at_is_decided_about(fedkd, tmp_path, verb):
    """A node that is started again may hold another answer; and a shell gives "" for a variable that is not set."""
    held, digest = _hold(tmp_path), output_of(REPLY)["sha256"]
    words = ["--state-dir", tmp_path, "--reason", "x"]
    for wrong in ("0" * 16, ""):
        done = fedkd("node", "egress", verb, "last", *words, "--digest", wrong)
        assert (done.code, held.decision) == (2, None)
        assert "--digest must be that of the reply that waits" in done.err
    done = fedkd("node", "egress", verb, "", *words)
    assert (done.code, held.decision) == (2, None)
    assert "must name one reply that waits, got 0 of them" in " ".join(done.err.split())
    assert fedkd("node", "egress", verb, "last", *words, "--digest", digest[:16].upper()).code == 0
    assert held.decision.sha256 == digest


def _command(*words):
    """Call ``fedkd node ledger`` and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["node", "ledger", *map(str, words)])
    return ended.value.code


@pytest.mark.parametrize("path", ["ledger.sqlite3", "", "../.."])
def test_the_command_takes_a_file_its_folder_or_a_state_dir_and_writes_nothing(tmp_path, capsys, path):
    folder = write_ledger(tmp_path / "ledgers" / "party-000-abababababababab", past(1))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert _command(folder / path, "--delta", "0", "--epsilon-budget", "1") == 0
    printed = capsys.readouterr().out
    assert "epsilon 0.4 at delta 0" in printed
    assert "left         epsilon 0.6" in printed
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_of_several_ledgers_a_damaged_one_is_an_error_and_the_others_are_printed(tmp_path, capsys):
    for party in ("a", "b", "c"):
        write_ledger(tmp_path / "ledgers" / party, past(1, party=party))
    (tmp_path / "ledgers" / "b" / "ledger.sqlite3").write_text("{")
    assert _command(tmp_path) == 2
    printed = capsys.readouterr()
    assert "party        a" in printed.out
    assert "party        c" in printed.out
    assert "the releases of its own party only" in printed.out
    assert "ledgers/b/ledger.sqlite3 must be whole" in printed.err


def test_programs_get_the_same_figures(tmp_path, capsys):
    folder = write_ledger(tmp_path / "x", past(1, 2))
    assert _command(folder, "--delta", "0", "--epsilon-budget", "1", "--json") == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["epsilon_spent"] == pytest.approx(0.8)
    assert found["epsilon_left"] == pytest.approx(0.2)
    assert [entry["round"] for entry in found["entries"]] == [1, 2]
    assert found["entries"][0]["charged"][0]["words"] == "epsilon 0.4"
    assert found["notes"] == ["protects one record against server; data sets compared: replace one record"]
