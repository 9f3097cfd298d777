"""Dates, times and durations as texts write them, in days or hours."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALONE", "DATES", "days_of_date", "days_of_texts", "text_of_days"]

DATES = {
    "iso": "dates (2021-03-12) as days since 1970-01-01",
    "day-first": "dates (12.03.2021) as days since 1970-01-01",
    "month-first": "dates (03/12/2021) as days since 1970-01-01",
    "named": "dates (12 March 2021) as days since 1970-01-01",
    "compact": "dates (20210312) as days since 1970-01-01",
    "time": "times (13:45) as hours since midnight",
    "duration": "durations (1 day 02:30) as days",
}
"""The ways to read a column of dates or times, and what becomes of them; a time of day adds a part of a day."""

ALONE = ("time", "duration")
"""What is no date: a time of day in hours, and a duration in days."""

_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d+)?))?\s*(?P<half>[AaPp][Mm])?"
_TIME = rf"(?:[T ,]\s*{_CLOCK}\s*(?P<zone>Z|[+-]\d{{2}}(?::?\d{{2}})?)?)?"
_PATTERNS = {
    "iso": re.compile(rf"(?P<year>\d{{4}})([-/.])(?P<month>\d{{1,2}})(?:\2(?P<day>\d{{1,2}}){_TIME})?"),
    "day-first": re.compile(rf"(?P<day>\d{{1,2}})([-/.])(?P<month>\d{{1,2}})\2(?P<year>\d{{4}}|\d{{2}}){_TIME}"),
    "month-first": re.compile(rf"(?P<month>\d{{1,2}})([-/.])(?P<day>\d{{1,2}})\2(?P<year>\d{{4}}|\d{{2}}){_TIME}"),
    "named": re.compile(
        rf"(?:[^\W\d]+\.?,\s*)?(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[-/. ]*(?:de )?)?(?P<name>[^\W\d]{{3,}})\.?[-/ ]*"
        rf"(?(day)|(?P<second_day>\d{{1,2}})(?:st|nd|rd|th)?,?\s)(?:[, ]*|\sde\s)(?P<year>\d{{4}}|\d{{2}}){_TIME}"
    ),
    "compact": re.compile(
        r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})"
        r"(?:\.0|[T ]?(?P<hour>\d{2}):?(?P<minute>\d{2}):?(?P<second>\d{2}(?:\.\d+)?)?(?P<zone>Z)?)?"
    ),
    "time": re.compile(_CLOCK),
}
_MONTHS = {
    name: number
    for number, names in enumerate(
        (  # English, German, French, Spanish, Italian, Dutch
            "jan january januar jän jänner janvier janv ene enero gen gennaio januari",
            "feb february februar feber fév févr février febrero febbraio februari",
            "mar march märz mär mrz mars marzo maart mrt",
            "apr april avr avril abr abril aprile",
            "may mai mayo mag maggio mei",
            "jun june juni juin junio giu giugno",
            "jul july juli juil juillet julio lug luglio",
            "aug august août aout ago agosto augustus",
            "sep sept september septembre septiembre set settembre",
            "oct october okt oktober octobre octubre ott ottobre",
            "nov november novembre noviembre",
            "dec december dez dezember déc décembre dic diciembre dicembre",
        ),
        1,
    )
    for name in names.split()
}
_WRITTEN = {"iso": "%Y-%m-%d", "day-first": "%d.%m.%Y", "month-first": "%m/%d/%Y", "named": "%d %B %Y"}
_WRITTEN["compact"] = "%Y%m%d"
_EPOCH = date(1970, 1, 1).toordinal()
_DURATION = re.compile(
    r"(?P<sign>-)?(?:(?P<days>\d+) ?(?:d|days?|Tage?)[, ] ?)?(?P<plus>\+)?(?P<hours>\d+):(?P<minutes>[0-5]\d)"
    r"(?::(?P<seconds>[0-5]\d(?:\.\d+)?))?"
)


def days_of_texts(texts: list[str], way: str) -> NDArray[np.float64]:
    """Return texts as days since 1970-01-01 in one of the ways of `DATES` (durations: days, times: hours), else NaN."""
    if way == "duration":
        return np.array([_days_of_duration(text) for text in texts])
    pattern = _PATTERNS[way]
    found = [pattern.fullmatch(normalize("NFC", text)) for text in texts]
    parts = np.array([(-1.0,) * 7 if one is None else _parts(one.groupdict()) for one in found])
    year, month, day, hour, minute, second, zone = parts.T
    hours = hour + minute / 60 + second / 3600
    good = (hour >= 0) & (hour <= 24) & (hours <= 24) & (minute < 60) & (second < 61)
    if way == "time":
        return np.where(good, hours, np.nan)
    good &= (month >= 1) & (month <= 12)
    first = ((np.where(good, year, 1970) - 1970) * 12 + np.where(good, month, 1) - 1).astype("datetime64[M]")
    days = first.astype("datetime64[D]").astype(np.float64) + day - 1
    good &= (day >= 1) & (days < (first + 1).astype("datetime64[D]").astype(np.float64))
    return np.where(good, days + (hours - zone) / 24, np.nan)


def _parts(found: dict[str, str | None]) -> tuple[float, ...]:
    """Return year, month, day, hour, minute, second and hours east of UTC of a matched date or time."""
    digits = found.get("year") or "1970"
    year = float(digits)
    if len(digits) == 2:
        year += 1900 if year >= 69 else 2000
    hour, half = float(found.get("hour") or 0), (found.get("half") or "").lower()
    if half:
        hour = hour % 12 + 12 * (half == "pm") if 1 <= hour <= 12 else -1.0
    zone = found.get("zone") or "Z"
    minutes = zone[3:].removeprefix(":") or "0"  # PostgreSQL writes hours only: +01
    east = 0.0 if zone == "Z" else float(zone[:3]) + float(zone[0] + minutes) / 60
    month = float(found.get("month") or 1)
    day = float(found.get("day") or found.get("second_day") or 1)
    if name := found.get("name"):
        month = _MONTHS.get(name.casefold(), 0)
    return year, month, day, hour, float(found.get("minute") or 0), float(found.get("second") or 0), east


def text_of_days(days: float, way: str) -> str:
    """Return the text that a way of `DATES` reads as these days: to a day, or of times and durations to a minute.

    >>> [text_of_days(18333.5, way) for way in ("iso", "day-first")], text_of_days(13.75, "time")
    (['2020-03-12', '12.03.2020'], '13:45')
    """
    if way in ALONE:
        minutes = round(abs(days) * (60 if way == "time" else 1440))
        clock = f"{minutes // 60 % (25 if way == 'time' else 24):02}:{minutes % 60:02}"
        return clock if way == "time" else f"{'-' * (days < 0)}{minutes // 1440} days {clock}"
    return date.fromordinal(_EPOCH + math.floor(days)).strftime(_WRITTEN[way])


def days_of_date(value: date) -> float:
    """Return days since 1970-01-01 of a date that a file holds as a date."""
    if not isinstance(value, datetime):
        return float(value.toordinal() - _EPOCH)
    value = value.astimezone(UTC) if value.tzinfo else value
    seconds = value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    return value.toordinal() - _EPOCH + seconds / 86_400


def _days_of_duration(text: str) -> float:
    if not (found := _DURATION.fullmatch(text)):
        return math.nan
    days, hours, minutes, seconds = (float(found[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    clock = (hours + minutes / 60 + seconds / 3600) / 24
    if found["plus"]:  # pandas writes minus two hours as -1 days +22:00:00
        return clock - days if found["sign"] else clock + days
    return -(days + clock) if found["sign"] else days + clock
