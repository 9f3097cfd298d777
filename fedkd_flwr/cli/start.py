"""Where the command ``fedkd`` starts: in UTF-8, and Ctrl-C while it imports what it needs leaves no traceback."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import warnings

from fedkd_flwr.cli import INTERRUPTED

__all__ = ["main"]


def main() -> None:
    """Import the command, and run it."""
    gc.set_threshold(50_000)  # what is imported is no garbage, nor is what is left at the end: to look takes .5 s
    atexit.register(gc.freeze)
    if os.environ.pop("PYTHONWARNINGS", None):  # libraries warn of each other's releases: no error of this command
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)  # as Python does by itself
    if sys.getfilesystemencoding() != "utf-8" and os.name == "posix":
        # in such a locale a file whose name has another letter is "not there", and a node cannot name it to a child
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # a shell started the command with &
    if not ignored:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from fedkd_flwr.cli.main import main

    if not ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
