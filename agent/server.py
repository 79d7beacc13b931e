"""An HTTP server that leaves the process's signals to its owner."""

from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI


class Server(uvicorn.Server):
    """Serves until `should_exit`; the composition root alone reads signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def build_server(app: FastAPI) -> Server:
    """Return a server for the app, to be given a listening socket; quiet: the program's own log says what matters."""
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2)
    return Server(config)
