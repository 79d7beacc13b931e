"""`larder-agent`: settings, objects, one event loop, one exit path."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import structlog
from pydantic import ValidationError

from agent.linux.malloc import use_one_arena
from agent.linux.open_files import raise_open_files_limit
from agent.runtime import Agent
from agent.server.listen import listen_on
from agent.settings import AgentSettings, read_settings
from agent.store.store import Store
from shared.errors import InvalidSettings, LarderError
from shared.kube.transport import connect
from shared.log import configure_logging
from shared.sources.settings import SourceSettings, settings_from_environ

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_FAILED = 1
_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit status: 1 if it could not continue, 2 for invalid settings."""
    use_one_arena()
    raise_open_files_limit()
    configure_logging()
    try:
        settings = read_settings(sys.argv[1:] if arguments is None else arguments)
        sources = settings_from_environ(os.environ)
        check_local_roots(sources.local_roots, settings.root)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
        sys.stderr.write(f"larder-agent: {wrong}; see larder-agent --help\n")
        return _USAGE
    except (ValueError, InvalidSettings) as error:
        sys.stderr.write(f"larder-agent: {error}\n")
        return _USAGE
    configure_logging(settings.log_level)
    status = 0
    try:
        asyncio.run(_run(settings, sources))
    except* LarderError as group:
        for failure in _flattened(group):
            _LOG.error("agent_failed", node=settings.node_name, reason=failure.reason, message=str(failure))
        status = _FAILED
    return status


def check_local_roots(roots: Iterable[str], store: Path) -> None:
    """Raise ValueError if `local://` could read the store, or if the store lies in a directory that it reads."""
    store = store.resolve()
    for root in map(Path, roots):
        resolved = root.resolve()
        if resolved.is_relative_to(store) or store.is_relative_to(resolved):
            raise ValueError(f"LARDER_LOCAL_ROOTS: {root} and the store {store} overlap; choose another directory")


async def _run(settings: AgentSettings, sources: SourceSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with closing(Store.open(settings.root)) as store, listen_on(settings.listen) as listener:
        host, port = listener.getsockname()[:2]
        _LOG.info("agent_started", node=settings.node_name, store=store.id, listen=f"{host}:{port}")
        async with connect(settings.kubeconfig, settings.service_account, "larder-agent") as kube:
            agent = Agent(settings, sources, store, kube, listener)
            gc.freeze()  # exempt what the imports left, which every full collection would scan, and the one at exit too
            await agent.run(stop)
    _LOG.info("agent_stopped", node=settings.node_name)


def _flattened(group: BaseExceptionGroup[LarderError]) -> Iterator[LarderError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flattened(error)
        else:
            yield error


if __name__ == "__main__":
    sys.exit(main())
