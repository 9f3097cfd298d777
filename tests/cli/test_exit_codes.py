"""Exit codes are those that other programs read."""

import os
import signal

from fedkd_flwr.cli import exit_codes


def test_a_bug_and_signals_have_the_codes_that_a_shell_gives_them():
    assert exit_codes.BUG == os.EX_SOFTWARE
    codes = (exit_codes.INTERRUPTED, exit_codes.NOBODY_READS, exit_codes.TERMINATED)
    assert codes == tuple(128 + one for one in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM))


def test_not_ready_is_no_code_that_means_something_else():
    assert exit_codes.NOT_READY not in (0, 1, 2)
