"""The names below one directory, stored by path component so that shared directories are stored once."""

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Name:
    """A file or directory, and the archive it comes from."""

    path: str
    is_file: bool
    origin: str = ""


class NameTree:
    """Files with all their parent directories; `count` is called before a name is stored, and may raise."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count, self._top = count, _Node("", is_file=False, origin="")

    def add(self, path: str, origin: str = "", *, is_file: bool = True) -> Iterator[tuple[Name, Name]]:
        """Add a name if it is new, and yield each clash as a pair of the existing name and the new one.

        A file clashes with anything of the same name; names that some file systems treat as equal clash too. Consume
        all pairs, or add no more names.
        """
        node, above, parts = self._top, list[str](), path.split("/")
        for depth, part in enumerate(parts, 1):
            is_leaf_file = is_file and depth == len(parts)
            child = node.below.get(key := _folded(part))
            if child is None:
                self._count()
                child = node.below[key] = _Node(part, is_leaf_file, origin)
            elif is_leaf_file or child.is_file or child.name != part:
                existing = Name("/".join((*above, child.name)), child.is_file, child.origin)
                yield existing, Name("/".join(parts[:depth]), is_leaf_file, origin)
            node = child
            above.append(child.name)


@dataclass(slots=True)
class _Node:
    name: str
    is_file: bool
    origin: str
    below: dict[str, "_Node"] = field(default_factory=dict)


def _folded(name: str) -> str:
    """Return a form that is equal for names that some file systems treat as equal."""
    return name.lower() if name.isascii() else unicodedata.normalize("NFC", name).casefold()
