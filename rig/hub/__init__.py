"""A Hugging Face hub on loopback, from directories of files, with faults on demand."""

from rig.hub.faults import Corrupt, Fault, Faults, Refuse, Rule, Stall, Truncate
from rig.hub.journal import Journal, Seen
from rig.hub.repository import Access, Entry, Repositories
from rig.hub.server import Hub

__all__ = [
    "Access",
    "Corrupt",
    "Entry",
    "Fault",
    "Faults",
    "Hub",
    "Journal",
    "Refuse",
    "Repositories",
    "Rule",
    "Seen",
    "Stall",
    "Truncate",
]
