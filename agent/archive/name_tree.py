"""Names that are to stand below one directory, kept by components: a directory that many share is kept once."""

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Name:
    """A file or a directory, and the place that it comes from."""

    path: str
    is_file: bool
    place: str = ""


class NameTree:
    """Files with all the directories above them; `count` is called before a name is kept, and may raise."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count, self._top = count, _Node("", is_file=False, place="")

    def add(self, path: str, place: str = "", *, is_file: bool = True) -> Iterator[tuple[Name, Name]]:
        """Keep a name that is there not yet, and yield pairs that cannot stand together: what was there, and what came.

        Those are a file and anything else of its name, and names that some file systems hold for one. Take all pairs,
        or add no more.
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
    """Return what names have in common that some file systems hold for one."""
    return name.lower() if name.isascii() else unicodedata.normalize("NFC", name).casefold()
