"""Origins (scheme, host and port), to which secrets and connections are bound."""

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from shared.errors import AddressRefused, InvalidURI

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port: what a connection leads to and a secret is bound to."""

    scheme: str
    host: str
    port: int

    @property
    def netloc(self) -> str:
        """The value of the Host header."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == DEFAULT_PORTS[self.scheme] else f"{name}:{self.port}"


def origin_of(url: str) -> Origin:
    """Return the origin of an http(s) URL; raises InvalidURI, or AddressRefused for other schemes."""
    slash = url.find("/", url.find("://") + 3)
    return _origin(url if slash < 0 else url[:slash])


def endpoint_origin(endpoint: str) -> Origin | None:
    """Return the origin of an optional endpoint; None if none is configured."""
    return origin_of(endpoint) if endpoint else None


@lru_cache(maxsize=256)
def _origin(url: str) -> Origin:
    """Return the origin of a URL that may be cut before its path, so that thousands of files share a cache entry."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, _ascii(parts.hostname or "")
    except (ValueError, UnicodeError) as error:
        raise InvalidURI(f"{public(url)} is not a URL that can be fetched: {error}") from error
    if parts.scheme not in DEFAULT_PORTS:
        raise AddressRefused(f"{public(url)} is neither http nor https, so it is not contacted")
    if not host:
        raise InvalidURI(f"{public(url)} has no host")
    return Origin(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme])


@lru_cache(maxsize=64)
def _ascii(host: str) -> str:
    return host.encode("idna").decode()


def public(url: str) -> str:
    """Return a URL for messages: without user, query and fragment, which may hold secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def quoted_or_hidden(url: str) -> str:
    """Return a malformed URL for messages: in quotes, or hidden if it may have a user or a query, and so a secret."""
    return "its value (hidden, because it may contain a secret)" if set(url) & set("@?") else repr(url)
