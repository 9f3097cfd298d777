"""What a run leaves behind: its record while it goes on, its page at the end, and how it ended, whoever ends it.

The record is written before the messages of a round leave and after each round. A process that is told to end
(``flwr stop``, Ctrl-C) runs Flower's exit handlers and has a few seconds left: one of them closes the record
here. In a simulation the exchange runs in another thread meanwhile; it finds the record closed, and sends nothing more.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from logging import ERROR, INFO, WARN, LogRecord, getLogger
from pathlib import Path
from typing import Self

from flwr.common import log

from fedkd_flwr.app.tracking import Tracking
from fedkd_flwr.errors import ConfigError, FedkdError, explain
from fedkd_flwr.processes.alive import exists
from fedkd_flwr.record.notes import Note
from fedkd_flwr.record.run_record import Doing, RunRecord
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.stores.record_file import RecordFile

__all__ = ["LiveRun", "captured_log", "end_with_parent", "installed_versions", "new_record"]

_open_runs: weakref.WeakSet[LiveRun] = weakref.WeakSet()


class LiveRun:
    """Keeps the record of one run, as a context: left by an error, the run failed or was stopped.

    Others fill ``record``; ``record.json`` and, with ``page``, ``report.html`` go into ``folder``. ``tracking`` names
    tools that get the rounds too (`fedkd_flwr.app.tracking`).
    """

    def __init__(self, record: RunRecord, folder: Path, *, page: bool = True, tracking: Sequence[str] = ()) -> None:
        self.record, self.folder, self.page = record, folder, page
        self._file = RecordFile(folder / "record.json")
        getLogger("flwr").addFilter(_in_words)  # once: the same filter twice is one
        self._lock = threading.RLock()  # Flower's exit handlers may interrupt the thread that holds it
        self._tools, self.tracking = tracking, Tracking((), record, folder)
        self._closed = False

    def __enter__(self) -> Self:
        """Write the record as it stands: a folder that cannot be written is said before anybody trains."""
        try:
            self._file.write(self.record)
        except OSError as error:
            way_out = "Set output-dir to a folder this process may write."
            raise ConfigError(explain("output-dir", "be writable", str(error), way_out)) from error
        try:
            self.tracking = Tracking(self._tools, self.record, self.folder)
        except FedkdError as error:
            self.record.close(error)
            self._file.write(self.record)
            raise
        _close_at_exit(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Write the record and the page of a run that has ended; log the table and where they are."""
        self.record.close(error)
        self._end()

    def on_round(self, record: RunRecord) -> None:
        """Write down how far the run is; `SystemExit` if it was stopped: nothing may leave after its record says so."""
        if record.status == "completed":  # the exchange is over, the run is not
            record.status, record.doing = "running", Doing.AFTER
        with self._lock:
            if self._closed:
                raise SystemExit(f"run {record.run_id} was stopped")
            self._file.write(record)
        self.tracking.on_round(record)

    def _end(self) -> None:
        record = self.record
        with self._lock:
            if self._closed:  # who stopped the run has written both
                return
            self._closed = True
            self.tracking.end(record)  # it may add a note
            written = self._write_last()
        if record.status != "completed":
            log(ERROR, "run %s: %s", record.status, record.reason)
        try:
            from fedkd_flwr.report.page import write_page
            from fedkd_flwr.report.table import summary_table

            for line in summary_table(record).splitlines():
                log(INFO, "%s", line)
            if written:
                log(INFO, "record: %s", self._file.path.absolute())
            if self.page and written:
                log(INFO, "report: %s", write_page(record, self.folder / "report.html").absolute())
        except Exception as error:  # the run's own outcome matters more than its picture
            log(WARN, "the table or the page could not be made: %s", error)

    def _write_last(self) -> bool:
        try:
            self._file.write(self.record)
        except OSError as error:
            text = "the record could not be written (%s): %s is of an earlier moment. What was found is below."
            log(ERROR, text, error, self._file.path)
            return False
        return True

    def stop(self, status: str, reason: str) -> None:
        """Write down that the process is being ended from outside: called while the exchange may still be running."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self.record.status, self.record.reason = status, reason
            for _ in range(20):
                with contextlib.suppress(RuntimeError):  # the other thread changed a dict of the record meanwhile
                    self._write_last()
                    break
        # a tool's server that hangs must not keep the process
        tell = threading.Thread(target=self.tracking.end, args=(self.record,), daemon=True)
        tell.start()
        tell.join(5.0)
        log(WARN, "run %s: %s; record: %s", status, reason, self._file.path.absolute())


def new_record(config: RunConfig, run_id: str) -> RunRecord:
    """Return the record of a run that begins now."""
    return RunRecord(
        run_id=run_id,
        algorithm=config.card.name,
        sends=config.card.sends,
        returns=config.card.returns,
        one_shot=config.card.one_shot,
        started=datetime.now(UTC).isoformat(timespec="microseconds"),
        seed=config.seed,
        simulation=not config.public_path,
        config=config.as_scalars(),
        changed=config.changed_keys(),
        versions=installed_versions(),
        num_rounds=config.rounds,
    )


def _in_words(entry: LogRecord) -> bool:
    """Let the log say notes in sentences; who logs them knows codes alone."""
    from fedkd_flwr.report.sentences import note_sentence

    if isinstance(entry.args, tuple):
        entry.args = tuple(note_sentence(one) if isinstance(one, Note) else one for one in entry.args)
    return True


def _close_at_exit(run: LiveRun) -> None:
    """Have a run closed where Flower ends its process. Without Flower's processes nobody calls this."""
    if not _open_runs:
        with contextlib.suppress(ImportError):
            from flwr.supercore.exit import add_exit_handler

            add_exit_handler(_stop_all, run_before_force_exit=True)
    _open_runs.add(run)


def _stop_all() -> None:
    frame, signal = sys._getframe(), None
    while frame.f_back is not None and signal is None:  # Flower does not tell its handlers why they are called
        frame = frame.f_back
        signal = frame.f_locals.get("signalnum")
    status, reason = "failed", "Flower ended its process after an error of its own: see flwr log"
    if signal is not None:
        why = "`flwr stop`, Ctrl-C, or the end of the SuperLink"
        status, reason = "stopped", f"Flower was told to end it (signal {signal}): {why}"
    for run in list(_open_runs):
        run.stop(status, reason)


def end_with_parent(arguments: Sequence[str] | None = None, *, grace_s: float = 60.0) -> threading.Thread | None:
    """End this process if it still runs so long after the process that Flower has it watch is gone.

    Flower interrupts an app's process when its ``--parent-pid`` is gone; at the wrong moment that was seen to wait for
    ever, in locks of Flower's exit. Returns the thread that watches; None where there is nobody to watch, or the system
    cannot say (Windows).
    """
    words = list(sys.argv if arguments is None else arguments)
    given = words[words.index("--parent-pid") + 1 :] if "--parent-pid" in words else []
    if not given or not given[0].isdecimal() or os.name != "posix":
        return None
    parent = int(given[0])

    def watch() -> None:
        while exists(parent):
            time.sleep(min(grace_s, 1.0))
        time.sleep(grace_s)
        os._exit(1)

    thread = threading.Thread(target=watch, name="end-with-parent", daemon=True)
    thread.start()
    return thread


@contextmanager
def captured_log() -> Iterator[list[str]]:
    """Collect messages of Flower's log and the parties' in the yielded list, which grows; print none meanwhile."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    loggers = [logging.getLogger(name) for name in ("flwr", "flwr.party")]
    before = [(one.handlers, one.propagate) for one in loggers]
    for one in loggers:
        one.handlers, one.propagate = [Listener()], False
    try:
        yield said
    finally:
        for one, (handlers, propagate) in zip(loggers, before, strict=True):
            one.handlers, one.propagate = handlers, propagate


_NAMES = ("fedkd-flwr", "flwr", "ray", "numpy", "scikit-learn", "torch", "transformers", "xgboost")


def installed_versions() -> dict[str, str]:
    """Return the versions of this package and of what computes for it, as far as it is installed."""
    return {name: found for name in _NAMES if (found := _version(name))}


@cache  # a package's metadata is a long text, which is parsed anew at each look
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
