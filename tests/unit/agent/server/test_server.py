import asyncio

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
