import asyncio
import socket

import httpx
import pytest
from fastapi import FastAPI

from agent.server.server import build_server


@pytest.mark.looptime
async def test_the_server_ticks_every_second_and_stops_at_once_on_request() -> None:
    server, looks = build_server(FastAPI()), list[float]()
    look = server.on_tick

    async def looked(counter: int) -> bool:
        looks.append(asyncio.get_running_loop().time())
        return await look(counter)

    server.on_tick = looked  # type: ignore[method-assign]  # watched, not replaced
    serving = asyncio.create_task(server.main_loop())
    await asyncio.sleep(2.5)
    server.stop()
    await serving
    assert looks == pytest.approx([0, 1, 2, 2.5], abs=0.01)
    assert dict(server.server_state.default_headers)[b"date"]


async def test_idle_connections_are_closed_to_make_way_for_new_ones() -> None:
    """Otherwise any pod could use up the agent's open files and memory."""
    app = FastAPI()
    app.add_api_route("/healthz", lambda: "ok")
    server, listener = build_server(app), socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    serving = asyncio.create_task(server.serve([listener]))
    opened = [await asyncio.open_connection(host, port) for _ in range(150)]
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        assert (await http.get(f"http://{host}:{port}/healthz")).json() == "ok"
    assert len(server.server_state.connections) <= 100
    for _, writer in opened:
        writer.transport.abort()
    server.stop()
    await serving
