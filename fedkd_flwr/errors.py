"""The package's errors and the form of their messages.

Every message has one form: *name, rule, value seen, way out*. The server learns of a party's error its ``code`` from a
fixed list. The text stays in the process that raised it, because it may hold private values.
"""

from __future__ import annotations

import inspect
import sysconfig
import traceback
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["SETTLED", "TELLING", "Code", "ConfigError", "DataError", "FedkdError", "LimitError", "MissingExtraError"]
__all__ += ["ModelBytesError", "PartyNote", "PayloadError", "RefusalError", "TooFewPartiesError", "WaitingError"]
__all__ += ["cause", "explain", "import_extra", "is_users", "place_of", "printable"]


class Code(StrEnum):
    """What a party may tell the server about a failure: one of these words and no text."""

    BAD_INSTRUCTION = "bad-instruction"
    BUDGET_EXCEEDED = "budget-exceeded"
    BUNDLE_NOT_APPROVED = "bundle-not-approved"
    CHANGING_MOD = "changing-mod"
    CLASS_OUTSIDE_SCHEMA = "class-outside-schema"
    HELD_BACK = "held-back"
    INTERNAL = "internal"
    LEDGER_LOST = "ledger-lost"
    LIMIT_EXCEEDED = "limit-exceeded"
    MISSING_EXTRA = "missing-extra"
    MISSING_FILE = "missing-file"
    NO_ROWS = "no-rows"
    NOT_ALLOWED = "not-allowed"
    PRIVACY_REQUIRED = "privacy-required"
    PUBLIC_SET_MISMATCH = "public-set-mismatch"
    STATE_LOST = "state-lost"
    STATE_READ_ONLY = "state-read-only"
    SUBSET_FIXED = "subset-fixed"
    SUBSET_LOST = "subset-lost"
    WITHHELD = "withheld"
    WRONG_CLOCK = "wrong-clock"
    WRONG_CONFIG = "wrong-config"
    WRONG_DATA = "wrong-data"
    WRONG_MODEL_OUTPUT = "wrong-model-output"


TELLING = frozenset(
    {
        Code.CLASS_OUTSIDE_SCHEMA,
        Code.INTERNAL,
        Code.LIMIT_EXCEEDED,
        Code.NO_ROWS,
        Code.STATE_LOST,
        Code.WRONG_DATA,
        Code.WRONG_MODEL_OUTPUT,
    }
)
"""Codes that private rows may decide."""

SETTLED = frozenset(
    {
        Code.BAD_INSTRUCTION,
        Code.BUDGET_EXCEEDED,
        Code.BUNDLE_NOT_APPROVED,
        Code.CHANGING_MOD,
        Code.LEDGER_LOST,
        Code.MISSING_EXTRA,
        Code.MISSING_FILE,
        Code.NOT_ALLOWED,
        Code.PRIVACY_REQUIRED,
        Code.PUBLIC_SET_MISMATCH,
        Code.STATE_READ_ONLY,
        Code.WRONG_CLOCK,
        Code.WRONG_CONFIG,
    }
)
"""Codes that settings, public facts and ledgers decide, and no private row or person who has looked at one."""


class PartyNote(StrEnum):
    """What a party may tell the server beside an answer: these words and no text."""

    FEWER_SUBSETS = "fewer-subsets"
    FIXED_ANSWER = "fixed-answer"
    ONE_CLASS = "one-class"
    STATE_LOST = "state-lost"


def explain(name: str, rule: str, seen: object, way_out: str = "") -> str:
    """Return one error message, in one line: *name, rule, value seen, way out*.

    What cannot be printed is escaped: a value may come from elsewhere, and must add no line to a log and tell no
    terminal anything.

    >>> explain("quorum", "be within [0, 1]", 1.5, "Use 0.9 for nine of ten parties.")
    'quorum must be within [0, 1], got 1.5. Use 0.9 for nine of ten parties.'
    """
    seen_text = seen if isinstance(seen, str) and " " in seen else repr(seen)
    return printable(f"{name} must {rule}, got {seen_text}.{' ' + way_out if way_out else ''}")


def printable(text: str) -> str:
    r"""Return a text with what cannot be printed escaped.

    >>> print(printable("one\ntwo"))
    one\ntwo
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


_PACKAGE = str(Path(__file__).parent)
_STANDARD = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib")})
_INSTALLED = tuple({sysconfig.get_paths()[name] for name in ("purelib", "platlib")})
# a user's own model may be an installed package too; these are nobody's own
_LIBRARIES = frozenset(
    ("flwr", "imodels", "joblib", "numpy", "pandas", "ray", "scipy", "sklearn", "skops", "torch", "xgboost")
)


def cause(error: BaseException) -> str:
    """Return an exception in one line, with the file and line of the user's code that raised it, where there is one.

    The user's code is what is neither in this package nor in Python's or a well-known library. The line may hold
    private values: it is for the process's own log and, in simulation, for the record.

    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError as error:
    ...     cause(error).partition(" (")[0]
    'ZeroDivisionError: division by zero'
    """
    if isinstance(error, FedkdError) and error.told_cause:
        return error.told_cause
    words = " ".join(str(error).split())
    text = words if isinstance(error, FedkdError) else f"{type(error).__name__}: {words}".removesuffix(": ")
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({Path(error.filename).name}, line {error.lineno})"
    frames: list[traceback.FrameSummary] = []
    one: BaseException | None = error
    while one is not None and not frames:
        frames = [f for f in traceback.extract_tb(one.__traceback__, limit=-100) if is_users(f.filename)]
        one = one.__cause__
    if not frames:
        return text
    where = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}"
    return text if where in text else f"{text} ({where}, in {frames[-1].name})"


def place_of(function: Callable[..., Any]) -> str:
    """Return a function's name with its file and line, where it is a user's own.

    >>> import json
    >>> place_of(json.dumps)
    'dumps'
    """
    name = str(getattr(function, "__qualname__", type(function).__name__))
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or not is_users(code.co_filename):
        return name
    return f"{name} ({Path(code.co_filename).name}, line {code.co_firstlineno})"


def is_users(filename: str) -> bool:
    """Tell whether a file of code is neither this package's nor Python's or a well-known library's."""
    for folder in _INSTALLED:
        if filename.startswith(folder):
            package = Path(filename).relative_to(folder).parts[0]
            return package.removesuffix(".py") not in _LIBRARIES and not filename.startswith(_PACKAGE)
    return not filename.startswith(("<", _PACKAGE, *_STANDARD))


class FedkdError(Exception):
    """Base of this package's errors; ``code`` is all that a party may tell the server of it."""

    code: Code = Code.INTERNAL
    told_cause: str = ""  # what `cause` said in the process that raised it, where that was another

    def __init__(self, message: str, *, code: Code | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class ConfigError(FedkdError, ValueError):
    """A setting is unknown, of the wrong type, out of range, or impossible together with another one."""

    code = Code.WRONG_CONFIG


class DataError(FedkdError, ValueError):
    """Rows, columns, classes or a file are not what the schema or the algorithm needs."""

    code = Code.WRONG_DATA


class LimitError(FedkdError, RuntimeError):
    """A visit's work took more time, memory or processes than the party's owner allows, and was ended."""

    code = Code.LIMIT_EXCEEDED


class MissingExtraError(FedkdError, ImportError):
    """A feature needs a library of an optional extra that is not installed."""

    code = Code.MISSING_EXTRA


def import_extra(module: str, extra: str, *, what: str = "this model", instead: str = "") -> Any:
    """Return a library of an optional extra, which ``what`` needs; ``instead`` tells another way than to install it.

    Raises `MissingExtraError`.
    """
    try:
        return import_module(module)
    except ImportError as error:
        way_out = f'Run: pip install "fedkd-flwr[{extra}]"{instead}'
        raise MissingExtraError(explain(module, f"be installed for {what}", str(error), way_out)) from error


class ModelBytesError(FedkdError, ValueError):
    """Bytes that should hold a model hold none, or more than a model may."""


class PayloadError(FedkdError, ValueError):
    """A payload breaks its format; its sender is left out of the round and named.

    ``reason`` says in one word why, for the receiver's record.
    """

    code = Code.BAD_INSTRUCTION

    def __init__(self, message: str, *, reason: str = "bad-payload", code: Code | None = None) -> None:
        super().__init__(message, code=code)
        self.reason = reason


class RefusalError(FedkdError, PermissionError):
    """The party's own rules forbid what it was asked for."""

    code = Code.NOT_ALLOWED


class TooFewPartiesError(FedkdError, RuntimeError):
    """Fewer parties gave a valid answer than the run needs; the message names each of them and why."""


class WaitingError(BaseException):
    """A run waits for answers that come by file; no `Exception`, because nothing has failed."""
