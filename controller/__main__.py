"""Entry point of the controller: settings, then the manager with every feature, one task group, one exit path."""

import asyncio
import os
import signal
import socket
import sys
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack

import structlog
from prometheus_client import disable_created_metrics

from controller.admission.callers import Callers, InvalidKeysError, KeyFile
from controller.agentapi.leader import LeaderClient
from controller.downloads.job import source_environment
from controller.features import FEATURES
from controller.replica import LEASE, Replica
from controller.settings import ControllerSettings
from shared.ca_reload import CaReloader
from shared.errors import InvalidSettings
from shared.exit_codes import failure_line
from shared.kube.transport import connect
from shared.log import configure_logging
from shared.server.serve import Tls, serve
from shared.sources.settings import settings_from_environ

_log = structlog.get_logger()


def _callers(settings: ControllerSettings) -> Callers:
    if settings.admission_keys is None:
        raise SystemExit("InvalidSettings: LARDER_ADMISSION_KEYS must name the file with the path keys of admission")
    try:
        keys = KeyFile(settings.admission_keys)
    except (OSError, InvalidKeysError) as error:
        raise SystemExit(f"InvalidSettings: LARDER_ADMISSION_KEYS: {error}") from error
    return Callers(keys, settings.admission_client_ca is not None, settings.client_names)


async def run(settings: ControllerSettings, environ: Mapping[str, str]) -> None:
    """Run one replica until SIGTERM or SIGINT."""
    if settings.certificate is None or settings.private_key is None:
        raise SystemExit("InvalidSettings: LARDER_CERTIFICATE and LARDER_PRIVATE_KEY must name PEM files")
    try:
        sources = settings_from_environ(environ)
    except InvalidSettings as error:
        raise SystemExit(failure_line(error)) from error
    callers = _callers(settings)
    identity = f"{settings.identity or socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with (
        connect(settings.kubeconfig, user_agent="larder-controller") as kube,
        connect(settings.kubeconfig, user_agent="larder-controller-election") as election_kube,
        AsyncExitStack() as closing,
    ):
        replica = Replica(settings, sources, kube, identity, source_environment(environ), election_kube)
        replica.add(FEATURES)
        leader = LeaderClient(
            kube,
            f"/apis/coordination.k8s.io/v1/namespaces/{settings.namespace}/leases/{LEASE}",
            CaReloader(settings.ca),
            settings.tls_name,
            replica.clock,
        )
        closing.push_async_callback(leader.close)
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(replica.manager.run()),
                tasks.create_task(
                    serve(
                        replica.api_app(leader, callers),
                        settings.listen,
                        Tls(settings.certificate, settings.private_key, settings.admission_client_ca),
                        on_expiry=replica.metrics.certificate_end.set,
                    )
                ),
            ]
            await stop.wait()
            _log.info("stopping")
            for task in running:
                task.cancel()


def main() -> None:
    """Read the settings and run."""
    configure_logging()
    disable_created_metrics()  # type: ignore[no-untyped-call]  # omits the *_created series
    try:
        settings = ControllerSettings(_cli_parse_args=True)  # type: ignore[call-arg]  # not a field
    except ValueError as error:
        sys.exit(f"InvalidSettings: {error}")
    configure_logging(settings.log_level)
    asyncio.run(run(settings, os.environ))


if __name__ == "__main__":
    main()
