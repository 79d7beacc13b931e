import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from rig.proxy import HttpProxy
from rig.scripted_http import reply, scripted
from shared.errors import AddressRefused, LarderError, Unreachable
from shared.http.client import HttpClient, Request
from shared.http.proxies import Proxies, proxies_from_environ
from shared.sources.settings import SourceSettings


@pytest.fixture
def proxy() -> Iterator[HttpProxy]:
    with HttpProxy() as running:
        yield running


def fetch(proxies: Proxies, url: str, *, ca: str | None = None, allow: tuple[str, ...] = ("127.0.0.0/8",)) -> bytes:
    client = HttpClient(SourceSettings(allow_addresses=allow, ca_bundle=ca, proxies=proxies, read_timeout_s=5))
    try:
        return client.send(Request(url, secrets={"Authorization": "Bearer t"})).read_all(1000)
    finally:
        client.close()


def test_plain_http_requests_are_sent_through_the_proxy(proxy: HttpProxy) -> None:
    with scripted(lambda _: reply(200, b"abc")) as server:
        assert fetch(Proxies(http=f"http://{proxy.host}"), f"{server.url}/x?y=1") == b"abc"
        assert proxy.asked == [f"GET {server.url}/x?y=1"]


def test_https_goes_through_a_tunnel_that_sees_no_secret(proxy: HttpProxy, tmp_path: Path) -> None:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with scripted(lambda _: reply(200, b"abc"), tls) as server:
        assert fetch(Proxies(https=proxy.host), f"{server.url}/x", ca=str(tmp_path / "ca.pem")) == b"abc"
        assert proxy.asked == [f"CONNECT 127.0.0.1:{server.port}"]


def test_proxy_credentials_are_sent_and_hidden_when_the_proxy_rejects_them() -> None:
    with HttpProxy("us er:p:w") as proxy, scripted(lambda _: reply(200, b"abc")) as server:
        assert fetch(Proxies(http=f"http://us%20er:p%3Aw@{proxy.host}"), f"{server.url}/x") == b"abc"
        with pytest.raises(Unreachable, match=r"status 407.*USER:PASSWORD") as caught:
            fetch(Proxies(https=f"http://no:secret@{proxy.host}"), f"https://127.0.0.1:{server.port}/x")
        assert "secret" not in str(caught.value)


def test_a_no_proxy_host_is_reached_without_the_proxy(proxy: HttpProxy) -> None:
    with scripted(lambda _: reply(200, b"abc")) as server:
        assert fetch(Proxies(http=proxy.host, no_proxy="127.0.0.0/8"), f"{server.url}/x") == b"abc"
    assert proxy.asked == []


def test_addresses_are_checked_before_the_proxy_is_asked(proxy: HttpProxy) -> None:
    for url in ("http://169.254.169.254/latest", "http://localhost:1/x"):
        with pytest.raises(AddressRefused):
            fetch(Proxies(http=proxy.host), url, allow=())
    assert proxy.asked == []


def test_a_name_that_cannot_be_resolved_locally_is_left_to_the_proxy(proxy: HttpProxy) -> None:
    with pytest.raises(LarderError):
        fetch(Proxies(https=proxy.host), "https://known-to-the-proxy.invalid/x")
    assert proxy.asked == ["CONNECT known-to-the-proxy.invalid:443"]


@pytest.mark.parametrize(
    ("no_proxy", "host", "is_direct"),
    [
        ("", "a.test", False),
        ("*", "a.test", True),
        ("a.test", "a.test", True),
        ("a.test", "b.a.test", True),
        (".a.test", "a.test", True),
        ("a.test", "ba.test", False),
        ("x.test, A.test", "a.test.", True),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("fd00::/8", "fd00::1", True),
        ("10.0.0.0/8", "fd00::1", False),
    ],
)
def test_no_proxy_entries_match_hosts_domains_and_networks(no_proxy: str, host: str, *, is_direct: bool) -> None:
    assert (Proxies(https="http://p.test:1", no_proxy=no_proxy).of("https", host) is None) is is_direct


def test_an_unreachable_proxy_is_named_in_the_error() -> None:
    client = HttpClient(SourceSettings(allow_addresses=("127.0.0.1",), proxies=Proxies(http="http://127.0.0.1:1")))
    with pytest.raises(Unreachable, match=r"the proxy for 127\.0\.0\.1:9: .*HTTP_PROXY"):
        client.send(Request("http://127.0.0.1:9/"))


@pytest.mark.parametrize("url", ["https://p.test:1", "socks5://p.test:1", "http://", "http://p.test:x", "http://:80"])
def test_other_proxies_than_http_are_refused_at_start(url: str) -> None:
    with pytest.raises(ValueError, match="write http://"):
        Proxies(https=url)


def test_proxies_are_read_from_the_usual_environment_variables() -> None:
    found = proxies_from_environ({"HTTPS_PROXY": "http://a:1", "http_proxy": "b:2", "no_proxy": "c"})
    assert (found.https, found.http, found.no_proxy) == ("http://a:1", "b:2", "c")
    https = found.of("https", "x")
    assert https is not None
    assert (https.host, https.port) == ("a", 1)
    assert "a:1" not in repr(found)
