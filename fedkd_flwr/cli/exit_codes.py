"""The exit codes of ``fedkd`` besides 0 (well), 1 (failed) and 2 (wrong usage). Importing them imports nothing else."""

from __future__ import annotations

__all__ = ["BUG", "INTERRUPTED", "NOBODY_READS", "TERMINATED"]

BUG = 70
"""An error in this package: EX_SOFTWARE."""

INTERRUPTED, NOBODY_READS, TERMINATED = 130, 141, 143
"""128 + SIGINT, 128 + SIGPIPE, 128 + SIGTERM, as for any Unix program."""
