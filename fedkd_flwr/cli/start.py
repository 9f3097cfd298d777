"""Where the command ``fedkd`` starts: Ctrl-C while it imports what it needs ends it without a traceback."""

from __future__ import annotations

import os
import signal

from fedkd_flwr.cli.exit_codes import INTERRUPTED

__all__ = ["main"]


def main() -> None:
    """Import the command, and run it."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # a shell started the command with &
    if not ignored:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from fedkd_flwr.cli.main import main

    if not ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
