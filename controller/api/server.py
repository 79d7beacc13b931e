"""The HTTPS surface for agents: thin routes over the desk. The messages are in shared/api/wire.py."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import structlog
from fastapi import APIRouter, Request, Response

from controller.api.authenticate import Agent, Authenticator, DeniedError
from controller.api.desk import Desk
from controller.api.leader import Leader
from controller.progress import ProgressBook
from shared.api.wire import CredentialsRequest, Problem, ProgressReport
from shared.errors import LarderError, NotGranted, SourceNotFound
from shared.kube.errors import KubeError

_log = structlog.get_logger()
_LARGEST_BODY_BYTES = 2**20
_JSON = "application/json"
M = TypeVar("M")


class _BadRequestError(Exception):
    """The body is not the message that the route takes."""


@dataclass(frozen=True, slots=True)
class AgentApi:
    """The routes, and who stands behind them."""

    authenticator: Authenticator
    desk: Desk
    progress: ProgressBook
    leader: Leader
    is_leading: Callable[[], bool]

    def router(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter(prefix="/v1")
        router.add_api_route("/manifests/{digest}", self._manifest, methods=["GET"])
        router.add_api_route("/credentials", self._credentials, methods=["POST"])
        router.add_api_route("/progress", self._progress, methods=["POST"])
        return router

    async def _manifest(self, digest: str, request: Request) -> Response:
        try:
            agent = await self._agent(request)
            return Response(await self.desk.manifest(agent, digest), media_type=_JSON)
        except _EXPECTED as error:
            return _problem(error)

    async def _credentials(self, request: Request) -> Response:
        try:
            agent = await self._agent(request)
            wanted = await _message(request, CredentialsRequest)
            given = await self.desk.credentials(agent, wanted)
            return Response(msgspec.json.encode(given), media_type=_JSON, headers={"Cache-Control": "no-store"})
        except _EXPECTED as error:
            return _problem(error)

    async def _progress(self, request: Request) -> Response:
        try:
            agent = await self._agent(request)
            report = await _message(request, ProgressReport)
            if self.is_leading():
                self.progress.report(agent.node, report.entries)
                return Response(status_code=204)
            if request.headers.get("Larder-Forwarded"):
                return _answer(503, "Unreachable", "this replica leads no more; send it again")
            header = request.headers.get("Authorization", "")
            return Response(status_code=await self.leader.forward("/v1/progress", await request.body(), header))
        except _EXPECTED as error:
            return _problem(error)

    async def _agent(self, request: Request) -> Agent:
        return await self.authenticator.agent_of(request.headers.get("Authorization", ""))


_EXPECTED = (DeniedError, LarderError, KubeError, _BadRequestError)


async def _message(request: Request, kind: type[M]) -> M:
    body = await request.body()
    if len(body) > _LARGEST_BODY_BYTES:
        raise _BadRequestError(f"the body has {len(body)} bytes, over {_LARGEST_BODY_BYTES}")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise _BadRequestError(f"the body is no {kind.__name__}: {error}") from error


def _problem(error: Exception) -> Response:
    match error:
        case DeniedError():
            return _answer(401, "Unauthenticated", str(error))
        case _BadRequestError():
            return _answer(400, "BadRequest", str(error))
        case SourceNotFound():
            return _answer(404, error.reason, str(error))
        case NotGranted() | LarderError():
            return _answer(403, error.reason, str(error))
        case _:
            _log.warning("api_server_trouble", error=str(error))
            return _answer(503, "Unreachable", "the Kubernetes API does not answer; try again")


def _answer(code: int, reason: str, message: str) -> Response:
    return Response(msgspec.json.encode(Problem(reason, message)), status_code=code, media_type=_JSON)
