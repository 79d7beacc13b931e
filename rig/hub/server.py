"""The two hosts of the hub: one serves the API, the other stores large files behind signed links."""

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
    """A running hub; use as a context manager. `state` is the directory of pushed files.

    The constructor creates its sockets, in the network of the calling thread. `store_url` names another server to
    which requests for large files are redirected, by digest.
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
        """The address of the store host, to which large files are redirected."""
        return self._store_url

    @property
    def repositories(self) -> Repositories:
        """The pushed repositories."""
        return self._repositories

    @property
    def places(self) -> Places:
        """The addresses and settings for responses."""
        return Places(self.endpoint, self.store_endpoint, self._signature, self.page_size)

    def start(self) -> None:
        """Serve both hosts."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all stalls and stop both hosts."""
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
        """Point a branch of `owner/name` to another of its commits, as a forced push does."""
        self._repositories.move(name, branch, commit)

    def add_entry(self, name: str, entry: RepositoryFile, branch: str = "main") -> None:
        """Add an entry to the commit of the branch unchecked."""
        self._repositories.add_entry(name, branch, entry)

    def expire_links(self) -> None:
        """Make the store refuse (403) all links issued so far."""
        self._signature = secrets.token_urlsafe()

    def reset(self) -> None:
        """Reset faults, journal and settings; repositories stay."""
        self.faults.clear()
        self.journal.clear()
        self.page_size = _PAGE_SIZE
