"""The pause that a response asks for: Retry-After, and RateLimit as the public hub sends it."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

DEFAULT_WAIT_S = 30.0
_LONGEST_WAIT_S = 3600.0
_SECONDS = re.compile(r"\d+(\.\d+)?")
_SECONDS_TO_RESET = re.compile(r";\s*t=(\d+)")


def asked_wait_s(status: int, headers: Mapping[str, str], now: float) -> float | None:
    """Return the pause in seconds that a response asks for; None if it asks for none."""
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        stated_s = stated_wait_s(headers, now)
        return DEFAULT_WAIT_S if stated_s is None else stated_s
    return stated_wait_s(headers, now) if status == HTTPStatus.SERVICE_UNAVAILABLE else None


def stated_wait_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the pause in seconds that the headers ask for; None if they ask for none. `now` in seconds since 1970."""
    text = headers.get("Retry-After") or ""
    if _SECONDS.fullmatch(text.strip()):
        return min(float(text), _LONGEST_WAIT_S)
    if found := _SECONDS_TO_RESET.search(headers.get("RateLimit") or ""):  # the format of the public hub
        return min(float(found.group(1)), _LONGEST_WAIT_S)
    at = seconds_of(text)
    if at is None:
        return None
    server_now = seconds_of(headers.get("Date") or "")  # the server computed its date by this clock
    return min(max(at - (now if server_now is None else server_now), 0.0), _LONGEST_WAIT_S)


def wait_message(wait_s: float, now: float) -> str:
    """Return how long the pause is and when it ends; pauses longer than an hour are cut to an hour."""
    until = datetime.fromtimestamp(now + wait_s, UTC).strftime("%H:%M:%SZ")
    return f"{'at least ' if wait_s == _LONGEST_WAIT_S else ''}{wait_s:.0f} s (until {until})"


def seconds_of(text: str) -> float | None:
    """Return the date of a header in seconds since 1970; None if it is not a date."""
    try:
        date = parsedate_to_datetime(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
