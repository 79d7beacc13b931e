"""Chooses the proxy for a host from the usual environment variables."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import unquote, urlsplit

from shared.http.origins import quoted_or_hidden

_DEFAULT_PORT = 8080


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; `url` may contain a user, and `authorization` is its header value, empty without a user."""

    url: str = field(repr=False)
    host: str
    port: int
    authorization: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxies for https and for http, and the hosts that bypass them: names, domain suffixes and CIDRs.

    Raises ValueError for a URL that is not an HTTP proxy.
    """

    https: str = field(default="", repr=False)
    http: str = field(default="", repr=False)
    no_proxy: str = ""

    def __post_init__(self) -> None:
        for name, url in (("HTTPS_PROXY", self.https), ("HTTP_PROXY", self.http)):
            if url and _parse(url) is None:
                raise ValueError(
                    f"{name}: {quoted_or_hidden(url)} is not the URL of an HTTP proxy; "
                    "write http://[USER:PASSWORD@]HOST:PORT"
                )

    def of(self, scheme: str, host: str) -> Proxy | None:
        """Return the proxy for a host; None if it is reached directly."""
        proxy = _parse(self.https if scheme == "https" else self.http)
        return None if proxy is None or self._is_direct(host) else proxy

    def _is_direct(self, host: str) -> bool:
        entries = [text.strip().lower() for text in self.no_proxy.split(",") if text.strip()]
        name = host.lower().rstrip(".")
        if "*" in entries or any(name == e.lstrip(".") or name.endswith(f".{e.lstrip('.')}") for e in entries):
            return True
        try:
            address = ip_address(host)
        except ValueError:
            return False
        networks = (network for entry in entries if (network := _network(entry)))
        return any(address.version == network.version and address in network for network in networks)


def proxies_from_environ(environ: Mapping[str, str]) -> Proxies:
    """Read HTTPS_PROXY, HTTP_PROXY and NO_PROXY, in upper or lower case. Raises ValueError."""

    def read(name: str) -> str:
        return environ.get(name) or environ.get(name.lower()) or ""

    return Proxies(read("HTTPS_PROXY"), read("HTTP_PROXY"), read("NO_PROXY"))


def _parse(url: str) -> Proxy | None:
    """Return the proxy; None if the URL is empty or not that of an HTTP proxy."""
    if not url:
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or _DEFAULT_PORT
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme != "http" or not parts.hostname or not port:
        return None
    if parts.username is None:
        return Proxy(parts.geturl(), parts.hostname, port)
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(parts.geturl(), parts.hostname, port, f"Basic {base64.b64encode(user.encode()).decode()}")


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None
