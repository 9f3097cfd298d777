"""The command ``fedkd``, one file for commands that belong together.

These modules import what they need when they are called, so that ``fedkd --help`` is quick.
"""

from __future__ import annotations

__all__ = ["BUG", "INTERRUPTED", "NOBODY_READS", "NOT_READY", "TERMINATED"]

# exit codes besides 0 (well), 1 (failed) and 2 (wrong usage)
NOT_READY = 3
"""This silo or this server cannot take part in a run yet."""

BUG = 70
"""An error in this package: EX_SOFTWARE."""

INTERRUPTED, NOBODY_READS, TERMINATED = 130, 141, 143
"""128 + SIGINT, 128 + SIGPIPE, 128 + SIGTERM, as for any Unix program."""
