"""What stays on nodes although Larder is kept from looking after it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeldObjects:
    """The objects that exist and that Larder has been kept from looking after, by uid and by model id.

    Their kind's definition lost our label, or their source is no longer allowed: neither takes a file from a node.
    """

    uids: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
