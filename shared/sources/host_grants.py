"""Decides which origin may receive which secret."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shared.errors import AuthDenied
from shared.http.origins import DEFAULT_PORTS, Origin
from shared.sources.credential_keys import SchemeKeys
from shared.sources.port import Credentials

_ANY = "*"
_LONGEST_PORT = 5  # digits


@dataclass(frozen=True, slots=True)
class HostGrant:
    """What may be sent to one host.

    If there are values, but they are not for this host, `values` is empty and `withheld` is set. `place` is the host
    with its port, as `larder.dev/hosts` names it. `ambient`: as in `Credentials`.
    """

    host: str
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    withheld: bool = False
    ambient: bool = False
    place: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", self.place or self.host)

    def as_seen_by(self, origin: Origin) -> "HostGrant":
        """Return what the origin of a response received: nothing if a redirect led there from another origin."""
        return (
            self if origin.netloc == self.place else HostGrant(origin.host, ambient=self.ambient, place=origin.netloc)
        )


def host_matches(host: str, patterns: Sequence[str], port: int = DEFAULT_PORTS["https"]) -> bool:
    """Return whether a host and its port match a pattern, HOST or HOST:PORT; HOST alone means port 443.

    Names are compared whole, ignoring case and a final dot. A leading `*.` stands for one or more labels:
    `*.example.org` matches `a.example.org` and `a.b.example.org`, never `example.org` or `badexample.org`. A later `*`
    stands for exactly one label, and the last label is never `*`.
    """
    labels = _labels(host)
    return any(_matches(labels, port, pattern) for pattern in patterns)


def _matches(labels: list[str], port: int, pattern: str) -> bool:
    name, wanted_port = _split(pattern.strip())
    first, *rest = wanted = _labels(name)
    if wanted_port != port or wanted[-1] == _ANY or not all(labels):
        return False
    if first == _ANY:
        labels, wanted = labels[max(len(labels) - len(rest), 1) :], rest
    return len(labels) == len(wanted) and all(w in (_ANY, label) for w, label in zip(wanted, labels, strict=True))


def _labels(host: str) -> list[str]:
    name = host.lower().rstrip(".")
    return [name] if ":" in name else name.split(".")


def _split(pattern: str) -> tuple[str, int]:
    """Return the name and the port of a pattern; an IPv6 address with a port is in brackets."""
    name, separator, port = pattern.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= _LONGEST_PORT
    if not separator or not is_port or (":" in name and not name.endswith("]")):
        name, port = pattern, str(DEFAULT_PORTS["https"])
    return name.removeprefix("[").removesuffix("]"), int(port)


def grant_for(
    origin: Origin,
    keys: SchemeKeys,
    credentials: Credentials,
    *,
    defaults: Sequence[str],
    endpoint: Origin | None = None,
) -> HostGrant:
    """Return which values may be sent to an origin.

    The origin must be a host of the credentials (`defaults` if they name none) over https, or the endpoint that the
    administrator configured. Raises AuthDenied if only a part of a required set of keys is present, because an
    anonymous request is never intended then.
    """
    values = {key: credentials.values[key] for key in keys.secrets if credentials.values.get(key)}
    if missing := keys.missing(values):
        raise incomplete_keys(keys, values, missing, "the environment" if credentials.ambient else "the Secret")
    plain = HostGrant(origin.host, ambient=credentials.ambient, place=origin.netloc)
    if not values:
        return plain
    is_named = origin.scheme == "https" and host_matches(origin.host, credentials.hosts or tuple(defaults), origin.port)
    if is_named or origin == endpoint:
        return HostGrant(origin.host, values, ambient=credentials.ambient, place=origin.netloc)
    return HostGrant(origin.host, withheld=True, ambient=credentials.ambient, place=origin.netloc)


def incomplete_keys(keys: SchemeKeys, values: Mapping[str, str], missing: Sequence[str], where: str) -> AuthDenied:
    """Return the error for an incomplete set of keys; it contains no value."""
    present_keys = " and ".join(key for key in keys.secrets if values.get(key))
    missing_keys = " and ".join(missing)
    return AuthDenied(
        f"{where} has {present_keys} but not {missing_keys}, so no credentials are sent; add {missing_keys}"
    )
