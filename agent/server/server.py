"""The agent's HTTP server: it is given a socket that is open already, so that a taken port is told before the work."""

import asyncio
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from shared.server.serve import Server

_TICK_S = 1.0


class AgentServer(Server):
    """Looks once a second whether it shall end, where uvicorn's own looks ten times: an idle node pays for each."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Let the running requests end, and `serve` with them."""
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        """Return when it shall end; the time that answers carry is renewed with each look."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._stopping.wait()


def build_server(app: FastAPI) -> AgentServer:
    """Return a server for the app, to be given a listening socket; quiet: the program's own log says what matters."""
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2)
    return AgentServer(config)
