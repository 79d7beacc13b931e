"""`larder dra`: settings, objects, one event loop, one exit path."""

import asyncio
import signal
import sys
from collections.abc import Sequence

import structlog
from pydantic import ValidationError

from agent.dra.driver import Driver
from agent.dra.node_events import NodeEvents
from agent.dra.plugin_allocator import PluginAllocator, device_plugins
from agent.dra.settings import DraSettings, read_settings
from agent.linux.malloc import use_one_arena
from shared.errors import LarderError
from shared.kube.transport import connect
from shared.log import configure_logging

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_FAILED = 1
_USAGE = 2


def main(arguments: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT; return the exit status: 1 if it could not continue, 2 for invalid settings."""
    use_one_arena()
    configure_logging()
    try:
        settings = read_settings(arguments)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
        sys.stderr.write(f"larder dra: {wrong}; see larder dra --help\n")
        return _USAGE
    configure_logging(settings.log_level)
    status = 0
    try:
        asyncio.run(_run(settings))
    except* LarderError as group:
        _LOG.error("dra_failed", node=settings.node_name, messages=[str(error) for error in group.exceptions])
        status = _FAILED
    return status


async def _run(settings: DraSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    _LOG.info("dra_started", node=settings.node_name, store=str(settings.root))
    async with connect(settings.kubeconfig, settings.service_account, "larder-dra") as kube:
        timeout_s = settings.device_timeout_seconds
        plugins = PluginAllocator(lambda: device_plugins(settings.example_devices, timeout_s))
        await Driver(settings, kube, plugins, NodeEvents(kube, settings.node_name).report).run(stop)
    _LOG.info("dra_stopped", node=settings.node_name)
