"""The agent's HTTP server; it takes an open socket, so a taken port is reported before any work starts."""

import asyncio

import uvicorn
from fastapi import FastAPI

from agent.event_wait import wait_or_timeout
from shared.server.limits import ServerLimits, limited_protocol
from shared.server.serve import Server

_TICK_S = 1.0
_CONNECTIONS = 100  # from kubelet, monitoring and people; but any pod may connect


class AgentServer(Server):
    """Checks for shutdown once a second; uvicorn's ten checks a second would burden idle nodes."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Let running requests finish, then end `serve`."""
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        """Run until shutdown; each check also updates the Date header of responses."""
        while not await self.on_tick(0):
            await wait_or_timeout(self._stopping, _TICK_S)


def build_server(app: FastAPI) -> AgentServer:
    """Return a server for the app; it logs nothing, since the agent's own log has what matters."""
    config = uvicorn.Config(
        app,
        http=limited_protocol(ServerLimits(connections=_CONNECTIONS)),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
    )
    return AgentServer(config)
