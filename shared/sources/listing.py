"""How long a listing may become."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from shared.errors import TooManyFiles

T = TypeVar("T")
MOST_ENTRIES = 100_000  # several times what a manifest can hold


def bounded(entries: Iterable[T], what: str, most: int = MOST_ENTRIES) -> Iterator[T]:
    """Yield the entries as they come; TooManyFiles where they do not end: nothing beyond is asked for or kept."""
    for count, entry in enumerate(entries, 1):
        if count > most:
            raise TooManyFiles(
                f"{what} has more than {most} entries, which is more than can be kept; choose fewer files"
            )
        yield entry
