"""The HTTPS routes for agents: thin wrappers of the AgentService; the messages are in shared/api/wire.py."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, assert_never

import msgspec
import structlog
from fastapi import APIRouter, Request, Response

from controller.agentapi.authenticator import AgentIdentity, DeniedError
from controller.agentapi.leader import LeaderClient
from controller.agentapi.request_guard import RequestGuard, TooManyError
from controller.agentapi.service import AgentService
from controller.manager.asgi import BodyTooLargeError, read_body
from controller.state.progress import ProgressTracker
from shared.api.wire import CredentialsRequest, Problem, ProgressReport
from shared.decode_errors import DECODE_ERRORS
from shared.errors import LarderError, SourceChanged
from shared.kube.errors import KubeError

_log = structlog.get_logger()
_LARGEST_BODY_BYTES = 2**20
_JSON = "application/json"
M = TypeVar("M")


class _BadRequestError(Exception):
    """The body is not the message that the route expects."""


@dataclass(frozen=True, slots=True)
class AgentApi:
    """The routes and the services behind them."""

    guard: RequestGuard
    service: AgentService
    progress: ProgressTracker
    leader: LeaderClient
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
            agent = await self._admit("manifests", request)
            return Response(await self.service.manifest(agent, digest), media_type=_JSON)
        except _EXPECTED as error:
            return _problem(error)

    async def _credentials(self, request: Request) -> Response:
        try:
            agent = await self._admit("credentials", request)
            message = _decoded(await read_body(request, _LARGEST_BODY_BYTES), CredentialsRequest)
            response = await self.service.credentials(agent, message)
            return Response(msgspec.json.encode(response), media_type=_JSON, headers={"Cache-Control": "no-store"})
        except _EXPECTED as error:
            return _problem(error)

    async def _progress(self, request: Request) -> Response:
        try:
            agent = await self._admit("progress", request, reviewed=False)
            body = await read_body(request, _LARGEST_BODY_BYTES)
            report = _decoded(body, ProgressReport)
            if self.is_leading():
                self.progress.report(agent.node, report.entries, self.service.cluster.listed.sizes_on(agent.node))
                return Response(status_code=204)
            if request.headers.get("Larder-Forwarded"):
                return _answer(503, "Unreachable", "this replica is no longer the leader; send the request again")
            answer = await self.leader.forward("/v1/progress", body, _authorization(request))
            headers = {"Retry-After": answer.retry_after} if answer.retry_after else None
            media_type = _JSON if answer.body else None
            return Response(answer.body, status_code=answer.status, headers=headers, media_type=media_type)
        except _EXPECTED as error:
            return _problem(error)

    async def _admit(self, route: str, request: Request, *, reviewed: bool = True) -> AgentIdentity:
        address = request.client.host if request.client else ""
        return await self.guard.admit(route, _authorization(request), address, reviewed=reviewed)


_EXPECTED = (DeniedError, TooManyError, LarderError, _BadRequestError, BodyTooLargeError)


def _authorization(request: Request) -> str:
    return request.headers.get("Authorization", "")


def _decoded(body: bytes, kind: type[M]) -> M:
    try:
        return msgspec.json.decode(body, type=kind)
    except DECODE_ERRORS as error:
        raise _BadRequestError(f"the body is not a {kind.__name__}: {error}") from error


def _problem(error: DeniedError | TooManyError | LarderError | _BadRequestError | BodyTooLargeError) -> Response:
    match error:
        case TooManyError():
            return _answer(429, "RateLimited", str(error), {"Retry-After": str(math.ceil(error.after_s))})
        case DeniedError():
            return _answer(401, "Unauthenticated", str(error))
        case _BadRequestError():
            return _answer(400, "BadRequest", str(error))
        case BodyTooLargeError():
            return _answer(413, "TooLarge", str(error))
        case KubeError():
            _log.warning("api_server_unreachable", error=str(error))
            return _answer(503, "Unreachable", "the Kubernetes API or the leader does not answer; try again")
        case SourceChanged():
            return _answer(404, error.reason, str(error))
        case LarderError():
            return _answer(403, error.reason, str(error))
        case _:
            assert_never(error)


def _answer(code: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    body = msgspec.json.encode(Problem(reason, message))
    return Response(body, status_code=code, headers=headers, media_type=_JSON)
