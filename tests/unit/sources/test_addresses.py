import socket
from ipaddress import ip_address, ip_network

import pytest

from shared.errors import AddressRefused, Unreachable
from shared.sources.addresses import connect, why_refused

PUBLIC = ("8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8")
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
}


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_may_be_contacted(address: str) -> None:
    assert why_refused(ip_address(address), ()) == ""


@pytest.mark.parametrize(("address", "why"), REFUSED.items())
def test_others_are_refused_by_kind(address: str, why: str) -> None:
    assert why_refused(ip_address(address), ()) == why


@pytest.mark.parametrize(
    ("address", "cidr"),
    [
        ("10.1.2.3", "10.0.0.0/8"),
        ("::ffff:10.1.2.3", "10.0.0.0/8"),
        ("fd12::1", "fd00::/8"),
        ("127.0.0.1", "127.0.0.1/32"),
        ("169.254.169.254", "169.254.169.254/32"),
        ("fd00:ec2::254", "fd00:ec2::254/128"),
    ],
)
def test_an_opened_network_covers_its_addresses(address: str, cidr: str) -> None:
    assert why_refused(ip_address(address), [ip_network(cidr)]) == ""


@pytest.mark.parametrize(
    ("address", "cidr"),
    [
        ("169.254.169.254", "169.254.0.0/16"),
        ("169.254.169.254", "0.0.0.0/0"),
        ("169.254.169.254", "169.254.169.254/31"),
        ("fd00:ec2::254", "::/0"),
    ],
)
def test_metadata_services_are_opened_only_by_name(address: str, cidr: str) -> None:
    assert why_refused(ip_address(address), [ip_network(cidr)]) == "metadata service"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0", "2130706433", "127.1", "[::1]".strip("[]")])
def test_no_spelling_of_loopback_is_connected_to(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises((AddressRefused, Unreachable), match=r"must not be contacted|cannot be resolved"):
            connect(host, port, allowed=(), timeout_s=1)


def test_a_trusted_host_is_connected_to_wherever_it_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect("127.0.0.1", server.getsockname()[1], allowed=None, timeout_s=1).close()


def test_a_closed_port_and_an_unknown_name_are_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(Unreachable, match=f"127.0.0.1 port {port} does not answer"):
        connect("127.0.0.1", port, allowed=None, timeout_s=1)
    with pytest.raises(Unreachable, match="cannot be resolved"):
        connect(f"{'a' * 64}.invalid", 80, allowed=None, timeout_s=1)


def test_a_network_of_one_site_is_not_public() -> None:
    assert why_refused(ip_address("fec0::1"), ()) == "site-local"
