"""Times: RFC 3339, durations, the days and instants of `--since`, and the epochs of browsers (pure).

A time is an integer, microseconds since 1970-01-01 UTC. Nothing goes through a float: a double cannot hold the
microseconds of a Chromium time. Days are those of the local time zone, or of the `tz` that is given.
"""

import re
from datetime import UTC, date, datetime, timedelta, tzinfo

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_TICK = timedelta(microseconds=1)
_WEBKIT = 11_644_473_600 * SECOND  # From 1601-01-01 to 1970-01-01.
_MAC = 978_307_200 * SECOND  # From 1970-01-01 to 2001-01-01.

#: The first and the last time that has a text.
FIRST = (datetime.min - _EPOCH) // _TICK
LAST = (datetime.max - _EPOCH) // _TICK

_UNITS = {"ms": 1000, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_AMOUNT = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?(ms|[smhdw])")
_DURATION = re.compile(f"(?:{_AMOUNT.pattern})+")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_RFC3339 = re.compile(
    _DATE.pattern + r"[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?(?:([Zz])|([+-])([0-9]{2}):([0-9]{2}))"
)
_LOCAL = re.compile(_DATE.pattern + r"[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?")


def rfc3339(us: int) -> str:
    """A time as text, always UTC and always six decimals: `2026-07-21T09:12:00.000000Z`.

    Texts of this form sort as the times do. Raises ValueError before the year 1 and after the year 9999.
    """
    try:
        return (_EPOCH + timedelta(microseconds=us)).isoformat(timespec="microseconds") + "Z"
    except OverflowError:
        raise ValueError(f"no such time: {us}") from None


def parse_rfc3339(text: object) -> int | None:
    """The time that an RFC 3339 text with its offset names; None for anything else.

    Digits beyond the sixth decimal are dropped; the second 60 of a leap second is the first of the next minute.
    """
    found = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    year, month, day, hour, minute, second, decimals, _zulu, sign, hours, minutes = found.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    if int(hour) > 23 or int(minute) > 59 or int(second) > 60:
        return None
    us = days * DAY + int(hour) * HOUR + int(minute) * MINUTE + int(second) * SECOND + _micros(decimals)
    if sign:
        if int(hours) > 23 or int(minutes) > 59:
            return None
        offset = int(hours) * HOUR + int(minutes) * MINUTE
        us += -offset if sign == "+" else offset
    return us if FIRST <= us <= LAST else None


def _micros(decimals: str | None) -> int:
    return int((decimals or "0")[:6].ljust(6, "0"))


def duration(text: str) -> int:
    """The length of `10s`, `500ms`, `24h`, `7d`, `2w`, `1.5h` or `1h30m`. Raises ValueError for anything else."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"not a length of time: '{_shown(text)}' (say 10s, 24h, 7d or 2w)")
    total = 0
    for whole, decimals, unit in _AMOUNT.findall(text):
        total += int(whole) * _UNITS[unit] + _micros(decimals) * _UNITS[unit] // SECOND
    return total


def since(text: str, now: int, tz: tzinfo | None = None) -> int:
    """The first microsecond that `--since TEXT` lets in.

    TEXT is a length of time before `now`, `now`, `today`, `yesterday`, a date (its whole day), a date with a
    local time, or RFC 3339. Raises ValueError with one line that says so.
    """
    return _bounds(text, now, tz)[0]


def until(text: str, now: int, tz: tzinfo | None = None) -> int:
    """The first microsecond that `--until TEXT` leaves out: the one after a day's last, or after an instant."""
    return _bounds(text, now, tz)[1]


def reversed_range(since: int | None, until: int | None) -> bool:
    """Whether nothing can be between the two: the first that is in, and the first that is out."""
    return since is not None and until is not None and until <= since


def _bounds(text: str, now: int, tz: tzinfo | None) -> tuple[int, int]:
    """The first microsecond of what the text names, and the first one after it."""
    wanted = text.strip()
    word = wanted.lower()
    try:
        if word == "now":
            return now, now + 1
        if word in ("today", "yesterday"):
            day = _local_day(now, tz) - timedelta(days=word == "yesterday")
            return _day_start(day, tz), _day_start(day + timedelta(days=1), tz)
        if _DURATION.fullmatch(wanted):
            start = now - duration(wanted)
            if start >= FIRST:
                return start, start + 1
        if found := _DATE.fullmatch(wanted):
            day = date(*map(int, found.groups()))
            return _day_start(day, tz), _day_start(day + timedelta(days=1), tz)
        instant = parse_rfc3339(wanted)
        if instant is None and (found := _LOCAL.fullmatch(wanted)):
            *numbers, decimals = found.groups("0")
            year, month, dom, hour, minute, second = map(int, numbers)
            instant = _from_local(datetime(year, month, dom, hour, minute, second, _micros(decimals)), tz)
        if instant is not None:
            return instant, instant + 1
    except (ValueError, OverflowError, OSError):
        pass  # No such day, or none that the time zone reaches.
    raise ValueError(f"not a time: '{_shown(text)}' (say 24h, 7d, today, yesterday, 2026-07-21 or RFC 3339)")


def _shown(text: str) -> str:
    return ascii(text[:40])[1:-1] + ("..." if len(text) > 40 else "")


def _local_day(now: int, tz: tzinfo | None) -> date:
    return (_EPOCH_UTC + timedelta(microseconds=now)).astimezone(tz).date()


def _day_start(day: date, tz: tzinfo | None) -> int:
    """The first instant of a local day; where midnight is skipped, the instant at which the clock skips it."""
    return _from_local(datetime(day.year, day.month, day.day), tz)


def _from_local(local: datetime, tz: tzinfo | None) -> int:
    # Without a zone `astimezone` takes the system's. fold=0: of two such times the first, and in a gap the time
    # counted from before it.
    aware = local.astimezone(UTC) if tz is None else local.replace(tzinfo=tz).astimezone(UTC)
    return (aware - _EPOCH_UTC) // _TICK


Checked = tuple[int | None, str | None]
"""A time, or None and why: "missing", "zero", "negative", "impossible" or "future" (a day after now and more)."""


def from_webkit(value: object, now: int) -> Checked:
    """The time of a Chromium value: microseconds since 1601-01-01 UTC, an integer or its digits."""
    return _checked(value, now, 1, -_WEBKIT)


def from_unix_us(value: object, now: int) -> Checked:
    """The time of a Firefox value: microseconds since 1970."""
    return _checked(value, now, 1, 0)


def from_unix_ms(value: object, now: int) -> Checked:
    """The time of milliseconds since 1970."""
    return _checked(value, now, 1000, 0)


def from_unix_s(value: object, now: int) -> Checked:
    """The time of seconds since 1970, as in files and the journals of Epiphany."""
    return _checked(value, now, SECOND, 0)


def from_mac(value: object, now: int) -> Checked:
    """The time of a Safari value: seconds since 2001-01-01 UTC, a double, rounded to the microsecond."""
    return _checked(value, now, SECOND, _MAC)


def _checked(value: object, now: int, unit: int, epoch: int) -> Checked:
    if value is None:
        return None, "missing"
    us = _scaled(value, unit)
    if us is None:
        return None, "impossible"
    if us == 0:
        return None, "zero"
    if us < 0:
        return None, "negative"
    us += epoch
    if not 0 < us <= LAST:  # No browser was there before 1970.
        return None, "impossible"
    return (us, None) if us <= now + DAY else (None, "future")


def _scaled(value: object, unit: int) -> int | None:
    """A number of units in microseconds; a double is split first, so that no digit of it is lost. None: no number."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        whole = int(value)
    except (ValueError, OverflowError):  # Not a number, or without end.
        return None
    return whole * unit + round((value - whole) * unit)


def age(us: int, now: int) -> str:
    """How long ago, in one short word: `40s`, `5m`, `3h`, `2d`, `4mo`, `2y`; what lies ahead is `0s` ago."""
    past = max(0, now - us)
    for unit, name, limit in ((SECOND, "s", MINUTE), (MINUTE, "m", HOUR), (HOUR, "h", DAY), (DAY, "d", 31 * DAY)):
        if past < limit:
            return f"{past // unit}{name}"
    days = past // DAY
    return f"{days * 12 // 365}mo" if days < 365 else f"{days // 365}y"


def hours_between(us: int, now: int) -> int:
    """The whole hours from a time to now; 0 for a time ahead."""
    return max(0, now - us) // HOUR
