"""Which CAs a program trusts while the certificates of another are renewed."""

import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import trustme

from shared.ca_reload import CaReloader, ClientReloader


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


def test_the_previous_ca_stays_trusted_until_the_next_renewal(tmp_path: Path) -> None:
    first, second, third = trustme.CA(), trustme.CA(), trustme.CA()
    reloader = CaReloader(tmp_path / "ca.crt")
    put(tmp_path / "ca.crt", first)
    assert (accepts(reloader.context(), first), accepts(reloader.context(), second)) == (True, False)
    put(tmp_path / "ca.crt", second)
    assert (accepts(reloader.context(), first), accepts(reloader.context(), second)) == (True, True)
    put(tmp_path / "ca.crt", third)
    assert [accepts(reloader.context(), ca) for ca in (first, second, third)] == [False, True, True]


def test_rewriting_the_file_with_the_same_ca_keeps_the_previous_one_trusted(tmp_path: Path) -> None:
    first, second = trustme.CA(), trustme.CA()
    reloader = CaReloader(tmp_path / "ca.crt")
    put(tmp_path / "ca.crt", first)
    context = reloader.context()
    assert reloader.context() is context
    put(tmp_path / "ca.crt", second)
    assert reloader.context() is not context
    put(tmp_path / "ca.crt", second)
    assert accepts(reloader.context(), first), "the first CA is still the previous one"


def test_every_ca_in_a_bundle_is_trusted(tmp_path: Path) -> None:
    both = trustme.CA(), trustme.CA()
    put(tmp_path / "ca.crt", *both)
    assert all(accepts(CaReloader(tmp_path / "ca.crt").context(), authority) for authority in both)


@pytest.mark.parametrize("text", ["", "none\n", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"])
def test_an_invalid_ca_file_raises_until_it_is_corrected(tmp_path: Path, text: str) -> None:
    path, authority = tmp_path / "ca.crt", trustme.CA()
    reloader = CaReloader(path)
    with pytest.raises(FileNotFoundError):
        reloader.context()
    path.write_text(text)
    with pytest.raises(ssl.SSLError):
        reloader.context()
    put(path, authority)
    assert accepts(reloader.context(), authority)


def test_without_a_file_the_system_authorities_are_used() -> None:
    reloader = CaReloader(None)
    assert reloader.context() is reloader.context()
    assert not accepts(reloader.context(), trustme.CA())


@pytest.fixture
async def client_reloader(tmp_path: Path) -> AsyncIterator[ClientReloader[httpx.AsyncClient]]:
    reloader = CaReloader(tmp_path / "ca.crt")
    client_reloader = ClientReloader(
        reloader, lambda c: httpx.AsyncClient(verify=c, trust_env=False), httpx.AsyncClient.aclose
    )
    put(tmp_path / "ca.crt", trustme.CA())
    yield client_reloader
    await client_reloader.close()


async def test_the_previous_client_stays_open_after_a_ca_change(
    client_reloader: ClientReloader[httpx.AsyncClient], tmp_path: Path
) -> None:
    clients = [await client_reloader.client()]
    assert await client_reloader.client() is clients[0]
    for _ in range(2):
        put(tmp_path / "ca.crt", trustme.CA())
        os.utime(tmp_path / "ca.crt")
        clients.append(await client_reloader.client())
    assert [client.is_closed for client in clients] == [True, False, False]
    await client_reloader.close()
    assert all(client.is_closed for client in clients)
