"""The sockets, called over gRPC as kubelet does, with a fake service."""

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from agent.dra.cdi_edits import PreparedDevice
from agent.dra.kubelet_claim import KubeletClaim
from agent.dra.kubelet_server import DeviceHealth, KubeletServer
from agent.dra.messages import DRA, message_class


class _Together:
    """Finishes no claim before a second one has arrived."""

    def __init__(self) -> None:
        self._both = asyncio.Barrier(2)

    async def prepare(self, claim: KubeletClaim) -> Sequence[PreparedDevice]:
        await self.unprepare(claim)
        return []

    async def unprepare(self, _claim: KubeletClaim) -> None:
        async with asyncio.timeout(20):
            await self._both.wait()

    def health(self) -> Sequence[DeviceHealth]:
        return []


async def _call(socket: Path, method: str, *uids: str) -> dict[str, str]:
    """Return the error of each claim."""
    claims = [message_class(DRA, "Claim")(namespace="ns", name=uid, uid=uid) for uid in uids]
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        rpc: Any = channel.unary_unary(
            f"/{DRA}.DRAPlugin/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_class(DRA, f"{method}Response").FromString,
        )
        answer = await rpc(message_class(DRA, f"{method}Request")(claims=claims))
    return {uid: each.error for uid, each in answer.claims.items()}


@pytest.fixture
def kubelet() -> Iterator[Path]:
    """A directory with a short path, because the path of a socket may have 107 bytes."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


async def test_a_claim_does_not_wait_for_another_in_the_same_call(kubelet: Path) -> None:
    """Kubelet waits 45 s for the whole call, and each claim may take 40 s."""
    sockets = KubeletServer(kubelet, _Together())
    await sockets.start()
    try:
        for method in ("NodePrepareResources", "NodeUnprepareResources"):
            assert await _call(sockets.endpoint, method, "a", "b") == {"a": "", "b": ""}
    finally:
        await sockets.stop()
