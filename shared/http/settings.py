"""The settings of the HTTP client: a port, implemented by the settings of all sources."""

from collections.abc import Sequence
from typing import Protocol

from shared.http.address_checks import Network
from shared.http.proxies import Proxies


class ClientSettings(Protocol):
    """Timeouts, certificates, proxies and trusted endpoints."""

    @property
    def connect_timeout_s(self) -> float:
        """Limit for connecting, in seconds."""
        ...

    @property
    def read_timeout_s(self) -> float:
        """Seconds without a byte after which a response fails."""
        ...

    @property
    def ca_bundle(self) -> str | None:
        """The file with the only trusted certificate authorities; None for those of the system."""
        ...

    @property
    def proxies(self) -> Proxies:
        """The proxies to use."""
        ...

    @property
    def endpoints(self) -> Sequence[str]:
        """URLs that the administrator configured, which may resolve to any address."""
        ...

    @property
    def allowed_networks(self) -> Sequence[Network]:
        """Networks that are not public, but that the administrator allows."""
        ...

    def is_bucket_host(self, host: str, port: int) -> bool:
        """Recognise the host of a bucket at a trusted endpoint.

        Args:
            host: The host of a URL.
            port: Its port.

        Returns:
            True if it is such a host, which may then resolve to any address.
        """
        ...
