"""A fake kubelet, which finds drivers by their sockets, registers them, and calls them over gRPC."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from agent.dra.messages import DRA, HEALTH, REGISTRATION, message_class
from rig.processes import wait_until
from shared.dra import DRIVER

SOON_S = 60.0
_CALL_S = 45.0  # as kubelet


@dataclass
class DraKubelet:
    """The kubelet of one node."""

    folder: Path

    @property
    def registration(self) -> Path:
        return self.folder / "plugins_registry" / f"{DRIVER}-reg.sock"

    def register(self) -> Any:
        """Register the driver once its socket exists; return its plugin info."""
        wait_until(self.registration.exists, SOON_S, "the driver's socket")
        info = self.call(self.registration, REGISTRATION, "Registration", "GetInfo", "InfoRequest", "PluginInfo")
        self._notify(plugin_registered=True)
        return info

    def refuse(self, error: str) -> None:
        """Report to the driver that its registration failed."""
        wait_until(self.registration.exists, SOON_S, "the driver's socket")
        self._notify(plugin_registered=False, error=error)

    def prepare(self, *claims: dict[str, Any]) -> Any:
        """Prepare claims; return the answers by uid."""
        return self._claims("NodePrepareResources", claims)

    def unprepare(self, *claims: dict[str, Any]) -> Any:
        """Unprepare claims; return the answers by uid."""
        return self._claims("NodeUnprepareResources", claims)

    def health(self) -> Iterator[dict[str, str]]:
        """Yield each message of the health stream: the problem of each device, empty for a healthy one."""
        with grpc.insecure_channel(f"unix:{self._endpoint}") as channel:
            watch = channel.unary_stream(
                f"/{HEALTH}.DRAResourceHealth/NodeWatchResources",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=message_class(HEALTH, "NodeWatchResourcesResponse").FromString,
            )
            for answer in watch(message_class(HEALTH, "NodeWatchResourcesRequest")(), timeout=SOON_S):
                yield {each.device.device_name: each.message for each in answer.devices}

    def _notify(self, **status: Any) -> None:
        self.call(
            self.registration, REGISTRATION, "Registration", "NotifyRegistrationStatus",
            "RegistrationStatus", "RegistrationStatusResponse", **status,
        )  # fmt: skip

    def _claims(self, method: str, claims: tuple[dict[str, Any], ...]) -> Any:
        asked = [
            message_class(DRA, "Claim")(
                namespace=c["metadata"]["namespace"], name=c["metadata"]["name"], uid=c["metadata"]["uid"]
            )
            for c in claims
        ]
        answer = self.call(
            self._endpoint, DRA, "DRAPlugin", method, f"{method}Request", f"{method}Response", claims=asked
        )
        return answer.claims

    @property
    def _endpoint(self) -> Path:
        return self.folder / "plugins" / DRIVER / "dra.sock"

    def call(
        self, socket: Path, package: str, service: str, method: str, asks: str, answers: str, **fields: Any
    ) -> Any:
        """Call a method; retry while the driver is not listening."""
        give_up = time.monotonic() + SOON_S
        while True:
            with grpc.insecure_channel(f"unix:{socket}") as channel:
                rpc = channel.unary_unary(
                    f"/{package}.{service}/{method}",
                    request_serializer=lambda message: message.SerializeToString(),
                    response_deserializer=message_class(package, answers).FromString,
                )
                try:
                    return rpc(message_class(package, asks)(**fields), timeout=_CALL_S, wait_for_ready=True)
                except grpc.RpcError:
                    if time.monotonic() > give_up:
                        raise
