"""Simulations as a command runs them: in a process of its own that can be watched, asked to stop, and ended.

The process is started before the settings are read, because it needs seconds to import what it needs.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkd_flwr.app.find_run import LOG, OUTPUT, new_run_id
from fedkd_flwr.app.progress import Progress
from fedkd_flwr.errors import ConfigError, explain

if TYPE_CHECKING:
    from fedkd_flwr.settings.config import RunConfig

__all__ = ["DEFAULT_PARTIES", "Ended", "Simulation", "check_job", "jobs", "once", "spread"]

DEFAULT_PARTIES = 10
"""The key of baselines on the own test rows of all parties together."""
_STOP_S = 30.0  # after which a run that was asked to stop is killed


def jobs(values: Mapping[str, Any], seeds: int = 1) -> list[dict[str, Any]]:
    """Return the runs of a command: one for each seed, from that of ``values`` on; settings are checked."""
    values, made = dict(values), []
    for _ in range(seeds):
        config = check_job(values)
        if config.num_parties:
            values["num-parties"] = config.num_parties
        for key in sorted(config.paths() - {"output-dir"}):
            paths = str(values.get(key, "")).split(",") if key == "tables" else [str(values.get(key, ""))]
            if missing := [path for path in paths if path and not Path(path).exists()]:
                raise ConfigError(explain(key, "be there", f"no {missing[0]}", "Check the path."))
        _require_writable(Path(config.output_dir or OUTPUT).expanduser() / "runs")
        made.append({"run_id": new_run_id(), "config": dict(values)})
        values["seed"] = config.seed + 1
    return made


def check_job(values: Mapping[str, Any], parties: int = DEFAULT_PARTIES) -> RunConfig:
    """Return the settings of a simulation; real parties are counted when the data are read, others are ``parties``."""
    from fedkd_flwr.settings.config import parse_run_config

    config = parse_run_config(values)
    if config.public_path:
        way_out = "Drop it, or submit the run to your SuperLink: fedkd server run ..."
        raise ConfigError(explain("public-path", "not be given to a simulation", config.public_path, way_out))
    if not (config.num_parties or config.has_parties):
        config = parse_run_config({**values, "num-parties": parties})
    return config


def _require_writable(folder: Path) -> None:
    """Refuse a folder that this user cannot make or write to, without making it."""
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        way_out = "Name another one: output-dir=FOLDER."
        raise ConfigError(explain("output-dir", "be a folder that this user may write to", there, way_out))


@dataclass(kw_only=True)
class Ended:
    """How one run ended, and where what it left is."""

    run_id: str
    status: str  # one of "completed", "failed", "stopped", "killed": ``killed``: its process ended without a word
    name: str = ""
    seed: int = 0
    reason: str = ""
    # by model and test rows, with the keys of `RunRecord.figures_by_model`: accuracies, or errors of numbers
    figures: dict[str, float] = field(default_factory=dict)
    figure: str = "accuracy"  # which they are
    # the same of balanced accuracy; empty where accuracy is the figure to report first
    balanced: dict[str, float] = field(default_factory=dict)
    # how many test rows there are of each kind, ``common`` and ``own``; ``own`` of all parties together
    n: dict[str, int] = field(default_factory=dict)
    # accuracy of always answering the commonest class, by kind of test rows; of ``own`` the mean over the parties
    baseline: dict[str, float] = field(default_factory=dict)
    # warnings, notes: Those of the summary. Runs with other seeds say the same where the kinds are equal.
    warnings: list[tuple[str, str]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    # columns, table: What was done to the columns, and the summary, for people; "" where the run was killed
    columns: str = ""
    table: str = ""
    # record, report, log: Paths of files; "" where there is none
    record: str = ""
    report: str = ""
    log: str = ""


def spread(runs: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """Return the mean and the standard deviation over runs of each figure that all of them have.

    >>> [round(one, 3) for one in spread([{"solo-own": 0.5}, {"solo-own": 0.7}])["solo-own"]]
    [0.6, 0.141]
    """
    from statistics import fmean, stdev

    shared = [key for key in runs[0] if all(key in one for one in runs)] if len(runs) > 1 else []
    columns = {key: [one[key] for one in runs] for key in shared}
    return {key: (fmean(values), stdev(values)) for key, values in columns.items()}


def once(said: Sequence[tuple[int, Sequence[tuple[str, str]]]]) -> list[str]:
    """Return the warnings or notes of several runs, each once, with how many runs say it.

    ``said``: seed of each run, and kinds and texts of what it says: equal kinds count as the same.

    >>> once([(1, [("useless", "2 of 4 models: useless.")]), (2, [("useless", "4 of 4 models: useless.")]), (3, [])])
    ['in 2 of 3 seeds (of seed 1): 2 of 4 models: useless.']
    """
    found: dict[str, dict[int, str]] = {}
    for seed, texts in said:
        for kind, text in texts:
            while seed in found.get(kind, {}):  # one run says two things that differ in their numbers
                kind += " +"
            found.setdefault(kind, {})[seed] = text
    lines = []
    for by_seed in found.values():
        first, text = next(iter(by_seed.items()))
        whose = "" if len(set(by_seed.values())) == 1 else f" (of seed {first})"
        lines.append(f"in {len(by_seed)} of {len(said)} seeds{whose}: {text}")
    return lines


class Simulation:
    """The process that runs simulations, from the outside.

    ``events``: what it says: ``step`` (text), ``refused`` (text), ``begin``, ``progress``, ``end`` of each run, and at
    last ``gone`` (code: the exit code).
    """

    def __init__(self) -> None:
        paths = [path for path in sys.path if path]
        # users' own modules lie where they call the command; last, so that they hide no library
        paths += [here] if (here := str(Path.cwd())) not in paths else []
        start = "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
        start += "from fedkd_flwr.simulation.server_process import main; main()"
        self.early_log = tempfile.NamedTemporaryFile(prefix="fedkd-", suffix=".log", delete=False)  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", start, json.dumps(paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.early_log,
            env={**os.environ, "PYTHONUTF8": "1"},
            start_new_session=True,  # Ctrl-C reaches the command, which asks first
        )
        self.events: queue.Queue[dict[str, Any]] = queue.Queue()
        self.runs = 1
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        threading.Thread(target=self._wait, daemon=True).start()

    def begin(self, runs: Sequence[Mapping[str, Any]], *, processes: int = 0) -> None:
        """Send the runs; ``processes``: how many parties compute at a time, 0: one for each core."""
        self.runs = len(runs)
        self._tell(json.dumps({"runs": list(runs), "processes": processes}))

    def stop(self) -> None:
        """Ask the run to stop: it writes its record and ends; after half a minute it is killed."""
        self._tell("stop")
        timer = threading.Timer(_STOP_S, self.end)
        timer.daemon = True
        timer.start()

    def end(self) -> None:
        """End the process and all that it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError, AttributeError):  # the last: Windows
            self.process.kill()
        self.process.wait()
        self.listener.join(5.0)
        with suppress(BrokenPipeError):
            self.process.stdin.close()  # type: ignore[union-attr]
        self.early_log.close()
        Path(self.early_log.name).unlink(missing_ok=True)

    def watch(
        self,
        show: Callable[[str], None],
        *,
        may_stop: Callable[[], bool] = lambda: True,
        print_log: Callable[[str], None] | None = None,
    ) -> list[Ended]:
        """Follow the runs until the process is gone; ``show`` gets a line that says how far they are.

        ``may_stop``: asked at the first `KeyboardInterrupt`; at a second one the run is killed. ``print_log``: gets
        what the run logs, as it is written. Raises `ConfigError` if settings or data are refused: nothing was written
        then.
        """
        ended: list[Ended] = []
        current: Ended | None = None
        progress, stopping, read, begun = Progress(0), False, 0, 0
        while True:
            try:
                if print_log and current:
                    read = _print_new(current.log, read, print_log)
                try:
                    event = self.events.get(timeout=0.2)
                except queue.Empty:
                    continue
                match event.pop("event"):
                    case "step":
                        show(event["text"])
                    case "refused":
                        raise ConfigError(event["text"])
                    case "begin":
                        progress, read, begun = Progress(event["rounds"]), 0, begun + 1
                        which = f"run {begun} of {self.runs}, " if self.runs > 1 else ""
                        folder = Path(event["folder"])
                        current = Ended(run_id=event["run_id"], status="killed", log=str(folder / LOG))
                    case "progress" if not stopping:
                        show(which + progress.text(event["kind"], event["round"], event["answered"], event["asked"]))
                    case "end":
                        ended.append(Ended(**event))
                        if print_log:
                            read = _print_new(ended[-1].log, read, print_log)
                        current = None
                    case "gone":
                        if stopping and not (current or ended):
                            ended.append(Ended(run_id="", status="stopped", reason="before any party was asked"))
                        elif current or not ended:
                            ended.append(self._killed(current, event["code"]))
                        return ended
            except KeyboardInterrupt:
                try:
                    if stopping:
                        self.end()
                    elif may_stop():
                        stopping = True
                        show("stopping")
                        self.stop()
                except KeyboardInterrupt:  # the second one came before the first was dealt with
                    stopping = True
                    self.end()

    def _killed(self, current: Ended | None, code: int) -> Ended:
        """Say what is known of a run whose process ended without a word."""
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        how += ", as where memory ran out" if code == -signal.SIGKILL else ""
        if current is None:
            lines = Path(self.early_log.name).read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return Ended(run_id="", status="killed", reason=" ".join([f"its process ended ({how}).", *lines[-1:]]))
        record = Path(current.log).with_name("record.json")
        current.record = str(record) if record.is_file() else ""
        current.reason = f"its process ended ({how}) and left no record"
        if current.record:
            page = shlex.join(["fedkd", "report", current.record])
            current.reason = f"its process ended ({how}); the record has the rounds until then. Its page: {page}"
        return current

    def _tell(self, line: str) -> None:
        try:
            self.process.stdin.write(f"{line}\n".encode())  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]
        except (BrokenPipeError, ValueError):  # it has ended, which an event says
            pass

    def _listen(self) -> None:
        with self.process.stdout as said:  # type: ignore[union-attr]
            for line in said:
                self.events.put(json.loads(line))

    def _wait(self) -> None:
        code = self.process.wait()
        self.listener.join(1.0)  # what a user's model forked may hold the pipe open for ever; `end` ends it
        self.events.put({"event": "gone", "code": code})


def _print_new(log: str, read: int, write: Callable[[str], None]) -> int:
    """Print what a log has from byte ``read`` on; return how many bytes it has."""
    try:
        with open(log, "rb") as file:
            file.seek(read)
            new = file.read()
    except OSError:
        return read
    if new:
        write(new.decode(errors="replace"))
    return read + len(new)
