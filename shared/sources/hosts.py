"""Which host may be told which secret."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shared.sources.port import Credentials


@dataclass(frozen=True, slots=True)
class Grant:
    """What may be sent to one host: the values, or none and `withheld`, where there are some but not for it.

    `own`: as in `Credentials`.
    """

    host: str
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    withheld: bool = False
    own: bool = False

    def as_seen_by(self, host: str) -> "Grant":
        """Return what the host of an answer got: nothing, where a redirect led there from another."""
        return self if host == self.host else Grant(host, own=self.own)


def host_matches(host: str, patterns: Sequence[str]) -> bool:
    """Say whether a host name is one of the patterns.

    Names are compared whole, without case, final dot or port. `*.` in front of a pattern stands for one or more
    labels: `*.example.org` is `a.example.org` and `a.b.example.org`, never `example.org` or `badexample.org`.
    """
    name = host.lower().rstrip(".")
    return any(_matches(name, _without_port(pattern.strip().lower()).rstrip(".")) for pattern in patterns)


def _matches(name: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return name.endswith(pattern[1:]) and len(name) > len(pattern) - 1
    return bool(pattern) and name == pattern


def _without_port(pattern: str) -> str:
    if pattern.startswith("["):
        return pattern[1:].partition("]")[0]
    name, separator, port = pattern.rpartition(":")
    return name if separator and port.isdigit() and ":" not in name else pattern


def grant_for(
    host: str,
    keys: Sequence[str],
    credentials: Credentials,
    *,
    defaults: Sequence[str],
    endpoint_host: str = "",
) -> Grant:
    """Return which of the named values may go to a host.

    It must be one of the credentials' own hosts (`defaults` where they name none), or that of an endpoint which the
    administrator configured.
    """
    values = {key: credentials.values[key] for key in keys if credentials.values.get(key)}
    own = credentials.hosts or tuple(defaults)
    if not values:
        return Grant(host, own=credentials.own)
    if host_matches(host, own) or (endpoint_host and host_matches(host, (endpoint_host,))):
        return Grant(host, values, own=credentials.own)
    return Grant(host, withheld=True, own=credentials.own)
