"""Applies a selection to the file list of a source."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from shared.api.meta import LeftOut
from shared.errors import SourceNotFound, TooManyFiles
from shared.manifest import File, Manifest
from shared.selection.choice import Selection
from shared.selection.duplicates import duplicate_weights

_MAX_NAMES = 20
_LONGEST_NAME = 256
_MAX_COMPARISONS = 10**10  # of characters: five seconds at worst


def select_files(manifest: Manifest, selection: Selection) -> tuple[Manifest, LeftOut]:
    """Return the manifest of the selected files, as a revision of its own, and what was left out.

    Raises SourceNotFound if no file is left, TooManyFiles if matching would take too long.
    """
    _check_work(manifest.files, selection)
    fitting = [f for f in manifest.files if is_kept(f.path, selection.allow, selection.ignore)]
    copies = duplicate_weights({f.path: f.size for f in fitting}) if selection.duplicates == "skip" else frozenset()
    kept = tuple(f for f in fitting if f.path not in copies)
    if manifest.files and not kept:
        raise SourceNotFound(_nothing(manifest, selection))
    selected = replace(
        manifest,
        revision=selection.revision_of(manifest.revision),
        files=kept,
        allow_pickle=selection.pickle,
    )
    return selected, _left_out(manifest.files, {f.path for f in kept}, copies)


def is_kept(path: str, allow: Sequence[str], ignore: Sequence[str]) -> bool:
    """Return whether a path matches a pattern of `allow`, if any, and none of `ignore`, as in huggingface_hub.

    `*` also matches `/`, matching is case-sensitive, a trailing `/` means everything below, and a backslash is a slash.
    """
    plain = _with_slashes(path)
    if allow and not any(fnmatchcase(plain, _whole(p)) for p in allow):
        return False
    return not any(fnmatchcase(plain, _whole(p)) for p in ignore)


def _whole(pattern: str) -> str:
    text = _with_slashes(pattern)
    return f"{text}*" if text.endswith("/") else text


def _with_slashes(text: str) -> str:
    return text.replace("\\", "/")


def _check_work(files: Sequence[File], selection: Selection) -> None:
    """Refuse input that would take hours, such as the longest names with the longest patterns."""
    of_patterns, of_names = sum(map(len, (*selection.allow, *selection.ignore))), sum(len(f.path) for f in files)
    if of_patterns * of_names > _MAX_COMPARISONS:
        raise TooManyFiles(
            f"comparing patterns of {of_patterns} characters with {len(files)} file names of {of_names} characters "
            "would take too long; write fewer or shorter patterns, or choose a source with fewer files"
        )


def _left_out(files: Sequence[File], kept: set[str], copies: frozenset[str]) -> LeftOut:
    left = sorted((f for f in files if f.path not in kept), key=lambda f: (-f.size, f.path))
    return LeftOut(
        files=len(left),
        size=sum(f.size for f in left),
        duplicate_size=sum(f.size for f in left if f.path in copies),
        names=[f.path[:_LONGEST_NAME] for f in left[:_MAX_NAMES]],
    )


def _nothing(manifest: Manifest, selection: Selection) -> str:
    described = [f"{word} {', '.join(patterns[:5])}" for word, patterns in
            (("allowPatterns", selection.allow), ("ignorePatterns", selection.ignore)) if patterns]  # fmt: skip
    first = ", ".join(f.path for f in manifest.files[:5])
    return (
        f"none of the {len(manifest.files)} files of {manifest.uri} is selected by {' and '.join(described)}; change "
        f"the patterns: the files are {first}{', ...' if len(manifest.files) > 5 else ''}"  # noqa: PLR2004 - as shown
    )
