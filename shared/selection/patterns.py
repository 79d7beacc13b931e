"""Patterns for files as huggingface_hub's `allow_patterns` and `ignore_patterns` mean them."""

from collections.abc import Sequence
from fnmatch import fnmatchcase


def is_kept(path: str, allow: Sequence[str], ignore: Sequence[str]) -> bool:
    """Return whether a path fits a pattern of `allow`, if there are any, and none of `ignore`.

    `*` matches `/` as well, upper and lower case differ, a pattern that ends in `/` means everything below, and a
    backslash is a slash.
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
