"""How a run ended, in words."""

import errno

import pytest

from fedkd_flwr.record.run_record import RunRecord


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "The server ran out of memory (MemoryError). What the rounds before found is in this record."),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), "The server's disk is full (OSError: [Errno 28]"),
    ],
)
def test_what_the_server_s_machine_lacked_is_said_in_a_sentence(error, words):
    record = RunRecord(run_id="7", algorithm="fedct")
    record.close(error)
    assert (record.status, record.reason.startswith(words)) == ("failed", True)
