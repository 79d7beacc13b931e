"""A Hugging Face hub on loopback, served from directories of files, with injectable faults."""

from rig.hub.faults import Corrupt, Fault, Faults, Refuse, Rule, Stall, Truncate
from rig.hub.journal import Journal, JournalEntry
from rig.hub.repository import Repositories, RepositoryAccess, RepositoryFile
from rig.hub.server import Hub

__all__ = [
    "Corrupt",
    "Fault",
    "Faults",
    "Hub",
    "Journal",
    "JournalEntry",
    "Refuse",
    "Repositories",
    "RepositoryAccess",
    "RepositoryFile",
    "Rule",
    "Stall",
    "Truncate",
]
