"""The agent's HTTP server: it is given a socket that is open already, so that a taken port is told before the work."""

import uvicorn
from fastapi import FastAPI

from shared.serve import Server


def build_server(app: FastAPI) -> Server:
    """Return a server for the app, to be given a listening socket; quiet: the program's own log says what matters."""
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2)
    return Server(config)
