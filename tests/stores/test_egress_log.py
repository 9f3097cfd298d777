"""The egress log: what is written before a reply leaves, and what `verify` notices."""

import errno
import json
import os

import numpy as np
import pytest

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.ledger.entry import canonical
from fedkd_flwr.stores import egress_log
from fedkd_flwr.stores.egress_log import EgressLog, egress_logs_in, output_of, read_log, short_head
from fedkd_flwr.stores.party_state import StoredReply


@pytest.fixture
def log(tmp_path):
    """A log of five lines."""
    made = EgressLog(tmp_path / "state", party="St. Mary")
    for i in range(5):
        made.append({"run": "7", "round": i + 1, "left": True})
    return made


def _lines(log):
    return log.path.read_bytes().splitlines(keepends=True)


def test_a_whole_log_holds_and_its_lines_come_back(log):
    found = read_log(log.path)
    assert (found.problems, found.notes) == ([], [])
    said = [(line["number"], line["round"], line["party"]) for line in found.lines]
    assert said == [(i, i, "St. Mary") for i in range(1, 6)]
    assert found.head == short_head(5, found.lines[-1]["line"])
    assert log.path.stat().st_mode & 0o777 == 0o600
    assert egress_logs_in(log.path.parents[2]) == egress_logs_in(log.directory) == [log.path]


@pytest.mark.parametrize("way", ["moved", "truncated"])
def test_a_log_that_was_rotated_is_named_and_goes_on_once_it_is_put_back(log, way):
    kept = log.path.with_name("log.jsonl.1")
    kept.write_bytes(log.path.read_bytes())
    log.path.unlink() if way == "moved" else log.path.write_bytes(b"")
    with pytest.raises(DataError, match=r"must hold its 5 lines, got 0 bytes of \d+: it was rotated, moved or cut"):
        log.append({"run": "7", "round": 6, "left": True})
    kept.replace(log.path)
    assert log.append({"run": "7", "round": 6, "left": True})["number"] == 6
    assert read_log(log.path).problems == []


def _rechained(line):
    """Return an altered line whose own digest fits it."""
    fields = {**json.loads(line), "left": False}
    del fields["line"]
    return canonical({**fields, "line": egress_log._digest(fields)}) + b"\n"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda lines: lines.__setitem__(1, lines[1].replace(b'"round":2', b'"round":3')),
        lambda lines: lines.__setitem__(2, _rechained(lines[2])),
        lambda lines: lines.__setitem__(3, lines[3].replace(b'"left":true', b'"left": true')),
        lambda lines: lines.insert(2, lines[1]),
        lambda lines: lines.__setitem__(-1, lines[-1][:40]),
        lambda lines: lines.__setitem__(-1, lines[-1][:-1]),
        lambda lines: lines.pop(0),
        lambda lines: lines.pop(2),
        lambda lines: lines.pop(),
        lambda lines: lines.clear(),
        lambda lines: lines.reverse(),
        lambda lines: lines.append(lines[-1]),
        lambda lines: lines.insert(1, b"\n"),
        lambda lines: lines.__setitem__(0, b"no JSON\n"),
    ],
)
def test_each_change_of_a_log_is_noticed(log, spoil):
    lines = _lines(log)
    spoil(lines)
    log.path.write_bytes(b"".join(lines))
    assert read_log(log.path).problems


def test_each_single_changed_bit_is_noticed(log):
    data = log.path.read_bytes()
    for at in range(0, len(data), 37):
        log.path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert read_log(log.path).problems, at


@pytest.mark.parametrize("change", [{"lines": 4}, {"digest": "0" * 64}, {"size": -1}, {"party": "another"}])
def test_a_changed_head_is_noticed(log, change):
    log.head_path.write_bytes(canonical({**json.loads(log.head_path.read_bytes()), **change}))
    assert read_log(log.path).problems


def test_a_lost_head_or_log_is_noticed_and_nothing_more_is_written(log):
    log.head_path.unlink()
    assert "missing" in read_log(log.path).problems[0]
    with pytest.raises(DataError, match=r"head .* must be there"):
        log.append({})
    log.path.unlink()
    with pytest.raises(DataError, match=r"egress log .* must be there"):
        read_log(log.path)


def test_a_whole_log_and_head_written_anew_show_only_against_a_head_kept_elsewhere(log, tmp_path):
    kept = read_log(log.path).head
    forged = EgressLog(tmp_path / "forged", party="St. Mary")
    for i in range(6):
        forged.append({"run": "8", "round": i + 1, "left": True})
    found = read_log(forged.path)
    assert found.problems == []
    assert "was rewritten" in found.check_kept(kept)
    assert "lines were removed" in found.check_kept("9" + kept[1:])
    log.append({"round": 6})
    assert read_log(log.path).check_kept(kept) == ""
    with pytest.raises(ConfigError, match="--head must be a head as"):
        found.check_kept("5")


def test_half_a_line_of_a_process_that_ended_is_no_line_and_the_next_writer_removes_it(log):
    with log.path.open("ab") as file:
        file.write(b'{"half":' + b"x" * 5000)  # longer than the next line
    found = read_log(log.path)
    assert (found.problems, len(found.lines), len(found.notes)) == ([], 5, 1)
    log.append({"round": 6})
    assert [line["round"] for line in read_log(log.path).lines] == [1, 2, 3, 4, 5, 6]
    assert read_log(log.path).notes == []
    assert log.path.stat().st_size == json.loads(log.head_path.read_bytes())["size"]


@pytest.mark.parametrize("which", [slice(0, 1), slice(4, 5), slice(5, 7)], ids=["first", "last", "two that follow"])
def test_lines_that_a_crash_cannot_leave_behind_the_head_are_not_gone_on_with_nor_written_over(log, which):
    before, head = log.path.read_bytes(), log.head_path.read_bytes()
    for number in (6, 7):
        log.append({"round": number})
    spoilt = before + b"".join(_lines(log)[which])
    log.path.write_bytes(spoilt)
    log.head_path.write_bytes(head)
    with pytest.raises(DataError, match="must go on after line 5, got lines that do not follow it"):
        log.append({})
    assert log.path.read_bytes() == spoilt


def test_a_line_is_on_the_disk_before_its_reply_leaves(log, monkeypatch):
    synced, sync = [], os.fsync

    def noted(handle):
        synced.append(os.fstat(handle).st_ino)
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    log.append({"round": 6})
    assert log.path.stat().st_ino in synced


def test_a_process_that_ended_between_line_and_head_loses_no_line(log):
    before = log.head_path.read_bytes()
    log.append({"round": 6})
    log.head_path.write_bytes(before)
    assert (read_log(log.path).problems, len(read_log(log.path).lines)) == ([], 6)
    log.append({"round": 7})
    assert (read_log(log.path).problems, len(read_log(log.path).lines)) == ([], 7)


def test_two_such_ends_in_a_row_leave_one_line_ahead_of_the_head_and_no_more(log, monkeypatch):
    def ended(*arguments):
        raise KeyboardInterrupt

    write_head = EgressLog._write_head
    for i in (6, 7):
        cut = lambda self, lines, *rest, i=i: ended() if lines == i else write_head(self, lines, *rest)  # noqa: E731
        monkeypatch.setattr(EgressLog, "_write_head", cut)
        with pytest.raises(KeyboardInterrupt):
            log.append({"round": i})
        found = read_log(log.path)
        assert (found.problems, len(found.lines), len(found.notes)) == ([], i, 1)


def test_a_full_disk_leaves_the_log_as_it_was(log, monkeypatch):
    before, write = log.path.read_bytes(), os.write

    def full(handle, data):
        write(handle, bytes(data)[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(egress_log.os, "write", full)
    with pytest.raises(OSError, match="No space"):
        log.append({"round": 6})
    assert log.path.read_bytes() == before
    monkeypatch.undo()
    log.append({"round": 6})
    assert read_log(log.path).problems == []


def test_another_party_s_log_is_not_gone_on_with(log):
    other = EgressLog(log.path.parents[2], party="St. John")
    other.directory = log.directory
    other.path, other.head_path = log.path, log.head_path
    with pytest.raises(DataError, match=r"must be of St\. John"):
        other.append({})


def test_a_reply_is_described_by_bytes_and_digests_and_never_by_values():
    labels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    reply = StoredReply(arrays={"labels": labels}, metrics={"party": "a", "loss": float("nan"), "metrics": b"12"})
    said = output_of(reply, num_examples=3)
    (array,) = said["arrays"]
    digest = array.pop("sha256")
    assert array == {"name": "labels", "dtype": "uint8", "shape": [2, 3], "bytes": 6}
    assert len(digest) == 64
    assert (said["bytes"], said["num_examples"], said["metrics"]["loss"]) == (6, 3, None)
    assert said["metrics"]["metrics"]["bytes"] == 2
    assert output_of(StoredReply.from_bytes(reply.to_bytes()))["sha256"] == said["sha256"]
    canonical(said)
