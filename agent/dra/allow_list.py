"""The administrator's allow-list for what device plugins may add to containers: pure functions.

Nothing is allowed unless it is listed. A pattern may contain `*`, which matches within one part of a path.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from agent.dra.errors import PrepareRefused


class AllowList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Patterns of the allow-list.

    Args:
        mounts: Directories and files of the node that may be mounted, read-only, with everything below them except
            other mounts.
        devices: Paths of device nodes.
        env: Names of environment variables.
    """

    mounts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    env: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing is allowed."""
        return not (self.mounts or self.devices or self.env)


def check_allowed(
    allowed: AllowList, mounts: Iterable[str], devices: Iterable[str], env: Mapping[str, str], container: str
) -> None:
    """Raise PrepareRefused, naming everything that is not on the allow-list."""
    refused = [
        *(f"mount {path}" for path in mounts if not any(_is_below(path, top) for top in allowed.mounts)),
        *(f"device {path}" for path in devices if not any(_is_like(path, each) for each in allowed.devices)),
        *(f"variable {name}" for name in env if not any(_matches(name, each) for each in allowed.env)),
    ]
    if refused:
        raise PrepareRefused(
            f"a device plugin asks for {', '.join(refused)} for container {container}, which dra.allow does not list; "
            "an administrator can add it there"
        )


def check_patterns(allowed: AllowList) -> None:
    """Raise ValueError for a malformed pattern."""
    for path in (*allowed.mounts, *allowed.devices):
        if not path.startswith("/") or any(part in ("", ".", "..") for part in path[1:].split("/")):
            raise ValueError(f"{path!r} is not a plain absolute path; write /dev/fuse or /opt/driver")
    for name in allowed.env:
        if not re.fullmatch(r"[A-Za-z_*][A-Za-z0-9_*]*", name) or not name.strip("*"):
            raise ValueError(f"{name!r} is not the name of a variable; write NAME or PREFIX_*")


def _is_below(path: str, top: str) -> bool:
    return _starts_like(path, top) and len(path.split("/")) >= len(top.split("/"))


def _is_like(path: str, pattern: str) -> bool:
    return _starts_like(path, pattern) and len(path.split("/")) == len(pattern.split("/"))


def _starts_like(path: str, pattern: str) -> bool:
    return all(_matches(part, each) for part, each in zip(path.split("/"), pattern.split("/"), strict=False))


def _matches(text: str, pattern: str) -> bool:
    """Return whether a text matches the pattern, in which each star matches any text."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    inner = text[len(first) : len(text) - len(last)]
    for part in middle:
        _, found, inner = inner.partition(part) if part else ("", "*", inner)
        if not found:
            return False
    return True
