"""Times: RFC 3339, durations, days, epochs, ages."""

import random
import time
from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lspipe import when
from lspipe.when import DAY, HOUR, MINUTE, SECOND

NOW = when.parse_rfc3339("2026-07-21T09:12:00.123456Z") or 0
times = st.integers(when.FIRST, when.LAST)


def us(text: str) -> int:
    found = when.parse_rfc3339(text)
    assert found is not None, text
    return found


def zone(name: str) -> tzinfo:
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except zoneinfo.ZoneInfoNotFoundError:
        pytest.skip(f"not run: the time zone {name} is not installed")


# Text and back


@given(times)
def test_a_time_survives_its_text(t: int) -> None:
    text = when.rfc3339(t)
    assert len(text) == len("2026-07-21T09:12:00.000000Z")
    assert when.parse_rfc3339(text) == t
    assert datetime.fromisoformat(text) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=t)


@given(times, times)
def test_texts_sort_as_their_times(one: int, other: int) -> None:
    assert (when.rfc3339(one) < when.rfc3339(other)) == (one < other)


@pytest.mark.parametrize("t", [when.FIRST - 1, when.LAST + 1, 2**63, -(2**63)])
def test_a_time_without_a_text_is_refused(t: int) -> None:
    with pytest.raises(ValueError):
        when.rfc3339(t)


def test_rfc3339_examples() -> None:
    assert when.rfc3339(0) == "1970-01-01T00:00:00.000000Z"
    assert when.rfc3339(-1) == "1969-12-31T23:59:59.999999Z"
    assert when.rfc3339(1784625120000001) == "2026-07-21T09:12:00.000001Z"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-07-21T09:12:00Z", "2026-07-21T09:12:00.000000Z"),
        ("2026-07-21t09:12:00.5z", "2026-07-21T09:12:00.500000Z"),
        ("2026-07-21 09:12:00.1234567899Z", "2026-07-21T09:12:00.123456Z"),
        ("2026-07-21T09:12:00+02:00", "2026-07-21T07:12:00.000000Z"),
        ("2026-07-20T23:42:00-09:30", "2026-07-21T09:12:00.000000Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000000Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000000Z"),
    ],
)
def test_parse_examples(text: str, same: str) -> None:
    assert when.rfc3339(us(text)) == same


@pytest.mark.parametrize(
    "text",
    [
        "", "2026-07-21", "2026-07-21T09:12:00", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "0000-01-01T00:00:00Z",
        "2026-07-21T24:00:00Z", "2026-07-21T09:60:00Z", "2026-07-21T09:12:61Z", "2026-07-21T09:12:00+24:00",
        "2026-07-21T09:12:00+0200", "2026-07-21T09:12:00.Z", "٢٠٢٦-07-21T09:12:00Z", "2026-07-21T09:12:00Z\n",
        " 2026-07-21T09:12:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:60Z", None, 17, b"2026", ["x"],
    ],
)
def test_what_is_no_rfc3339_is_none(text: object) -> None:
    assert when.parse_rfc3339(text) is None


@given(st.one_of(st.text(max_size=40), st.text(alphabet="0123456789-:TZ.+ ", max_size=40)))
def test_nothing_but_value_error(text: str) -> None:
    when.parse_rfc3339(text)
    for function in (when.since, when.until):
        try:
            function(text, NOW, UTC)
        except ValueError as error:
            message = str(error)
            assert "\n" not in message and message.isascii() and len(message) < 500
    try:
        when.duration(text)
    except ValueError as error:
        assert "\n" not in str(error) and str(error).isascii()


# Lengths of time


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("10s", 10 * SECOND), ("500ms", SECOND // 2), ("24h", DAY), ("7d", 7 * DAY), ("2w", 14 * DAY),
        ("5m", 5 * MINUTE),
        ("1h30m", 90 * MINUTE), ("1.5h", 90 * MINUTE), ("0.1s", SECOND // 10), ("0s", 0), ("0.000001s", 1),
        ("1m1ms", MINUTE + 1000),
    ],
)
def test_durations(text: str, length: int) -> None:
    assert when.duration(text) == length


@pytest.mark.parametrize(
    "text", ["", "10", "s", "10 s", "-1s", "1e3s", "1y", "٣s", "1.s", "9" * 5000 + "s", "1h-", "10s\n"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a length of time") as caught:
        when.duration(text)
    assert len(str(caught.value)) < 150


# --since and --until


@pytest.mark.parametrize(
    ("text", "first", "end"),
    [
        ("24h", "2026-07-20T09:12:00.123456Z", "2026-07-20T09:12:00.123457Z"),
        ("now", "2026-07-21T09:12:00.123456Z", "2026-07-21T09:12:00.123457Z"),
        ("today", "2026-07-21T00:00:00Z", "2026-07-22T00:00:00Z"),
        (" Yesterday ", "2026-07-20T00:00:00Z", "2026-07-21T00:00:00Z"),
        ("2024-02-29", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"),
        ("2026-07-21T09:12:00Z", "2026-07-21T09:12:00Z", "2026-07-21T09:12:00.000001Z"),
        ("2026-07-21T09:12:00+02:00", "2026-07-21T07:12:00Z", "2026-07-21T07:12:00.000001Z"),
        ("2026-07-21 09:12", "2026-07-21T09:12:00Z", "2026-07-21T09:12:00.000001Z"),
        ("2026-07-21T09:12:03.25", "2026-07-21T09:12:03.25Z", "2026-07-21T09:12:03.250001Z"),
    ],
)
def test_both_ends_are_in(text: str, first: str, end: str) -> None:
    assert when.since(text, NOW, UTC) == us(first)
    assert when.until(text, NOW, UTC) == us(end)


@pytest.mark.parametrize(
    ("name", "day", "first", "end", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", 23),
        ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", 25),
        ("Europe/Berlin", "2026-07-21", "2026-07-20T22:00:00Z", "2026-07-21T22:00:00Z", 24),
        ("America/New_York", "2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", 25),
        # Where the clock is put forward at midnight, the day begins at one o'clock.
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z", 23),
        # Where it is put back at midnight, the day before has 25 hours.
        ("America/Sao_Paulo", "2018-02-17", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z", 25),
        ("Asia/Kathmandu", "2026-07-21", "2026-07-20T18:15:00Z", "2026-07-21T18:15:00Z", 24),
    ],
)
def test_a_day_is_the_whole_local_day(name: str, day: str, first: str, end: str, hours: int) -> None:
    tz = zone(name)
    assert when.since(day, NOW, tz) == us(first)
    assert when.until(day, NOW, tz) == us(end)
    assert us(end) - us(first) == hours * HOUR
    for inside in (us(first), us(end) - 1):
        assert when.since("today", inside, tz) == us(first)
        assert when.until("today", inside, tz) == us(end)
    assert when.since("yesterday", us(end), tz) == us(first)
    assert when.until("yesterday", us(end), tz) == us(end)


@given(st.dates(), st.sampled_from(["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia"]))
def test_days_follow_each_other_without_gap(day: object, name: str) -> None:
    tz = zone(name)
    text = str(day)
    try:
        end = when.until(text, NOW, tz)
    except ValueError:
        assert text in ("0001-01-01", "9999-12-31")
        return
    following = str(day + timedelta(days=1))  # type: ignore[operator]
    assert when.since(text, NOW, tz) <= end
    assert following in ("9999-12-31",) or when.since(following, NOW, tz) == end


def test_a_local_time_takes_the_zone() -> None:
    tz = zone("Europe/Berlin")
    assert when.since("2026-07-21 09:12", NOW, tz) == us("2026-07-21T07:12:00Z")
    assert when.since("2026-12-21 09:12", NOW, tz) == us("2026-12-21T08:12:00Z")


@pytest.mark.parametrize(("setting", "first"), [("UTC0", "2026-07-21T00:00:00Z"), ("XXX-5:30", "2026-07-20T18:30:00Z")])
def test_without_a_zone_it_is_the_systems(setting: str, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", setting)
    time.tzset()
    try:
        assert when.since("today", NOW) == when.since("2026-07-21", NOW) == us(first)
        assert when.until("today", NOW) == us(first) + DAY
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "2026-02-30", "2026-7-1", "10", "-1d", "2026-07-21T25:00", "x\ny", "é" * 99]
)
def test_what_is_no_time_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="^not a time: '[ -~]*' \\(say [ -~]*\\)$"):
        when.since(text, NOW, UTC)


def test_a_length_of_time_longer_than_time_is_refused() -> None:
    with pytest.raises(ValueError, match="not a time"):
        when.since("999999999999w", NOW, UTC)


# Epochs


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, (None, "missing")), (0, (None, "zero")), (-1, (None, "negative")), ("0", (None, "zero")),
        ("", (None, "impossible")), ("x", (None, "impossible")), (b"1", (None, "impossible")),
        (float("nan"), (None, "impossible")), (float("inf"), (None, "impossible")),
        (True, (None, "impossible")),
        (2**63 - 1, (None, "impossible")), ("9" * 20, (None, "impossible")),
        ("9" * 30, (None, "impossible")),
        (-(2**63), (None, "negative")), ("٣", (None, "impossible")),
    ],
)
@pytest.mark.parametrize(
    "function", [when.from_webkit, when.from_unix_us, when.from_unix_ms, when.from_unix_s, when.from_mac]
)
def test_what_is_no_time_says_why(function: object, value: object, expected: object) -> None:
    assert function(value, NOW) == expected  # type: ignore[operator]


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (when.from_webkit, 13429098720000001, "2026-07-21T09:12:00.000001Z"),
        (when.from_webkit, "13429098720000001", "2026-07-21T09:12:00.000001Z"),
        (when.from_unix_us, 1784625120000001, "2026-07-21T09:12:00.000001Z"),
        (when.from_unix_ms, 1784625120001, "2026-07-21T09:12:00.001000Z"),
        (when.from_unix_s, 1784625120, "2026-07-21T09:12:00.000000Z"),
        (when.from_unix_s, 1784625120.5, "2026-07-21T09:12:00.500000Z"),
        (when.from_mac, 806317920.25, "2026-07-21T09:12:00.250000Z"),
        (when.from_mac, 806317920, "2026-07-21T09:12:00.000000Z"),
    ],
)
def test_epochs(function: object, value: object, text: str) -> None:
    assert function(value, NOW) == (us(text), None)  # type: ignore[operator]


def test_before_the_web_and_after_tomorrow() -> None:
    assert when.from_webkit(11_644_473_600_000_000, NOW) == (None, "impossible")  # 1970 itself
    assert when.from_webkit(1, NOW) == (None, "impossible")
    assert when.from_unix_us(NOW + DAY, NOW) == (NOW + DAY, None)
    assert when.from_unix_us(NOW + DAY + 1, NOW) == (None, "future")


def test_no_microsecond_is_lost() -> None:
    draw = random.Random(1)
    for _ in range(10_000):
        t = draw.randrange(1, NOW)
        assert when.from_webkit(t + 11_644_473_600_000_000, NOW) == (t, None)


@given(st.integers(1, 10**15))
def test_a_double_gives_the_microsecond_nearest_to_it(t: int) -> None:
    """Up to 2032 a double of seconds since 2001 tells all microseconds apart."""
    found, quality = when.from_mac(t / 1e6, 2**60)
    assert (found, quality) == (t + 978_307_200_000_000, None)


# Ages


@pytest.mark.parametrize(
    ("past", "text"),
    [
        (0, "0s"), (-DAY, "0s"), (59 * SECOND, "59s"), (MINUTE, "1m"), (HOUR - 1, "59m"), (HOUR, "1h"),
        (DAY - 1, "23h"),
        (DAY, "1d"), (31 * DAY - 1, "30d"), (31 * DAY, "1mo"), (364 * DAY, "11mo"), (365 * DAY, "1y"),
        (800 * DAY, "2y"),
    ],
)
def test_ages(past: int, text: str) -> None:
    assert when.age(NOW - past, NOW) == text


def test_hours() -> None:
    assert when.hours_between(NOW - HOUR, NOW) == 1
    assert when.hours_between(NOW - HOUR + 1, NOW) == 0
    assert when.hours_between(NOW + 5 * HOUR, NOW) == 0
