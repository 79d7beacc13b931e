"""Sources from other distributions: an entry point of the group `larder.sources` for each scheme.

The name of the entry point is the scheme. It loads a callable that takes the URI (`shared.uri.model_uri.PluginUri`),
the credentials and the settings, and returns a `shared.sources.port.Source`.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "larder.sources"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,31}")


@cache
def installed_plugins() -> "dict[str, EntryPoint]":
    """Return the entry points by scheme without loading them; the first of a name wins, invalid names are skipped.

    The result is cached, because installed distributions do not change while a program runs.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes 0.05 s, and only plugins need it

    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        if _SCHEME.fullmatch(point.name):
            found.setdefault(point.name, point)
    return found


def plugin_schemes() -> tuple[str, ...]:
    """Return the schemes that plugins serve."""
    return tuple(installed_plugins())
