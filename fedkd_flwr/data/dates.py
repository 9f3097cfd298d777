"""Dates, times and durations as texts write them, in days or hours."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALONE", "DATES", "days_of_date", "days_of_duration", "days_of_texts", "in_words", "text_of_days"]

DATES = {
    "iso": "dates (2021-03-12) as days since 1970-01-01",
    "day-first": "dates (12.03.2021) as days since 1970-01-01",
    "month-first": "dates (03/12/2021) as days since 1970-01-01",
    "named": "dates (12 March 2021) as days since 1970-01-01",
    "month": "months (2021-03, 03/2021) as days since 1970-01-01",
    "compact": "dates (20210312) as days since 1970-01-01",
    "time": "times (13:45) as hours since midnight",
    "duration": "durations (1 day 02:30) as days",
}
"""The ways to read dates and times, and what becomes of them; a time of day after a date adds a part of a day."""

ALONE = ("time", "duration")  # of these two no other way is read beside them


def in_words(dates: str) -> str:
    """Return what a rule for dates reads, and what becomes of it, in words.

    >>> in_words("iso+day-first")
    'dates (2021-03-12) or dates (12.03.2021) as days since 1970-01-01'
    """
    *others, last = (DATES[way] for way in dates.split("+"))
    return " or ".join([*(one.partition(" as ")[0] for one in others), last])


_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d+)?))?\s*(?P<half>[AaPp][Mm])?"
_TIME = rf"(?:[T ,]\s*{_CLOCK}\s*(?P<zone>Z|[+-]\d{{2}}(?::?\d{{2}})?)?)?"
_PATTERNS = {
    "iso": re.compile(rf"(?P<year>\d{{4}})([-/.])(?P<month>\d{{1,2}})\2(?P<day>\d{{1,2}}){_TIME}"),
    "day-first": re.compile(rf"(?P<day>\d{{1,2}})([-/.])(?P<month>\d{{1,2}})\2(?P<year>\d{{4}}|\d{{2}}){_TIME}"),
    "month-first": re.compile(rf"(?P<month>\d{{1,2}})([-/.])(?P<day>\d{{1,2}})\2(?P<year>\d{{4}}|\d{{2}}){_TIME}"),
    "named": re.compile(
        rf"(?:[^\W\d]+\.?,\s*)?(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[-/. ]*(?:de )?)?(?P<name>[^\W\d]{{3,}})\.?[-/ ]*"
        rf"(?(day)|(?P<second_day>\d{{1,2}})(?:st|nd|rd|th)?,?\s)(?:[, ]*|\sde\s)(?P<year>\d{{4}}|\d{{2}}){_TIME}"
    ),
    "month": re.compile(
        r"(?:(?P<year>\d{4})[-/](?P<month>\d{1,2})|"
        rf"(?:(?P<second_month>\d{{1,2}})[-/]|(?P<name>[^\W\d]{{3,}})\.?[-/ ])(?P<second_year>\d{{4}})){_TIME}"
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
_WRITTEN = {
    "iso": "%Y-%m-%d",
    "day-first": "%d.%m.%Y",
    "month-first": "%m/%d/%Y",
    "named": "%d %B %Y",
    "month": "%Y-%m",
    "compact": "%Y%m%d",
}
_EPOCH = date(1970, 1, 1).toordinal()
_DURATION = re.compile(
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


def days_of_texts(texts: list[str], way: str) -> NDArray[np.float64]:
    """Return texts as days since 1970-01-01 in one of the ways of `DATES` (durations: days, times: hours), else NaN."""
    if way == "duration":
        return np.array([days_of_duration(text) for text in texts])
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
    digits = found.get("year") or found.get("second_year") or "1970"
    year = float(digits)
    if len(digits) == 2:
        year += 1900 if year >= 69 else 2000
    hour, half = float(found["hour"] or 0), (found.get("half") or "").lower()
    if half:
        hour = hour % 12 + 12 * (half == "pm") if 1 <= hour <= 12 else -1.0
    zone = found.get("zone") or "Z"
    minutes = zone[3:].removeprefix(":") or "0"  # PostgreSQL writes hours only: +01
    east = 0.0 if zone == "Z" else float(zone[:3]) + float(zone[0] + minutes) / 60
    month = float(found.get("month") or found.get("second_month") or 1)
    day = float(found.get("day") or found.get("second_day") or 1)
    if name := found.get("name"):
        month = _MONTHS.get(name.casefold(), 0)
    return year, month, day, hour, float(found["minute"] or 0), float(found["second"] or 0), east


def text_of_days(days: float, way: str) -> str:
    """Return the text that a way of `DATES` reads as these days: to a day, or of times and durations to a minute.

    >>> [text_of_days(18333.5, way) for way in ("iso", "day-first", "month")], text_of_days(13.75, "time")
    (['2020-03-12', '12.03.2020', '2020-03'], '13:45')
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


def days_of_duration(text: str) -> float:
    """Return a duration in days, NaN if the text is none.

    A month is a twelfth of a year, and a year 365.25 days.

    >>> [days_of_duration(text) for text in ("1 days 12:00:00", "36:00", "P1DT12H", "1 d 12 h", "2 weeks", "12 mg")]
    [1.5, 1.5, 1.5, 1.5, 14.0, nan]
    """
    if found := _DURATION.fullmatch(text):
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
