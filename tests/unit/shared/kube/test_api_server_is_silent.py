"""Messages about an API server that does not answer: where, why and what to do, without class names."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trustme

from shared.kube.errors import Unreachable
from shared.kube.transport import connect

Serve = Callable[..., Awaitable[int]]
_CLASS_NAME = re.compile(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b")


async def message_of(tmp_path: Path, server: str, **cluster: str) -> str:
    """Return the message of the failure of a request to this server."""
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
                "users": [{"name": "u", "user": {"token": "secret"}}],
            }
        )
    )
    async with connect(path) as kube:
        with pytest.raises(Unreachable) as caught:
            await kube.request("GET", "/x", timeout_s=30)
    message = str(caught.value)
    assert server in message
    assert not _CLASS_NAME.search(message), message
    assert "secret" not in message
    return message


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a server that answers every connection with these bytes and closes it; return its port."""
    async with AsyncExitStack() as stack:

        async def start(answer: bytes, context: ssl.SSLContext | None = None) -> int:
            async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.read(1)
                writer.write(answer)
                writer.close()

            server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=context)
            stack.callback(server.close)
            return int(server.sockets[0].getsockname()[1])

        yield start


async def test_a_refused_connection_is_explained(tmp_path: Path, unused_tcp_port: int) -> None:
    message = await message_of(tmp_path, f"http://127.0.0.1:{unused_tcp_port}")
    assert "connection refused; check that it is running" in message


async def test_an_unknown_host_name_is_explained(tmp_path: Path) -> None:
    assert "the host name nobody.invalid cannot be resolved" in await message_of(
        tmp_path, "https://nobody.invalid:6443"
    )


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", b"220 smtp\r\n\r\n"])
async def test_an_incomplete_answer_is_explained(tmp_path: Path, serve: Serve, answer: bytes) -> None:
    port = await serve(answer)
    assert "; check that" in await message_of(tmp_path, f"http://127.0.0.1:{port}")


async def test_a_port_without_tls_is_explained(tmp_path: Path, serve: Serve) -> None:
    port = await serve(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert "it may not be an https port" in await message_of(tmp_path, f"https://127.0.0.1:{port}")


async def test_an_untrusted_certificate_is_explained(tmp_path: Path, serve: Serve) -> None:
    mine, theirs = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.issue_cert("127.0.0.1").configure_cert(context)
    mine.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    port = await serve(b"", context)
    server = f"https://127.0.0.1:{port}"
    message = await message_of(tmp_path, server, **{"certificate-authority": str(tmp_path / "ca.crt")})
    assert "its certificate is not trusted" in message
    assert "CA" in message


async def test_an_invalid_address_is_explained(tmp_path: Path) -> None:
    assert "the address is not a URL; correct it" in await message_of(tmp_path, "not a url")
