"""What the process that parties are forked from has in hand before it forks the first; elsewhere this does nothing."""

import atexit
import gc
import json
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module

from fedkd_flwr.simulation.starter import SETTINGS


def _load(settings: str) -> None:
    from fedkd_flwr.app.models import model_factory
    from fedkd_flwr.simulation.parties import printed_to
    from fedkd_flwr.simulation.rows import counted, simulated_pool

    for module in ("fedkd_flwr.app.client_app", "fedkd_flwr.app.assembly"):
        import_module(module)
    with suppress(Exception), printed_to(os.devnull):  # the command meets the same, and says it
        config = counted(json.loads(settings))
        public = simulated_pool(config).public
        for spec in set(config.models):
            if ":" not in spec:  # what a user's own would leave behind, nobody knows
                model_factory(spec, public)(seed=0)
        if "torch" in sys.modules:
            import_module("torch._dynamo")  # which training imports


if (settings := os.environ.pop(SETTINGS, None)) is not None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the command too, which asks first
    atexit.register(os._exit, 0)  # who reads the command's output waits until this process has ended, too
    gc.disable()  # nothing here is garbage
    _load(settings)
    gc.enable()
