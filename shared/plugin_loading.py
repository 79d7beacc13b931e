"""Plugins from other distributions, found by the entry points of a group.

Each entry point loads a class or function that takes no arguments and returns the plugin.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

LONGEST_REASON = 500


def installed_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group in the order of their names, without loading them."""
    return in_order(entry_points(group=group))


def in_order(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Return entry points in the order of their names, which is the order in which plugins are called."""
    return sorted(points, key=lambda point: point.name)


def require(plugin: object, kind: str, methods: Iterable[str], attributes: Mapping[str, type]) -> None:
    """Raise TypeError if an object lacks a method or an attribute of a kind of plugin."""
    missing = [name for name in methods if not callable(getattr(plugin, name, None))]
    if missing:
        raise TypeError(f"a {type(plugin).__name__} is not a {kind}: it has no {', '.join(missing)}")
    for name, expected in attributes.items():
        if not isinstance(getattr(plugin, name, None), expected):
            raise TypeError(f"the attribute {name} is not a {expected.__name__}")


def name_twice(name: str) -> ValueError:
    """Return the error for a plugin whose name is already taken."""
    return ValueError(f"another plugin is named {name!r} too; uninstall one of them")


def reason_of(error: BaseException) -> str:
    """Return an error of third-party code as one bounded line of text."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - even this is third-party code
        text = "its message cannot be read"
    shown = "".join(letter if letter.isprintable() else " " for letter in text[:LONGEST_REASON])
    return f"{type(error).__name__}: {shown}"[:LONGEST_REASON]
