"""Reloads the certificate authority of the controller when its file is replaced."""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

_KEPT = 2
_Client = TypeVar("_Client")


@dataclass(slots=True)
class CaReloader:
    """Trusts the CAs in a PEM file and the previous ones, because replicas adopt a renewed CA one after the other.

    Without a file, it trusts the CAs of the system.
    """

    file: Path | None
    _stamp: tuple[int, int, int] = field(default=(0, 0, 0), init=False)
    _pem: str = field(default="", init=False, repr=False)
    _context: ssl.SSLContext | None = field(default=None, init=False)

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for a new connection; cheap, and the same object until the file changes.

        Raises OSError (SSLError if the file is not a certificate); the next call then tries the file again.
        """
        stamp = self._stamp_now()
        if self._context is None or stamp != self._stamp:
            self._context = self._load()
            self._stamp = stamp
        return self._context

    def _stamp_now(self) -> tuple[int, int, int]:
        if self.file is None:
            return self._stamp
        found = self.file.stat()
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _load(self) -> ssl.SSLContext:
        if self.file is None:
            return ssl.create_default_context()
        pem = self.file.read_text(encoding="ascii", errors="replace")
        if "BEGIN " not in pem:
            raise ssl.SSLError(
                f"{self.file} contains no PEM certificate; put the CA of the controller's certificate there"
            )
        if self._context is not None and pem == self._pem:
            return self._context  # kubelet replaces all files of a volume if one changes
        context = ssl.create_default_context(cadata=pem)
        if self._pem:
            context.load_verify_locations(cadata=self._pem)
        self._pem = pem
        return context


@dataclass(slots=True)
class ClientReloader(Generic[_Client]):
    """Keeps a client that trusts the current CAs; `connect` makes a new one whenever these change."""

    ca: CaReloader
    connect: Callable[[ssl.SSLContext], _Client]
    disconnect: Callable[[_Client], Awaitable[None]]
    _context: ssl.SSLContext | None = field(default=None, init=False)
    _clients: list[_Client] = field(default_factory=list, init=False)  # newest last

    async def client(self) -> _Client:
        """Return the current client; requests on the previous one may finish. Raises OSError as CaReloader does."""
        context = self.ca.context()
        if context is not self._context:
            self._context = context
            self._clients.append(self.connect(context))
        newest = self._clients[-1]
        while len(self._clients) > _KEPT:
            await self.disconnect(self._clients.pop(0))
        return newest

    async def close(self) -> None:
        """Close every connection."""
        clients, self._clients, self._context = self._clients, [], None
        for client in clients:
            await self.disconnect(client)
