"""Connects to a host only after checking every address it resolves to."""

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from shared.errors import AddressRefused, Unreachable

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Cloud endpoints that hand out the credentials of the node itself. Some of them look like public addresses.
_METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.169.253",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::253",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:c1::a9fe:a9fe",
        "fe80::a9fe:a9fe",
        "169.254.42.42",
        "fd00:42::42",
        "169.254.0.23",
    )
)
# Packets to these are forwarded to the IPv4 address in their last 32 bits, so they are judged as that address.
_TRANSLATED = (ip_network("64:ff9b::/96"), ip_network("::ffff:0:0:0/96"))
_LOCAL_NAT64 = ip_network("64:ff9b:1::/48")  # RFC 8215; each site chooses its own prefix length
# The bytes that hold the IPv4 address after a prefix of 48, 56 or 64 bits (RFC 6052). After a /96 it is the last four.
_NAT64_BYTES = ((6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12))
_COMPATIBLE = ip_network("::/96")
_THIS_NETWORK = ip_network("0.0.0.0/8")
_GLOBAL_UNICAST = ip_network("2000::/3")
_DOCUMENTATION = ip_network("3fff::/20")
_LOW_32_BITS = 0xFFFFFFFF
_TRIES = 2  # at most this many unresponsive addresses of a name use up their full timeout


def why_refused(address: Address, allowed: Sequence[Network]) -> str:
    """Return which kind of forbidden address this is, or "" if it may be contacted."""
    whys = (_why_effective(found, address, allowed) for found in _effective_addresses(address))
    return next((why for why in whys if why), "")


def _why_effective(found: Address, address: Address, allowed: Sequence[Network]) -> str:
    """Return why an effective address is forbidden; networks may allow it or the address that embeds it."""
    if found in _METADATA:
        exact = any(n.prefixlen == n.max_prefixlen and n.network_address in (found, address) for n in allowed)
        return "" if exact else "metadata service"
    if any(a in network for network in allowed for a in (found, address) if a.version == network.version):
        return ""
    return _kind(found)


def _effective_addresses(address: Address) -> tuple[Address, ...]:
    """Return the address, or the IPv4 addresses that an IPv6 one may embed; each must be allowed."""
    if isinstance(address, IPv4Address):
        return (address,)
    low = IPv4Address(int(address) & _LOW_32_BITS)
    if any(address in network for network in _TRANSLATED):
        return (low,)
    if address in _LOCAL_NAT64:
        shorter = (IPv4Address(bytes(address.packed[at] for at in places)) for places in _NAT64_BYTES)
        return tuple(inner for inner in (*shorter, low) if inner not in _THIS_NETWORK) or (low,)
    if inner := address.ipv4_mapped or address.sixtofour:
        return (inner,)
    if address.teredo:
        return (*address.teredo, address)
    if address in _COMPATIBLE and low not in _THIS_NETWORK:
        return (low, address)
    return (address,)


def _kind(address: Address) -> str:
    kinds = {
        "unspecified": address.is_unspecified,
        "loopback": address.is_loopback,
        "link-local": address.is_link_local,
        "multicast": address.is_multicast,
        "site-local": isinstance(address, IPv6Address) and address.is_site_local,
        "private or reserved": not address.is_global or not _is_unicast(address),
    }
    return next((kind for kind, applies in kinds.items() if applies), "")


def _is_unicast(address: Address) -> bool:
    """Return whether an IPv6 address is from a range assigned for public use, whatever Python knows about it."""
    if isinstance(address, IPv4Address):
        return True
    return address in _GLOBAL_UNICAST and address not in _DOCUMENTATION


def connect(host: str, port: int, *, allowed: Sequence[Network] | None, timeout_s: float) -> socket.socket:
    """Return a connected socket.

    Args:
        host: The host name or address to connect to.
        port: The TCP port.
        allowed: Networks that may be contacted although they are not public; None trusts the host whatever it resolves
            to.
        timeout_s: The limit for each address, in seconds.

    Raises:
        AddressRefused: No address of the host may be contacted.
        Unreachable: No allowed address answers, or the name does not resolve.
    """
    failure: OSError | None = None
    refused, until = "", time.monotonic() + _TRIES * timeout_s
    for family, address, target in _resolve(host, port):
        why = "" if allowed is None else why_refused(address, allowed)
        if why:
            refused = f"{address} ({why})"
            continue
        if failure is not None and time.monotonic() >= until:
            break
        try:
            return _connect_one(family, target, timeout_s)
        except OSError as error:
            failure = error
    if failure is not None:
        raise Unreachable(f"{host} port {port} does not answer: {_cause(failure, timeout_s)}") from failure
    raise _refusal(host, refused)


def refuse_known(host: str, port: int, allowed: Sequence[Network]) -> None:
    """Raise AddressRefused if a host that a proxy will resolve has a forbidden address when resolved here.

    A name that only the proxy can resolve is left to the proxy's own rules.
    """
    with suppress(Unreachable):
        for _, address, _ in _resolve(host, port):
            if why := why_refused(address, allowed):
                raise _refusal(host, f"{address} ({why})")


def _refusal(host: str, refused: str) -> AddressRefused:
    return AddressRefused(
        f"{host} resolves to {refused}, which must not be contacted from here; if this is intended, ask the "
        "administrator to add the address to allowAddresses (LARDER_ALLOW_ADDRESSES)"
    )


def _resolve(host: str, port: int) -> list[tuple[int, Address, tuple[object, ...]]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"the name {host} cannot be resolved: {error}") from error
    return [(family, ip_address(str(target[0]).partition("%")[0]), target) for family, _, _, _, target in found]


def _connect_one(family: int, target: tuple[object, ...], timeout_s: float) -> socket.socket:
    raw = socket.socket(family, socket.SOCK_STREAM)
    try:
        raw.settimeout(timeout_s)
        raw.connect(target)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        raw.close()
        raise
    return raw


def _cause(error: OSError, timeout_s: float) -> str:
    return f"no connection within {timeout_s:g} s" if isinstance(error, TimeoutError) else str(error)
