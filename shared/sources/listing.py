"""How long a listing may become, and take."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from shared.errors import TooManyFiles, Unreachable

T = TypeVar("T")
MOST_ENTRIES = 100_000  # several times what a manifest can hold
MOST_PAGES = 2_000  # a page has a thousand entries or more
LONGEST_LIST_S = 900.0  # of a source that a stranger may have chosen; as many objects as may be take some minutes


def bounded(entries: Iterable[T], what: str, most: int = MOST_ENTRIES) -> Iterator[T]:
    """Yield the entries as they come; TooManyFiles where they do not end: nothing beyond is asked for or kept."""
    for count, entry in enumerate(entries, 1):
        if count > most:
            raise TooManyFiles(
                f"{what} has more than {most} entries, which is more than can be kept; choose fewer files"
            )
        yield entry


def in_time(parts: Iterable[T], until_s: float, what: str, clock: Callable[[], float] = time.monotonic) -> Iterator[T]:
    """Yield the parts as they come; Unreachable where one comes after `until_s` on the clock."""
    for part in parts:
        if clock() >= until_s:
            raise Unreachable(f"the list of {what} does not come to an end; choose a longer prefix")
        yield part


def bounded_pages(pages: Iterable[T], what: str) -> Iterator[T]:
    """Yield the pages of a list as they come; Unreachable where they are too many, or come for too long.

    A page without entries, of which some stores make many, costs a request as well.
    """
    for count, page in enumerate(in_time(pages, time.monotonic() + LONGEST_LIST_S, what)):
        if count >= MOST_PAGES:
            raise Unreachable(f"the list of {what} has more than {MOST_PAGES} pages; choose a longer prefix")
        yield page
