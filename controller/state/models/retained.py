"""Files that stay on nodes although Larder may not manage their objects."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetainedObjects:
    """Existing objects that Larder may not manage, by uid and by model id.

    Their kind's definition lost our label, or their source is no longer allowed; neither removes files from nodes.
    """

    uids: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
