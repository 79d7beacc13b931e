"""What somebody asks for of a repository's files: one value, made of an object's wishes and the cluster's defaults."""

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
    """`allow` and `ignore` are patterns as in `patterns.is_kept`, each once, sorted; no `allow` means every file.

    `duplicates`: `skip` leaves second copies of the same weights out. `pickle`: whether pickles are accepted at all.
    """

    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    duplicates: Duplicates = "keep"
    pickle: bool = True

    @property
    def key(self) -> str:
        """What tells it from others, in hex; empty for the whole repository."""
        if self == WHOLE:
            return ""
        said = json.dumps([self.allow, self.ignore, self.duplicates, self.pickle])
        return hashlib.sha256(said.encode()).hexdigest()[:_KEY_HEX]

    def revision_of(self, revision: str) -> str:
        """Return the revision of these files of a source's revision."""
        return f"{revision}-{self.key}" if self.key else revision

    def has_revision(self, revision: str) -> bool:
        """Return whether a revision is one of these files, as `revision_of` names them."""
        return revision.endswith(f"-{self.key}") if self.key else not _SELECTED.search(revision)


WHOLE = Selection()


@dataclass(frozen=True, slots=True)
class Wish:
    """What one object says of its files; None and no patterns where it says nothing."""

    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    duplicates: Duplicates | None = None
    pickle: bool | None = None


def make_selection(
    allow: Iterable[str] = (), ignore: Iterable[str] = (), duplicates: Duplicates = "keep", *, pickle: bool = True
) -> Selection:
    """Return a selection in its one form. Raises ValueError where there are too many patterns, or one is too long."""
    allowed = _patterns(allow)
    return Selection(() if "*" in allowed else allowed, _patterns(ignore), duplicates, pickle)


def choose(wish: Wish, cluster: Selection) -> Selection:
    """Return what an object gets: patterns of its own replace the cluster's, both lists; a pickle needs both's consent.

    Raises as `make_selection`.
    """
    own = bool(wish.allow or wish.ignore)
    return make_selection(
        wish.allow if own else cluster.allow,
        wish.ignore if own else cluster.ignore,
        wish.duplicates or cluster.duplicates,
        pickle=cluster.pickle and wish.pickle is not False,
    )


def wish_of_parameters(parameters: Mapping[str, str]) -> Wish:
    """Return what the `storage.parameters` of a base model say. Raises ValueError, which names the parameter."""
    return Wish(
        split_patterns(parameters.get("allowPatterns", "")),
        split_patterns(parameters.get("ignorePatterns", "")),
        _one_of("duplicateWeights", parameters, _DUPLICATES),
        _one_of("allowPickle", parameters, _TRUTH),
    )


def split_patterns(text: str) -> tuple[str, ...]:
    """Return the patterns of a text that has commas or line ends between them."""
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
