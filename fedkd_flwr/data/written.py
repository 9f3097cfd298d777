"""Numbers that a cell writes in words: durations, and ranges and bounds such as ``30-39``, ``10+`` or ``< 1 year``."""

from __future__ import annotations

import math
import re

__all__ = ["days_of_duration", "ends_of_range"]

_CLOCK = re.compile(
    r"(?P<sign>-)?(?:(?P<days>\d+) ?(?:d|days?|Tage?)[, ] ?)?(?P<plus>\+)?(?P<hours>\d+):(?P<minutes>[0-5]\d)"
    r"(?::(?P<seconds>[0-5]\d(?:\.\d+)?))?"
)
_ISO = re.compile(
    r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?=\d)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?(?<=[WDHMS])"
)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([^\W\d_]+)\.?(?:,? and |, |\s*)")
_UNITS = {  # in days
    word: days
    for words, days in (
        ("s sec secs second seconds sek sekunde sekunden", 1 / 86_400),
        ("m min mins minute minutes minuten", 1 / 1440),
        ("h hr hrs hour hours std stunde stunden", 1 / 24),
        ("d day days tag tage", 1.0),
        ("w wk wks week weeks woche wochen", 7.0),
        ("mo month months monat monate", 365.25 / 12),
        ("y yr yrs year years jahr jahre", 365.25),
    )
    for word in words.split()
}

_END = r"[+\-\u2212]?(?!0\d)(?:\d|[.,]\d)[\d.,']*"  # 030-12 is a code
_RANGE = re.compile(
    rf"(?P<bracket>[\[(]\s*)?(?P<low>{_END})\s*(?(bracket),|(?:-|\u2013|\u2014|to|bis|\.\.))\s*"
    rf"(?P<high>{_END}(?(bracket)|(?:\s*[^\d\s\-].*)?))(?(bracket)\s*[\])])"
)
_BELOW = re.compile(
    r"(?:<=?|≤|under |below |less than |up to |unter |bis )\s*(?P<end>[+\-\u2212]?[\d.,].*)", re.IGNORECASE
)
_ABOVE = re.compile(
    r"(?:>=?|≥|over |above |more than |at least |über |ab )\s*(?P<end>[+\-\u2212]?[\d.,].*)", re.IGNORECASE
)
_OR_MORE = re.compile(rf"(?P<end>{_END})\s*(?:\+|and over|and older|or more|or older|und mehr|und älter)(?P<unit>.*)")


def days_of_duration(text: str) -> float:
    """Return a duration in days, NaN if the text is none.

    A month is a twelfth of a year, and a year 365.25 days.

    >>> [days_of_duration(text) for text in ("1 days 12:00:00", "36:00", "P1DT12H", "1 d 12 h", "2 weeks", "12 mg")]
    [1.5, 1.5, 1.5, 1.5, 14.0, nan]
    """
    if found := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (float(found[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
        clock = (hours + minutes / 60 + seconds / 3600) / 24
        if found["plus"]:  # pandas writes minus two hours as -1 days +22:00:00
            return clock - days if found["sign"] else clock + days
        return -(days + clock) if found["sign"] else days + clock
    if found := _ISO.fullmatch(text):
        return sum(float(number) * _UNITS[unit] for unit, number in found.groupdict().items() if number)
    parts = _PART.findall(text)
    units = [unit.casefold() for _, unit in parts]
    if not parts or _PART.sub("", text) or not all(unit in _UNITS for unit in units):
        return math.nan
    return sum(float(number) * _UNITS[unit] for (number, _), unit in zip(parts, units, strict=True))


def ends_of_range(text: str) -> tuple[str, str] | None:
    """Return the texts of the two ends of a range or bound, None if the text is neither.

    What has no lower end begins at 0 unless it is negative, and what has no upper end stays at its bound.

    >>> [ends_of_range(text) for text in ("30-39 kg", "[30, 40)", "<0.5", "10+ years", "30")]
    [('30', '39 kg'), ('30', '40'), ('0', '0.5'), ('10 years', '10 years'), None]
    """
    if found := _RANGE.fullmatch(text):
        return found["low"], found["high"].strip()
    if found := _BELOW.fullmatch(text):
        return ("0" if found["end"][0] not in "-\u2212" else found["end"]), found["end"]
    if found := _ABOVE.fullmatch(text):
        return found["end"], found["end"]
    if found := _OR_MORE.fullmatch(text):
        return (f"{found['end']}{found['unit']}",) * 2
    return None
