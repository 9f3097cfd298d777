"""The package's errors and the form of their messages.

Every message has one form: *name, rule, value seen, way out*. The server learns of a party's error its ``code`` from a
fixed list. The text stays in the process that raised it, because it may hold private values.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = [
    "Code",
    "ConfigError",
    "DataError",
    "FedkdError",
    "LimitError",
    "MissingExtraError",
    "ModelBytesError",
    "Note",
    "PayloadError",
    "RefusalError",
    "TooFewPartiesError",
    "explain",
]


class Code(StrEnum):
    """What a party may tell the server about a failure: one of these words and no text."""

    BAD_INSTRUCTION = "bad-instruction"
    BUDGET_EXCEEDED = "budget-exceeded"
    BUNDLE_NOT_APPROVED = "bundle-not-approved"
    CLASS_OUTSIDE_SCHEMA = "class-outside-schema"
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
    SUBSET_FIXED = "subset-fixed"
    SUBSET_LOST = "subset-lost"
    WITHHELD = "withheld"
    WRONG_CONFIG = "wrong-config"
    WRONG_DATA = "wrong-data"


class Note(StrEnum):
    """What a party may tell the server beside an answer: these words and no text."""

    FEWER_SUBSETS = "fewer-subsets"
    FIXED_ANSWER = "fixed-answer"
    ONE_CLASS = "one-class"
    STATE_LOST = "state-lost"
    STATE_OLDER = "state-older"


def explain(name: str, rule: str, seen: object, way_out: str = "") -> str:
    """Return one error message: *name, rule, value seen, way out*.

    >>> explain("quorum", "be within [0, 1]", 1.5, "Use 0.9 for nine of ten parties.")
    'quorum must be within [0, 1], got 1.5. Use 0.9 for nine of ten parties.'
    """
    seen_text = seen if isinstance(seen, str) and " " in seen else repr(seen)
    return f"{name} must {rule}, got {seen_text}.{' ' + way_out if way_out else ''}"


class FedkdError(Exception):
    """Base of this package's errors; ``code`` is all that a party may tell the server of it."""

    code: Code = Code.INTERNAL

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
