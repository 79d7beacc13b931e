"""The selection of files: combines what an object requests with the defaults of the cluster."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

Duplicates = Literal["keep", "skip"]

MAX_PATTERNS = 100
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
        described = json.dumps([self.allow, self.ignore, self.duplicates, self.pickle])
        return hashlib.sha256(described.encode()).hexdigest()[:_KEY_HEX]

    def revision_of(self, revision: str) -> str:
        """Return the revision of the selected files for a revision of the source."""
        return f"{revision}-{self.key}" if self.key else revision

    def has_revision(self, revision: str) -> bool:
        """Return whether a revision was made by `revision_of` of this selection."""
        return revision.endswith(f"-{self.key}") if self.key else not _SELECTED.search(revision)


WHOLE = Selection()


@dataclass(frozen=True, slots=True)
class RequestedSelection:
    """The selection that one object requests; None or empty where it requests nothing."""

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


def choose(requested: RequestedSelection, cluster: Selection) -> Selection:
    """Combine a requested selection with the defaults of the cluster.

    If the object has any patterns, they replace both lists of the cluster; pickles need the consent of both. Raises as
    `make_selection`.
    """
    own = bool(requested.allow or requested.ignore)
    return make_selection(
        requested.allow if own else cluster.allow,
        requested.ignore if own else cluster.ignore,
        requested.duplicates or cluster.duplicates,
        pickle=cluster.pickle and requested.pickle is not False,
    )


def requested_in_parameters(parameters: Mapping[str, str]) -> RequestedSelection:
    """Return what the `storage.parameters` of a base model request. Raises ValueError, naming the parameter."""
    return RequestedSelection(
        split_patterns(parameters.get("allowPatterns", "")),
        split_patterns(parameters.get("ignorePatterns", "")),
        _one_of("duplicateWeights", parameters, _DUPLICATES),
        _one_of("allowPickle", parameters, _TRUTH),
    )


def split_patterns(text: str) -> tuple[str, ...]:
    """Split patterns at commas and line ends."""
    return tuple(p.strip() for p in text.replace("\n", ",").split(",") if p.strip())


def _one_of(name: str, parameters: Mapping[str, str], values: Mapping[str, T]) -> T | None:
    text = parameters.get(name, "").strip()
    if text and text not in values:
        raise ValueError(f"storage.parameters.{name} is {text!r}; write {' or '.join(values)}")
    return values[text] if text else None


def _patterns(patterns: Iterable[str]) -> tuple[str, ...]:
    found = tuple(sorted({p.strip() for p in patterns} - {""}))
    if len(found) > MAX_PATTERNS:
        raise ValueError(f"there are {len(found)} file patterns; write at most {MAX_PATTERNS}")
    if longest := next((p for p in found if len(p) > LONGEST_PATTERN), None):
        raise ValueError(
            f"the pattern {longest[:40]!r}... has {len(longest)} characters; write at most {LONGEST_PATTERN}"
        )
    return found
