"""Work in a child process that is really ended: at a deadline, above a limit of memory, or when it starts too much.

    fork -> the work, in a session of its own -> its bytes in a file in memory -> everything it started is ended

Flower never ends a ClientApp that does not return, and the node then answers nobody. So a silo learns in a child of the
ClientApp's process. Threads do not survive a fork; the work has a new thread, where OpenMP starts afresh. A GPU that
this process has used cannot be used in the child: a silo's process uses none before the fork, a notebook may have.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from fedkd_flwr import errors
from fedkd_flwr.errors import Code, ConfigError, FedkdError, LimitError, cause, explain
from fedkd_flwr.processes.alive import exists, still_at_work

__all__ = ["Limits", "can_have_child", "end_with_parent", "leaving_nothing", "limits_of"]

logger = logging.getLogger("flwr.party")

POLL_S = 0.1  # how often memory and the number of processes are looked at
MAX_PROCESSES = 256  # of one piece of work: more is a fork bomb
MAX_BYTES = 2**33  # of what it hands back
_END_S = 10.0  # after which processes that will not end are left to the owner, with a word in the log
_PROC = Path("/proc")
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 1, 36, 37


def can_have_child() -> bool:
    """Tell whether work can have a process of its own here, on a GPU, too."""
    torch = sys.modules.get("torch")
    return hasattr(os, "fork") and not (torch is not None and torch.cuda.is_initialized())


def limits_of(seconds: float, gigabytes: float) -> Limits | None:
    """Return the limits that ``round-limit-s`` and ``memory-limit-gb`` ask for; None where there are none.

    0 gigabytes: three quarters of the memory of the machine, or of its container, where Linux says how much there is.
    """
    if not hasattr(os, "fork"):
        if seconds or gigabytes:
            way_out = "Set round-limit-s=0 to take part without limits, or run this node on Linux."
            seen = f"{seconds:g} and {gigabytes:g}"
            rule = "be 0 where a process cannot be forked, as on Windows"
            raise ConfigError(explain("round-limit-s and memory-limit-gb", rule, seen, way_out))
        return None
    if not _PROC.is_dir():
        if gigabytes:
            way_out = "Set memory-limit-gb=0, or run this node on Linux."
            raise ConfigError(explain("memory-limit-gb", "be 0 on a system without /proc", gigabytes, way_out))
        return Limits(seconds=seconds, memory=0) if seconds else None
    return Limits(seconds=seconds, memory=round(gigabytes * 1e9) or _memory() * 3 // 4)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one visit may take. Calling it does a piece of the visit's work apart."""

    seconds: float  # most seconds of one call; 0: no deadline
    memory: int  # most resident bytes of the child and of what it started, together; 0: no limit
    # what, names, way_out: What the work is, what the two limits are called, and what can be done, for the message of a
    # `LimitError`
    what: str = "The work of one visit"
    names: tuple[str, str] = ("round-limit-s", "memory-limit-gb")
    way_out: str = "The owner of this node can raise {limit}, or name a smaller model."

    def __call__(self, work: Callable[[], bytes], *, parts: int = 1) -> bytes:
        """Do the work in a copy of this process, within one of ``parts`` equal parts of the seconds; return its bytes.

        Raises `LimitError` if the child was ended. Raises `FedkdError`: the work's own, with its class, code and text;
        another exception becomes one of code ``internal``, as does a child that died.
        """
        still_at_work()
        with leaving_nothing() as end, _memory_file() as answer:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()  # or the child would write what is buffered again
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads of this process: see above
                child = os.fork()
            if child == 0:
                _work(work, answer)
            try:
                whole = self._wait(child, self.seconds / parts)
            finally:
                end(child)
            if (size := os.fstat(answer.fileno()).st_size) > MAX_BYTES:
                raise self._exceeded(self.names[1], f"hand back at most {MAX_BYTES} bytes", size)
            answer.seek(0)
            message = answer.read() if whole else b""
        still_at_work()
        return _opened(message, child)

    def _wait(self, child: int, seconds: float) -> bool:
        """Wait until the child has ended, within its limits; tell whether it ended as it should."""
        began, looked, pause = time.monotonic(), 0.0, 0.001
        while (ended := os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None:
            now = time.monotonic()
            if seconds and now - began >= seconds:
                raise self._exceeded(self.names[0], f"end within {seconds:.6g} s", "more time")
            if now - looked >= POLL_S:
                looked = now
                self._look(child)
            time.sleep(pause)
            pause = min(1.2 * pause, POLL_S / 5)  # short work is not held up, and long work is not disturbed
        return ended.si_code == os.CLD_EXITED and ended.si_status == 0

    def _look(self, child: int) -> None:
        tree = _tree({child})
        if len(tree) > MAX_PROCESSES:
            raise self._exceeded("the number of processes", f"be at most {MAX_PROCESSES}", len(tree))
        if self.memory and (used := sum(map(_resident, tree))) > self.memory:
            rule = f"take at most {self.memory / 1e9:.3g} GB"
            raise self._exceeded(self.names[1], rule, f"{used / 1e9:.3g} GB")

    def _exceeded(self, limit: str, rule: str, seen: object) -> LimitError:
        way_out = f"It was ended. {self.way_out.format(limit=limit)}".strip()
        return LimitError(explain(self.what, f"{rule} ({limit})", seen, way_out))


def _memory_file() -> BinaryIO:
    """Return a file that is nowhere on a disk where the system has such; its writer's copy shares the place in it."""
    return os.fdopen(os.memfd_create("answer"), "w+b") if sys.platform == "linux" else tempfile.TemporaryFile()


def _opened(message: bytes, child: int) -> bytes:
    if message[:1] == b"A":
        return message[1:]
    if not message:
        raise FedkdError(
            f"The process of this visit ({child}) ended without an answer: its code ended it, or it crashed."
        )
    told = json.loads(message[1:])
    kind = getattr(errors, told["class"], FedkdError)
    error: FedkdError = kind(told["text"], code=Code(told["code"]))
    error.told_cause = told["cause"]
    raise error


def _work(work: Callable[[], bytes], answer: BinaryIO) -> NoReturn:
    """Be the child: do the work, write its bytes or its error, and end without this process's clean-up."""
    code = 1
    try:
        gc.freeze()  # a collection would write to every object of this process, and copy the memory it shares
        os.setsid()
        end_with_parent(signal.SIGKILL)  # nobody is left to end it where its parent is killed
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, signal.SIG_DFL)  # Flower's handlers would talk to the SuperNode
        message = bytearray()
        # GNU's OpenMP remembers a thread's helpers, and waits for ever for those that did not survive the fork: a new
        # thread has none
        thread = threading.Thread(target=lambda: message.extend(_done(work)))
        thread.start()
        thread.join()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        answer.write(message)
        answer.flush()
        code = 0
    finally:
        os._exit(code)


def _done(work: Callable[[], bytes]) -> bytes:
    """Do the work; return its bytes, or its error as bytes."""
    try:
        return b"A" + work()
    except FedkdError as error:
        return _told(type(error).__name__, error.code, str(error), cause(error))
    except BaseException as error:
        return _told("FedkdError", Code.INTERNAL, traceback.format_exc(), cause(error))


def _told(kind: str, code: Code, text: str, why: str = "") -> bytes:
    return b"E" + json.dumps({"class": kind, "code": str(code), "text": text, "cause": why}).encode()


# ---------------------------------------------------------------------------------------------------- processes


@contextlib.contextmanager
def leaving_nothing() -> Iterator[Callable[[int], None]]:
    """Yield what ends a child of this process, by its number, with all that was started in the block.

    On Linux processes that left the child's group are found too, also where their parents have died.
    """
    before = _children(os.getpid())
    with _adopting():
        yield lambda child: _end(child, before)


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Let processes whose parent died become this process's children (Linux), so that they are found and ended."""
    before = ctypes.c_int(0)
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _prctl(_PR_SET_CHILD_SUBREAPER, before.value)


def end_with_parent(signal_number: int = signal.SIGTERM) -> None:
    """Have this process get a signal when the one that started it ends (Linux)."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)


def _prctl(option: int, value: object) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _end(child: int, before: set[int]) -> None:
    """End a child and all that it started, orphans of another group too where this process adopts them."""
    until, stopped = time.monotonic() + _END_S, set[int]()
    while True:
        found = _tree((_children(os.getpid()) - before) | {child})
        if found <= stopped or time.monotonic() > until:
            break
        for one in found - stopped:  # stopped first: what runs could start more while others are ended
            _kill(one, signal.SIGSTOP)
        stopped |= found
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    pause = 0.001  # a process that held much memory takes a moment to end, and each look costs
    while found := _tree((_children(os.getpid()) - before) | {child}):
        time.sleep(pause)
        for one in found:
            _kill(one, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):  # of a child of a child, which comes here when that one ends
                os.waitpid(one, os.WNOHANG)
        if time.monotonic() > until:
            logger.error("processes %s could not be ended: look at them on this machine", sorted(found))
            break
        pause = min(2 * pause, 0.05)


def _kill(process: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, what)


def _tree(roots: set[int]) -> set[int]:
    """Return those of these processes that exist, with their descendants."""
    found, new = set[int](), {one for one in roots if exists(one)}
    while new:
        found |= new
        new = {child for one in new for child in _children(one)} - found
    return found


def _children(process: int) -> set[int]:
    """Return the children of a process; none on a system that does not say."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in (_PROC / str(process) / "task").iterdir():
            with contextlib.suppress(OSError):
                found.update(map(int, (thread / "children").read_text().split()))
    return found


def _resident(process: int) -> int:
    """Return the resident bytes of a process; 0 of one that has ended."""
    try:
        pages = int((_PROC / str(process) / "statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _memory() -> int:
    """Return the bytes of memory of this machine, or of its container if that has less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # "max": no limit
            total = min(total, int(Path(path).read_text()))
    return total
