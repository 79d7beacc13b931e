"""The hub's two hosts: one speaks the protocol, the other stores large files behind signed links."""

import secrets
import threading
from pathlib import Path

from rig.hub.answers import Places
from rig.hub.faults import Faults
from rig.hub.handlers import HubHandler, Listener, StoreHandler
from rig.hub.journal import Journal
from rig.hub.repository import Repositories, RepositoryAccess, RepositoryFile
from rig.ports import LOOPBACK, free_port
from rig.running import Running

_PAGE_SIZE = 1000
_POLL_S = 0.05


class Hub(Running):
    """A running hub; use as a context manager. `state` is where it keeps what is pushed.

    Its sockets are made at once, in the network that the calling thread is in. `store_url` names another server that
    large files are redirected to, by digest.
    """

    def __init__(self, state: Path, *, host: str = LOOPBACK, port: int | None = None, store_url: str = "") -> None:
        self.faults, self.journal = Faults(), Journal()
        self.page_size = _PAGE_SIZE
        self._repositories = Repositories(state)
        self._signature = secrets.token_urlsafe()
        self._hub = Listener((host, port or free_port()), HubHandler, self)
        self._store = Listener((host, free_port()), StoreHandler, self)
        self._store_url = store_url or self._store.url
        self._threads = [
            threading.Thread(target=listener.serve_forever, args=(_POLL_S,), name=name, daemon=True)
            for name, listener in (("hub", self._hub), ("hub-store", self._store))
        ]

    @property
    def endpoint(self) -> str:
        """The address to use as HF_ENDPOINT."""
        return self._hub.url

    @property
    def store_endpoint(self) -> str:
        """The address of the other host, which large files are redirected to."""
        return self._store_url

    @property
    def repositories(self) -> Repositories:
        """What was pushed."""
        return self._repositories

    @property
    def places(self) -> Places:
        """The addresses and settings that answers are made with."""
        return Places(self.endpoint, self.store_endpoint, self._signature, self.page_size)

    def start(self) -> None:
        """Serve both hosts."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Release what is stalled, and end both hosts."""
        self.faults.clear()
        for listener, thread in zip((self._hub, self._store), self._threads, strict=True):
            listener.stop()
            thread.join()

    def push(self, name: str, folder: Path, branch: str = "main", access: RepositoryAccess | None = None) -> str:
        """Commit the files of a directory to `owner/name`, move the branch there and return the commit."""
        return self._repositories.push(name, folder, branch, access)

    def head(self, name: str, branch: str = "main") -> str:
        """Return the commit that a branch of `owner/name` names."""
        return self._repositories.head(name, branch)

    def move(self, name: str, commit: str, branch: str = "main") -> None:
        """Make a branch of `owner/name` name another of its commits, as a forced push does."""
        self._repositories.move(name, branch, commit)

    def add_entry(self, name: str, entry: RepositoryFile, branch: str = "main") -> None:
        """Put an entry into the branch's commit as it is, however wrong."""
        self._repositories.add_entry(name, branch, entry)

    def expire_links(self) -> None:
        """Make the store refuse (403) every link that was given out so far."""
        self._signature = secrets.token_urlsafe()

    def reset(self) -> None:
        """Clear faults, journal and settings; repositories stay."""
        self.faults.clear()
        self.journal.clear()
        self.page_size = _PAGE_SIZE
