"""Bounds as text: what is at most so much is printed rounded up, what is at least so much rounded down."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = ["bound_text", "least_text"]


def bound_text(value: object, digits: int = 4) -> str:
    """Return an upper bound with so many figures, rounded up so that it remains a bound.

    Text is returned unchanged. Anything else that is not a finite number gives ``no bound``.

    >>> bound_text(8.0), bound_text(24.3214), bound_text(1e-05), bound_text(None)
    ('8', '24.33', '1e-05', 'no bound')
    """
    return _text(value, digits, ROUND_CEILING)


def least_text(value: object, digits: int = 4) -> str:
    """Return a lower bound with so many figures, rounded down so that it remains a bound; else as `bound_text`.

    >>> least_text(8.0), least_text(24.3279), least_text(0.00099999)
    ('8', '24.32', '0.0009999')
    """
    return _text(value, digits, ROUND_FLOOR)


def _text(value: object, digits: int, rounding: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return value if isinstance(value, str) else "no bound"  # JSON has no infinity: it is read back as null
    # From the shortest text of the float: 0.1 is 0.1, not the 0.1000000000000000055 that it stands for.
    rounded = Context(prec=digits, rounding=rounding).create_decimal(Decimal(repr(float(value))))
    return f"{float(rounded):.{digits}g}"
