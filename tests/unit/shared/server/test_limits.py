"""Clients that are silent, slow, or many."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from controller.admission.callers import Callers
from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.server import VALIDATE_PATH, admission_app, path_with
from controller.admission.settings import AdmissionSettings
from rig.larder.programs import ADMISSION_KEY
from rig.pki import Authority
from rig.ports import LOOPBACK, free_port
from shared.server.limits import ServerLimits
from shared.server.serve import Tls, serve

NAME = "larder.larder-system.svc"
REVIEW: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "1", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Pod"}},
}
GO_IDLE_S = 90  # after which the API server and the scheduler close idle connections
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def serving(app: FastAPI, limits: ServerLimits, tls: Tls | None = None) -> AsyncIterator[int]:
    port = free_port()
    task = asyncio.create_task(serve(app, f"{LOOPBACK}:{port}", tls, limits=limits))
    try:
        await until(lambda: listens(port))
        yield port
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110 - polls a server, which sets no event
            await asyncio.sleep(0.02)


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


def echo() -> FastAPI:
    app = FastAPI()

    @app.post("/")
    async def size(request: Request) -> dict[str, Any]:
        return {"bytes": len(await request.body()), "client": request.client.host if request.client else ""}

    return app


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Return whether the server closes the connection without sending anything more."""
    async with asyncio.timeout(60):
        try:
            return await reader.read() == b""
        except ConnectionResetError:
            return True


async def hang_up(streams: list[Streams]) -> None:
    for _, writer in streams:
        writer.transport.abort()
    await asyncio.sleep(0)


async def test_two_hundred_idle_connections_do_not_stop_reviews(tmp_path: Path) -> None:
    authority, tls = Authority(), Tls(tmp_path / "tls.crt", tmp_path / "tls.key")
    pair = authority.issue(NAME, dns=[NAME])
    tls.certificate.write_bytes(pair.public_pem)
    tls.private_key.write_bytes(pair.private_pem)
    context = ssl.create_default_context(cadata=authority.ca_pem.decode())
    app = admission_app(MemoryCatalog(), AdmissionSettings(), Callers(lambda: (ADMISSION_KEY,)))
    async with serving(app, ServerLimits(request_s=60, connections=150), tls) as port:
        opened: list[Streams] = []
        for _ in range(200):
            opened.append(await asyncio.open_connection(LOOPBACK, port, ssl=context, server_hostname=NAME))
            silent = await asyncio.open_connection(LOOPBACK, port)
            opened.append(silent)
        async with httpx.AsyncClient(verify=context, trust_env=False, timeout=60) as http:
            extensions = {"sni_hostname": NAME}
            for _ in range(3):
                url = f"https://{LOOPBACK}:{port}{path_with(ADMISSION_KEY, VALIDATE_PATH)}"
                answer = await http.post(url, json=REVIEW, extensions=extensions)
                assert answer.json()["response"] == {"uid": "1", "allowed": True}
        assert await is_closed(opened[0][0]), "the connection that had been idle longest was closed"
        await hang_up(opened)


async def test_idle_answered_connections_are_closed_to_make_way_for_new_ones() -> None:
    async with serving(echo(), ServerLimits(request_s=60, connections=5)) as port:
        opened: list[Streams] = []
        for _ in range(5):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n")
            opened.append((reader, writer))
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            assert (await http.get(f"http://{LOOPBACK}:{port}/")).status_code
        await hang_up(opened)


@pytest.mark.looptime
async def test_a_connection_stays_open_longer_than_clients_in_go_keep_it_and_not_for_ever() -> None:
    """Otherwise a review sent at the moment of closing would be lost; uvicorn alone closes after five seconds."""
    async with serving(echo(), ServerLimits()) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        for pause_s in (GO_IDLE_S, 0):
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab")
            assert b'"bytes":2' in await reader.readuntil(b"}")
            await asyncio.sleep(pause_s)
        assert await reader.read() == b"", "closed in the end"
        await hang_up([(reader, writer)])


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow:", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab"],
    ids=["nothing", "half a header", "half a body"],
)
async def test_a_connection_whose_request_never_completes_is_closed(sent: bytes) -> None:
    async with serving(echo(), ServerLimits(request_s=0.2)) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(sent)
        assert await is_closed(reader)
        await hang_up([(reader, writer)])


async def test_a_connection_whose_second_request_trickles_in_is_closed() -> None:
    """Bytes that arrive meanwhile do not extend the time limit."""
    async with serving(echo(), ServerLimits(request_s=1)) as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab")
        assert b'"bytes":2' in await reader.readuntil(b"}")

        async def trickle() -> None:
            with suppress(ConnectionError):
                writer.write(b"POST / HTTP/1.1\r\nX-Slow:")
                while not writer.is_closing():
                    writer.write(b"x")
                    await asyncio.sleep(0.05)

        task = asyncio.create_task(trickle())
        assert await is_closed(reader)
        task.cancel()
        await hang_up([(reader, writer)])


async def test_whole_requests_are_answered_one_after_the_other_however_long_the_answer_takes() -> None:
    app, limits = FastAPI(), ServerLimits(request_s=1)

    @app.post("/")
    async def slow(request: Request) -> int:
        await asyncio.sleep(1.2)  # longer than a request may take to arrive
        return len(await request.body())

    async with serving(app, limits) as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        assert [(await http.post(f"http://{LOOPBACK}:{port}/", content=b"x" * n)).json() for n in (0, 7)] == [0, 7]
    assert limits.waiting == {}, "closed connections leave nothing behind"


async def test_a_forwarded_for_header_does_not_change_the_clients_address() -> None:
    async with serving(echo(), ServerLimits()) as port, httpx.AsyncClient(trust_env=False, timeout=60) as http:
        answer = await http.post(f"http://{LOOPBACK}:{port}/", headers={"X-Forwarded-For": "203.0.113.9"})
        assert answer.json()["client"] == LOOPBACK
