"""Limits on the length and the duration of a listing."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from shared.errors import TooManyFiles, Unreachable

T = TypeVar("T")
MAX_ENTRIES = 100_000  # several times what a manifest can hold
MAX_CHARACTERS = 16 * 2**20  # of all names: several times what a manifest can hold
MAX_PAGES = 2_000  # a page has a thousand entries or more
LONGEST_LIST_S = 900.0  # because sources are untrusted; the largest allowed listing takes minutes


def bounded(entries: Iterable[T], what: str) -> Iterator[T]:
    """Yield up to MAX_ENTRIES entries; raises TooManyFiles beyond it, without reading or keeping more."""
    for count, entry in enumerate(entries, 1):
        if count > MAX_ENTRIES:
            raise TooManyFiles(
                f"{what} has more than {MAX_ENTRIES} entries, which is more than Larder can store; choose fewer files"
            )
        yield entry


def bounded_names(entries: Iterable[T], name_of: Callable[[T], str], what: str) -> Iterator[T]:
    """Yield entries up to a limit on their number and on the characters of their names.

    All names are in memory at the same time, and those of 100,000 objects could take a gigabyte. Raises TooManyFiles.
    """
    left = MAX_CHARACTERS
    for entry in bounded(entries, what):
        left -= len(name_of(entry))
        if left < 0:
            raise TooManyFiles(
                f"{what} has names of more than {MAX_CHARACTERS} characters in all, more than Larder can store; choose "
                "fewer files, or shorten their names"
            )
        yield entry


def in_time(parts: Iterable[T], until_s: float, what: str, clock: Callable[[], float] = time.monotonic) -> Iterator[T]:
    """Yield parts as they arrive; raises Unreachable once one arrives after `until_s` on the clock."""
    for part in parts:
        if clock() >= until_s:
            raise Unreachable(f"listing {what} takes too long; choose a longer prefix")
        yield part


def bounded_pages(pages: Iterable[T], what: str) -> Iterator[T]:
    """Yield the pages of a listing; raises Unreachable if there are too many or they take too long.

    Empty pages count too: some stores send many, and each costs a request.
    """
    for count, page in enumerate(in_time(pages, time.monotonic() + LONGEST_LIST_S, what)):
        if count >= MAX_PAGES:
            raise Unreachable(f"the listing of {what} has more than {MAX_PAGES} pages; choose a longer prefix")
        yield page
