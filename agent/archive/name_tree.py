"""The names below one directory, stored by path component so that shared directories are stored once."""

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Name:
    """A file or directory, and the place it comes from."""

    path: str
    is_file: bool
    place: str = ""


class NameTree:
    """Files with all their parent directories; `count` is called before a name is stored, and may raise."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count, self._top = count, _Node("", is_file=False, place="")

    def add(self, path: str, place: str = "", *, is_file: bool = True) -> Iterator[tuple[Name, Name]]:
        """Add a name if it is new, and yield each clash as a pair of the existing name and the new one.

        A file clashes with anything of the same name; names that some file systems treat as equal clash too. Consume
        all pairs, or add no more names.
        """
        node, above, parts = self._top, list[str](), path.split("/")
        for depth, part in enumerate(parts, 1):
            is_here = is_file and depth == len(parts)
            there = node.below.get(key := _folded(part))
            if there is None:
                self._count()
                there = node.below[key] = _Node(part, is_here, place)
            elif is_here or there.is_file or there.name != part:
                known = Name("/".join((*above, there.name)), there.is_file, there.place)
                yield known, Name("/".join(parts[:depth]), is_here, place)
            node = there
            above.append(there.name)


@dataclass(slots=True)
class _Node:
    name: str
    is_file: bool
    place: str
    below: dict[str, "_Node"] = field(default_factory=dict)


def _folded(name: str) -> str:
    """Return a form that is equal for names that some file systems treat as equal."""
    return name.lower() if name.isascii() else unicodedata.normalize("NFC", name).casefold()
