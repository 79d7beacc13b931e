"""The driver's two sockets: kubelet discovers one in its plugin directory, and calls the driver on the other."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import grpc
import structlog

from agent.dra.cdi_edits import PreparedDevice
from agent.dra.errors import PrepareRefused
from agent.dra.kubelet_claim import KubeletClaim
from agent.dra.messages import DRA, HEALTH, HEALTHY, REGISTRATION, UNHEALTHY, message_class
from shared.dra import DRIVER
from shared.errors import LarderError, StoreFailure

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_VERSIONS = ("v1.DRAPlugin",)
_PREPARE_S = 40.0  # kubelet waits 45
_HEALTH_S = 10.0  # kubelet reports the health as unknown after 30 s without an update
_STOP_S = 1.0
_LONGEST_MESSAGE = 1000
_LONGEST_PATH = 107  # of a socket, in bytes
_Work: TypeAlias = Callable[[KubeletClaim], Awaitable[Sequence[PreparedDevice] | None]]
_Answer: TypeAlias = tuple[Sequence[PreparedDevice] | None, str]  # devices, and an error message

_PluginInfo = message_class(REGISTRATION, "PluginInfo")
_RegistrationResponse = message_class(REGISTRATION, "RegistrationStatusResponse")
_Device = message_class(DRA, "Device")
_PrepareResponse = message_class(DRA, "NodePrepareResourcesResponse")
_UnprepareResponse = message_class(DRA, "NodeUnprepareResourcesResponse")
_HealthResponse = message_class(HEALTH, "NodeWatchResourcesResponse")


class DeviceHealth(NamedTuple):
    """Whether a device works; `problem` is empty if it does."""

    pool: str
    device: str
    problem: str = ""


class ClaimService(Protocol):
    """The port behind the sockets: the operations that kubelet calls."""

    async def prepare(self, claim: KubeletClaim) -> Sequence[PreparedDevice]:
        """Make the devices of a claim available to containers; may be called again.

        Args:
            claim: The claim as kubelet names it.

        Returns:
            The devices of this driver, with their CDI ids.

        Raises:
            LarderError: They are not available; kubelet tries again.
        """

    async def unprepare(self, claim: KubeletClaim) -> None:
        """Undo `prepare`; safe if the claim was never prepared.

        Args:
            claim: The claim as kubelet names it; it may have been deleted.

        Raises:
            LarderError: It failed; kubelet tries again.
        """

    def health(self) -> Sequence[DeviceHealth]:
        """Return the health of all devices."""


@dataclass(slots=True)
class KubeletServer:
    """Serves kubelet; `registered` is set while kubelet accepts the driver."""

    kubelet: Path
    service: ClaimService
    registered: asyncio.Event = field(default_factory=asyncio.Event)
    on_registered: Callable[[], None] = lambda: None
    on_refused: Callable[[str], None] = lambda _: None  # with a message
    on_answer: Callable[[str, str, float], None] = lambda *_: None  # verb, outcome and seconds of each claim
    _servers: dict[Path, tuple[Any, os.stat_result]] = field(default_factory=dict, init=False)

    @property
    def endpoint(self) -> Path:
        """The socket on which kubelet calls the driver."""
        return self.kubelet / "plugins" / DRIVER / "dra.sock"

    @property
    def registration(self) -> Path:
        """The registration socket, in the directory that kubelet watches."""
        return self.kubelet / "plugins_registry" / f"{DRIVER}-reg.sock"

    async def start(self) -> None:
        """Open both sockets, the driver's first. Raises StoreFailure."""
        plugin = _methods(DRA, "DRAPlugin", NodePrepareResources=self._prepare, NodeUnprepareResources=self._unprepare)
        watch = grpc.unary_stream_rpc_method_handler(
            self._watch_health,
            request_deserializer=message_class(HEALTH, "NodeWatchResourcesRequest").FromString,
            response_serializer=_HealthResponse.SerializeToString,
        )
        health = grpc.method_handlers_generic_handler(f"{HEALTH}.DRAResourceHealth", {"NodeWatchResources": watch})
        self._servers[self.endpoint] = await _serve(self.endpoint, (plugin, health))
        registration = _methods(
            REGISTRATION, "Registration", GetInfo=self._get_info, NotifyRegistrationStatus=self._notify
        )
        self._servers[self.registration] = await _serve(self.registration, (registration,))

    def check(self) -> None:
        """Raise StoreFailure if an open socket is no longer at its path, so that kubelet cannot call this driver."""
        for path, (_, ours) in self._servers.items():
            if not _is_at(path, ours):
                raise StoreFailure(f"{path} was removed or replaced, perhaps by another driver on this node")

    async def stop(self) -> None:
        """Close both sockets and remove those not replaced by another driver; running calls get one more second."""
        for path, (server, ours) in reversed(self._servers.items()):
            with suppress(OSError):
                if _is_at(path, ours):
                    path.unlink()
            await server.stop(_STOP_S)

    async def _get_info(self, _request: Any, _context: Any) -> Any:  # noqa: ANN401 - grpc has no types
        return _PluginInfo(
            type="DRAPlugin", name=DRIVER, endpoint=str(self.endpoint), supported_versions=list(_VERSIONS)
        )

    async def _notify(self, request: Any, _context: Any) -> Any:  # noqa: ANN401 - grpc has no types
        if request.plugin_registered:
            _LOG.info("dra_registered", driver=DRIVER)
            self.registered.set()
            self.on_registered()
        else:
            self.registered.clear()
            self.on_refused(f"kubelet refuses to register the driver: {request.error}")
        return _RegistrationResponse()

    async def _prepare(self, request: Any, _context: Any) -> Any:  # noqa: ANN401 - grpc has no types
        response = _PrepareResponse()
        for uid, (prepared, error) in (await self._attempts("prepare", request, self.service.prepare)).items():
            answer = response.claims[uid]
            answer.SetInParent()
            answer.error = error
            answer.devices.extend(_device(each) for each in prepared or ())
        return response

    async def _unprepare(self, request: Any, _context: Any) -> Any:  # noqa: ANN401 - grpc has no types
        response = _UnprepareResponse()
        for uid, (_, error) in (await self._attempts("unprepare", request, self.service.unprepare)).items():
            answer = response.claims[uid]  # kubelet expects an answer for every claim, prepared or not
            answer.SetInParent()
            answer.error = error
        return response

    async def _attempts(self, verb: str, request: Any, work: _Work) -> dict[str, _Answer]:  # noqa: ANN401 - as above
        """Return the answers by uid. All claims are attempted at once, because kubelet waits for one answer to all."""
        claims = [_claim_ref(claim) for claim in request.claims]
        answers = await asyncio.gather(*(self._attempt(verb, claim, work) for claim in claims))
        return {claim.uid: answer for claim, answer in zip(claims, answers, strict=True)}

    async def _attempt(self, verb: str, claim: KubeletClaim, work: _Work) -> _Answer:
        began_s = time.monotonic()
        outcome, prepared, message = await _outcome(claim, work)
        self.on_answer(verb, outcome, time.monotonic() - began_s)
        return prepared, message

    async def _watch_health(self, _request: Any, _context: Any) -> AsyncIterator[Any]:  # noqa: ANN401 - as above
        while True:
            yield _health_message(self.service.health(), int(time.time()))
            await asyncio.sleep(_HEALTH_S)


async def _outcome(claim: KubeletClaim, work: _Work) -> tuple[str, Sequence[PreparedDevice] | None, str]:
    """Return the outcome, with the devices or an error message; one claim never fails another."""
    try:
        async with asyncio.timeout(_PREPARE_S):
            return "answered", await work(claim), ""
    except PrepareRefused as error:
        outcome, message = "refused", str(error)
    except LarderError as error:
        outcome, message = "failed", str(error)
    except TimeoutError:
        outcome, message = "failed", f"not done within {_PREPARE_S:g} s; kubelet retries"
    except Exception as error:  # noqa: BLE001 - kubelet must get an answer for every claim
        _LOG.exception("dra_failed", claim=str(claim))
        outcome, message = "failed", f"{type(error).__name__}; the log of larder-dra has more"
    _LOG.warning("dra_refused", claim=str(claim), uid=claim.uid, message=message)
    return outcome, None, message[:_LONGEST_MESSAGE]


def _claim_ref(claim: Any) -> KubeletClaim:  # noqa: ANN401 - grpc has no types
    return KubeletClaim(claim.namespace, claim.name, claim.uid)


def _device(prepared: PreparedDevice) -> Any:  # noqa: ANN401 - grpc has no types
    allocated = prepared.allocated
    device = _Device(
        request_names=[allocated.main_request],  # kubelet compares it with what containers name
        pool_name=allocated.pool,
        device_name=allocated.device,
        cdi_device_ids=[prepared.cdi_id],
    )
    if allocated.share_id:
        device.share_id = allocated.share_id
    return device


def _health_message(devices: Sequence[DeviceHealth], now_s: int) -> Any:  # noqa: ANN401 - grpc has no types
    response = _HealthResponse()
    for each in devices:
        added = response.devices.add(
            health=UNHEALTHY if each.problem else HEALTHY, last_updated_time=now_s, message=each.problem
        )
        added.device.pool_name, added.device.device_name = each.pool, each.device
    return response


_REQUESTS = {
    "GetInfo": "InfoRequest",
    "NotifyRegistrationStatus": "RegistrationStatus",
    "NodePrepareResources": "NodePrepareResourcesRequest",
    "NodeUnprepareResources": "NodeUnprepareResourcesRequest",
}


def _methods(package: str, service: str, **methods: Callable[[Any, Any], Awaitable[Any]]) -> Any:  # noqa: ANN401
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            method,
            request_deserializer=message_class(package, _REQUESTS[name]).FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
        for name, method in methods.items()
    }
    return grpc.method_handlers_generic_handler(f"{package}.{service}", handlers)


async def _serve(path: Path, handlers: Sequence[Any]) -> tuple[Any, os.stat_result]:
    """Open a socket, replacing any other at its path; return the server and the socket's identity.

    When gRPC stops, it removes whatever is at its path, so it opens another one, which kubelet ignores.
    """
    opened = path.with_name(f".{path.name}")
    if len(str(opened).encode()) > _LONGEST_PATH:
        raise StoreFailure(f"{path} is too long for a socket; choose a shorter --kubelet")
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(handlers)
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        server.add_insecure_port(f"unix:{opened}")
        await server.start()
        ours = opened.stat()
        opened.replace(path)
    except OSError as error:
        raise StoreFailure(f"cannot open {path}: {error.strerror}; run the driver as the directory's owner") from error
    except RuntimeError as error:
        raise StoreFailure(f"cannot listen on {path}: {error}") from error
    return server, ours


def _is_at(path: Path, ours: os.stat_result) -> bool:
    """Return whether our socket is still at its path; the inode number of an open socket is not reused."""
    try:
        return os.path.samestat(path.stat(), ours)
    except OSError:
        return False
