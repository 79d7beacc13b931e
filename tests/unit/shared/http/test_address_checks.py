import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from shared.errors import AddressRefused, Unreachable
from shared.http.address_checks import connect, why_refused

PUBLIC = (
    "8.8.8.8",
    "2606:4700:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::8.8.8.8",
    "64:ff9b:1:808:8:800::",
    "2002:808:808::1",
)
REFUSED = {
    "127.0.0.1": "loopback",
    "::1": "loopback",
    "::ffff:127.0.0.1": "loopback",
    "64:ff9b::7f00:1": "loopback",
    "2002:7f00:1::": "loopback",
    "169.254.1.1": "link-local",
    "fe80::1": "link-local",
    "10.1.2.3": "private or reserved",
    "172.16.0.1": "private or reserved",
    "192.168.1.1": "private or reserved",
    "100.64.0.1": "private or reserved",
    "fd12::1": "private or reserved",
    "240.0.0.1": "private or reserved",
    "255.255.255.255": "private or reserved",
    "0.0.0.0": "unspecified",  # noqa: S104 - an address to be refused
    "::": "unspecified",
    "224.0.0.1": "multicast",
    "ff02::1": "multicast",
    "169.254.169.254": "metadata service",
    "::ffff:169.254.169.254": "metadata service",
    "64:ff9b::a9fe:a9fe": "metadata service",
    "fd00:ec2::254": "metadata service",
    "168.63.129.16": "metadata service",
    "fd00:c1::a9fe:a9fe": "metadata service",
    "fe80::a9fe:a9fe": "metadata service",
    "169.254.42.42": "metadata service",
    "169.254.0.23": "metadata service",
    "64:ff9b:1::a9fe:a9fe": "metadata service",
    "64:ff9b:1:a9fe:a9:fe00::": "metadata service",
    "64:ff9b:1::1": "private or reserved",
    "::ffff:0:169.254.169.254": "metadata service",
    "::ffff:0:10.0.0.1": "private or reserved",
    "::169.254.169.254": "metadata service",
    "::127.0.0.1": "loopback",
    "::8.8.8.8": "private or reserved",
    "2002:a9fe:a9fe::1": "metadata service",
    "2001:0:a9fe:a9fe::1": "metadata service",
    "2001:0:808:808::f7f7:f7f7": "private or reserved",
    "4000::1": "private or reserved",
    "5f00::1": "private or reserved",
    "100::1": "private or reserved",
    "2001:db8::1": "private or reserved",
    "3fff::1": "private or reserved",
}


def _at(prefix: str, *places: int) -> Callable[[IPv4Address], IPv6Address]:
    """Write an IPv4 address into the bytes `places` of an IPv6 one."""

    def embed(inner: IPv4Address) -> IPv6Address:
        packed = bytearray(ip_address(prefix).packed)
        for place, byte in zip(places, inner.packed, strict=True):
            packed[place] = byte
        return IPv6Address(bytes(packed))

    return embed


def _inverted(inner: IPv4Address) -> IPv6Address:
    return _at("2001:0:808:808::", *_LAST)(IPv4Address(int(inner) ^ 0xFFFFFFFF))


_LAST = (12, 13, 14, 15)
EMBEDDINGS = {
    "mapped": _at("::ffff:0:0", *_LAST),
    "translated": _at("::ffff:0:0:0", *_LAST),
    "compatible": _at("::", *_LAST),
    "NAT64": _at("64:ff9b::", *_LAST),
    "local NAT64 of 48 bits": _at("64:ff9b:1::", 6, 7, 9, 10),
    "local NAT64 of 56 bits": _at("64:ff9b:1:100::", 7, 9, 10, 11),
    "local NAT64 of 64 bits": _at("64:ff9b:1:2::", 9, 10, 11, 12),
    "local NAT64 of 96 bits": _at("64:ff9b:1:2::", *_LAST),
    "6to4": _at("2002::1", 2, 3, 4, 5),
    "Teredo's server": _at("2001::1", 4, 5, 6, 7),
    "Teredo's client": _inverted,
}
LOCAL_NAT64 = [name for name in EMBEDDINGS if name.startswith("local NAT64")]
_REFUSED_IPV4 = st.sampled_from([IPv4Address(a) for a in REFUSED if ":" not in a])
_WIDE = [ip_network("::/0"), ip_network("0.0.0.0/0")]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_may_be_contacted(address: str) -> None:
    assert why_refused(ip_address(address), ()) == ""


@pytest.mark.parametrize(("address", "why"), REFUSED.items())
def test_special_addresses_are_refused_by_kind(address: str, why: str) -> None:
    assert why_refused(ip_address(address), ()) == why


@given(inner=st.ip_addresses(v=4) | _REFUSED_IPV4, embedding=st.sampled_from(sorted(EMBEDDINGS)))
@example(inner=IPv4Address("169.254.169.254"), embedding="compatible")
def test_an_address_that_is_refused_is_refused_in_every_embedding(inner: IPv4Address, embedding: str) -> None:
    # Leading zeros may be bits of a longer prefix, or the end of an address behind a shorter one.
    assume(embedding not in LOCAL_NAT64 or inner not in ip_network("0.0.0.0/8"))
    address = EMBEDDINGS[embedding](inner)
    assert not why_refused(inner, ()) or why_refused(address, ())
    if why_refused(inner, _WIDE):
        assert why_refused(address, _WIDE) == "metadata service"
        assert why_refused(address, [ip_network(inner), *_WIDE]) == ""
    assert why_refused(address, [ip_network(address), *_WIDE]) == ""


@pytest.mark.parametrize(
    ("address", "cidr"),
    [
        ("10.1.2.3", "10.0.0.0/8"),
        ("64:ff9b:1::10.1.2.3", "10.0.0.0/8"),
        ("64:ff9b:1::10.1.2.3", "64:ff9b:1::/48"),
        ("::ffff:0:10.1.2.3", "10.0.0.0/8"),
        ("::10.1.2.3", "::/96"),
        ("4000::1", "4000::/16"),
        ("64:ff9b:1::a9fe:a9fe", "169.254.169.254/32"),
        ("64:ff9b:1::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe/128"),
        ("::ffff:10.1.2.3", "10.0.0.0/8"),
        ("fd12::1", "fd00::/8"),
        ("127.0.0.1", "127.0.0.1/32"),
        ("169.254.169.254", "169.254.169.254/32"),
        ("fd00:ec2::254", "fd00:ec2::254/128"),
    ],
)
def test_an_allowed_network_covers_its_addresses(address: str, cidr: str) -> None:
    assert why_refused(ip_address(address), [ip_network(cidr)]) == ""


@pytest.mark.parametrize(
    ("address", "cidr"),
    [
        ("169.254.169.254", "169.254.0.0/16"),
        ("169.254.169.254", "0.0.0.0/0"),
        ("169.254.169.254", "169.254.169.254/31"),
        ("fd00:ec2::254", "::/0"),
        ("64:ff9b:1::a9fe:a9fe", "64:ff9b:1::/48"),
        ("::169.254.169.254", "::/0"),
    ],
)
def test_a_network_that_contains_a_metadata_service_does_not_allow_it(address: str, cidr: str) -> None:
    assert why_refused(ip_address(address), [ip_network(cidr)]) == "metadata service"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0", "2130706433", "127.1", "[::1]".strip("[]")])
def test_no_spelling_of_loopback_can_be_contacted(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises((AddressRefused, Unreachable), match=r"must not be contacted|cannot be resolved"):
            connect(host, port, allowed=(), timeout_s=1)


def test_a_trusted_host_is_contacted_at_any_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect("127.0.0.1", server.getsockname()[1], allowed=None, timeout_s=1).close()


def test_a_closed_port_and_an_unknown_name_are_unreachable() -> None:
    with socket.socket() as bound:  # nothing listens there, and nobody else can take the port
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(Unreachable, match=f"127.0.0.1 port {port} does not answer"):
            connect("127.0.0.1", port, allowed=None, timeout_s=1)
    with pytest.raises(Unreachable, match="cannot be resolved"):
        connect(f"{'a' * 64}.invalid", 80, allowed=None, timeout_s=1)


def test_every_interpretation_of_a_local_nat64_prefix_must_be_allowed() -> None:
    both = ip_address("64:ff9b:1:a01:2:300:c0a8:101")  # 10.1.2.3 behind 48 bits, 192.168.1.1 behind 96
    assert why_refused(both, [ip_network("10.0.0.0/8"), ip_network("0.0.0.0/1")]) == "private or reserved"


def test_site_local_addresses_are_refused() -> None:
    assert why_refused(ip_address("fec0::1"), ()) == "site-local"
