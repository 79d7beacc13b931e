"""A certificate that is renewed under a running server."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from fastapi import FastAPI

from rig.pki import Authority
from rig.ports import LOOPBACK, free_port
from shared.server.serve import Tls, serve

NAME = "larder.larder-system.svc"


def _write(authority: Authority, tls: Tls) -> int:
    """Write a new pair and return its serial number."""
    pair = authority.issue(NAME, dns=[NAME])
    tls.certificate.write_bytes(pair.public_pem)
    tls.private_key.write_bytes(pair.private_pem)
    return x509.load_pem_x509_certificate(pair.public_pem).serial_number


@asynccontextmanager
async def _serving(tls: Tls, on_expiry: Callable[[float], None] = lambda _: None) -> AsyncIterator[int]:
    port = free_port()
    task = asyncio.create_task(serve(FastAPI(), f"{LOOPBACK}:{port}", tls, reload_s=0.02, on_expiry=on_expiry))
    try:
        yield port
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _serial(port: int, authority: Authority) -> int:
    """Return the serial number of the certificate on a new connection; 0 while nothing listens."""
    context = ssl.create_default_context(cadata=authority.ca_pem.decode())
    try:
        _, writer = await asyncio.open_connection(LOOPBACK, port, ssl=context, server_hostname=NAME)
    except ConnectionRefusedError:
        return 0
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return x509.load_der_x509_certificate(shown).serial_number


async def _until_shown(serial: int, port: int, authority: Authority) -> None:
    async with asyncio.timeout(60):
        while await _serial(port, authority) != serial:  # noqa: ASYNC110 - polls a server, which sets no event
            await asyncio.sleep(0.02)


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    return Tls(tmp_path / "tls.crt", tmp_path / "tls.key")


async def test_new_connections_get_the_renewed_certificate(tls: Tls) -> None:
    authority = Authority()
    first = _write(authority, tls)
    async with _serving(tls) as port:
        await _until_shown(first, port, authority)
        second = _write(authority, tls)
        assert second != first
        await _until_shown(second, port, authority)


async def test_a_certificate_without_its_matching_key_does_not_replace_the_served_one(tls: Tls) -> None:
    authority = Authority()
    first = _write(authority, tls)
    async with _serving(tls) as port:
        await _until_shown(first, port, authority)
        tls.certificate.write_bytes(authority.issue(NAME, dns=[NAME]).public_pem)
        await asyncio.sleep(0.2)  # ten checks of the files; the test expects no change
        assert await _serial(port, authority) == first
        tls.private_key.unlink()
        third = _write(authority, tls)
        await _until_shown(third, port, authority)


async def test_the_expiry_of_each_loaded_certificate_is_reported(tls: Tls) -> None:
    reported: list[float] = []
    ends = [datetime(year, 1, 1, tzinfo=UTC) for year in (2040, 2060)]
    _write_until(ends[0], tls)
    async with _serving(tls, reported.append):
        await _until_reported(reported, ends[0])
        _write_until(ends[1], tls)
        await _until_reported(reported, ends[1])
    assert list(dict.fromkeys(reported)) == [end.timestamp() for end in ends]


def _write_until(end: datetime, tls: Tls) -> None:
    pair = trustme.CA().issue_cert(NAME, not_after=end)
    tls.certificate.write_bytes(pair.cert_chain_pems[0].bytes())
    tls.private_key.write_bytes(pair.private_key_pem.bytes())


async def _until_reported(reported: list[float], end: datetime) -> None:
    async with asyncio.timeout(60):
        while end.timestamp() not in reported:  # noqa: ASYNC110 - the server sets no event
            await asyncio.sleep(0.02)


async def test_a_missing_file_is_reported_at_startup(tls: Tls) -> None:
    with pytest.raises(FileNotFoundError, match=r"tls\.crt"):
        await serve(FastAPI(), f"{LOOPBACK}:{free_port()}", tls)
