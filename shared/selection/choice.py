"""The requested selection of files: one value from the wishes of an object and the defaults of the cluster."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

Duplicates = Literal["keep", "skip"]

MOST_PATTERNS = 100
LONGEST_PATTERN = 512
_KEY_HEX = 10
_SELECTED = re.compile(r"-[0-9a-f]{10}$")
_DUPLICATES: Mapping[str, Duplicates] = {"keep": "keep", "skip": "skip"}
_TRUTH = {"true": True, "false": False}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which files to take.

    Args:
        allow: Patterns as in `select.is_kept`, unique and sorted; empty means every file.
        ignore: Patterns of files to leave out, unique and sorted.
        duplicates: `skip` leaves out second copies of the same weights.
        pickle: Whether pickles are accepted.
    """

    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    duplicates: Duplicates = "keep"
    pickle: bool = True

    @property
    def key(self) -> str:
        """A hex key of this selection; empty for the whole repository."""
        if self == WHOLE:
            return ""
        said = json.dumps([self.allow, self.ignore, self.duplicates, self.pickle])
        return hashlib.sha256(said.encode()).hexdigest()[:_KEY_HEX]

    def revision_of(self, revision: str) -> str:
        """Return the revision of the selected files for a revision of the source."""
        return f"{revision}-{self.key}" if self.key else revision

    def has_revision(self, revision: str) -> bool:
        """Return whether a revision was made by `revision_of` of this selection."""
        return revision.endswith(f"-{self.key}") if self.key else not _SELECTED.search(revision)


WHOLE = Selection()


@dataclass(frozen=True, slots=True)
class Wish:
    """What one object requests; None and empty if it says nothing."""

    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    duplicates: Duplicates | None = None
    pickle: bool | None = None


def make_selection(
    allow: Iterable[str] = (), ignore: Iterable[str] = (), duplicates: Duplicates = "keep", *, pickle: bool = True
) -> Selection:
    """Return a normalized selection. Raises ValueError if a pattern is too long or there are too many."""
    allowed = _patterns(allow)
    return Selection(() if "*" in allowed else allowed, _patterns(ignore), duplicates, pickle)


def choose(wish: Wish, cluster: Selection) -> Selection:
    """Combine a wish with the defaults of the cluster.

    If the object has any patterns, they replace both lists of the cluster; pickles need the consent of both. Raises as
    `make_selection`.
    """
    own = bool(wish.allow or wish.ignore)
    return make_selection(
        wish.allow if own else cluster.allow,
        wish.ignore if own else cluster.ignore,
        wish.duplicates or cluster.duplicates,
        pickle=cluster.pickle and wish.pickle is not False,
    )


def wish_of_parameters(parameters: Mapping[str, str]) -> Wish:
    """Return the wish in the `storage.parameters` of a base model. Raises ValueError, naming the parameter."""
    return Wish(
        split_patterns(parameters.get("allowPatterns", "")),
        split_patterns(parameters.get("ignorePatterns", "")),
        _one_of("duplicateWeights", parameters, _DUPLICATES),
        _one_of("allowPickle", parameters, _TRUTH),
    )


def split_patterns(text: str) -> tuple[str, ...]:
    """Split patterns at commas and line ends."""
    return tuple(p.strip() for p in text.replace("\n", ",").split(",") if p.strip())


def _one_of(name: str, parameters: Mapping[str, str], words: Mapping[str, T]) -> T | None:
    text = parameters.get(name, "").strip()
    if text and text not in words:
        raise ValueError(f"storage.parameters.{name} is {text!r}; write {' or '.join(words)}")
    return words[text] if text else None


def _patterns(given: Iterable[str]) -> tuple[str, ...]:
    found = tuple(sorted({p.strip() for p in given} - {""}))
    if len(found) > MOST_PATTERNS:
        raise ValueError(f"there are {len(found)} patterns for files; write at most {MOST_PATTERNS}")
    if longest := next((p for p in found if len(p) > LONGEST_PATTERN), None):
        raise ValueError(
            f"the pattern {longest[:40]!r}... has {len(longest)} characters; write {LONGEST_PATTERN} at most"
        )
    return found
