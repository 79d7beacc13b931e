"""Whom a program trusts while the certificates of another are renewed."""

import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import trustme

from shared.ca_reload import Pools, Trust


def accepts(context: ssl.SSLContext, authority: trustme.CA) -> bool:
    """Return whether a handshake with a server of the authority succeeds."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("larder.test").configure_cert(server_side)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(back, there, server_hostname="larder.test")
    server = server_side.wrap_bio(there, back, server_side=True)
    try:
        for _ in range(4):
            for end in (client, server):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLCertVerificationError:
        return False
    return client.version() is not None


def put(path: Path, *authorities: trustme.CA) -> None:
    """Replace the file as kubelet does, by another one of the same name."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(b"".join(authority.cert_pem.bytes() for authority in authorities))
    fresh.replace(path)


def test_old_and_new_are_trusted_while_replicas_take_up_a_renewal(tmp_path: Path) -> None:
    first, second, third = trustme.CA(), trustme.CA(), trustme.CA()
    trust = Trust(tmp_path / "ca.crt")
    put(tmp_path / "ca.crt", first)
    assert (accepts(trust.context(), first), accepts(trust.context(), second)) == (True, False)
    put(tmp_path / "ca.crt", second)
    assert (accepts(trust.context(), first), accepts(trust.context(), second)) == (True, True)
    put(tmp_path / "ca.crt", third)
    assert [accepts(trust.context(), ca) for ca in (first, second, third)] == [False, True, True]


def test_the_same_file_is_read_once_and_the_same_text_is_no_news(tmp_path: Path) -> None:
    first, second = trustme.CA(), trustme.CA()
    trust = Trust(tmp_path / "ca.crt")
    put(tmp_path / "ca.crt", first)
    context = trust.context()
    assert trust.context() is context
    put(tmp_path / "ca.crt", second)
    assert trust.context() is not context
    put(tmp_path / "ca.crt", second)
    assert accepts(trust.context(), first), "what came before is still the first"


def test_a_bundle_vouches_for_all(tmp_path: Path) -> None:
    both = trustme.CA(), trustme.CA()
    put(tmp_path / "ca.crt", *both)
    assert all(accepts(Trust(tmp_path / "ca.crt").context(), authority) for authority in both)


@pytest.mark.parametrize("text", ["", "none\n", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"])
def test_a_file_that_is_none_is_an_error_until_it_is_right(tmp_path: Path, text: str) -> None:
    path, authority = tmp_path / "ca.crt", trustme.CA()
    trust = Trust(path)
    with pytest.raises(FileNotFoundError):
        trust.context()
    path.write_text(text)
    with pytest.raises(ssl.SSLError):
        trust.context()
    put(path, authority)
    assert accepts(trust.context(), authority)


def test_without_a_file_the_systems_authorities_count() -> None:
    trust = Trust(None)
    assert trust.context() is trust.context()
    assert not accepts(trust.context(), trustme.CA())


@pytest.fixture
async def pools(tmp_path: Path) -> AsyncIterator[Pools[httpx.AsyncClient]]:
    trust = Trust(tmp_path / "ca.crt")
    pools = Pools(trust, lambda c: httpx.AsyncClient(verify=c, trust_env=False), httpx.AsyncClient.aclose)
    put(tmp_path / "ca.crt", trustme.CA())
    yield pools
    await pools.close()


async def test_requests_on_the_last_client_may_end_in_peace(pools: Pools[httpx.AsyncClient], tmp_path: Path) -> None:
    clients = [await pools.client()]
    assert await pools.client() is clients[0]
    for _ in range(2):
        put(tmp_path / "ca.crt", trustme.CA())
        os.utime(tmp_path / "ca.crt")
        clients.append(await pools.client())
    assert [client.is_closed for client in clients] == [True, False, False]
    await pools.close()
    assert all(client.is_closed for client in clients)
