"""What the client must be told: a port, which the settings of all sources fill."""

from collections.abc import Sequence
from typing import Protocol

from shared.http.address_checks import Network
from shared.http.proxies import Proxies


class ClientSettings(Protocol):
    """Time-outs, trust and proxies."""

    @property
    def connect_timeout_s(self) -> float:
        """Seconds that a connection may take."""
        ...

    @property
    def read_timeout_s(self) -> float:
        """Seconds without a byte after which an answer is given up."""
        ...

    @property
    def ca_bundle(self) -> str | None:
        """The file of the only authorities to trust, None for the system's."""
        ...

    @property
    def proxies(self) -> Proxies:
        """Which proxy leads where."""
        ...

    @property
    def endpoints(self) -> Sequence[str]:
        """URLs that the administrator named: they may lead to any address."""
        ...

    @property
    def allowed_networks(self) -> Sequence[Network]:
        """Networks that the administrator opened."""
        ...

    def is_bucket_host(self, host: str, port: int) -> bool:
        """Tell whether a bucket of a trusted endpoint is reached by a host of its own."""
        ...
