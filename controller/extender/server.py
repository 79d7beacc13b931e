"""The endpoints for kube-scheduler; a caller that has not authenticated is rejected before its body is read.

Bodies and concurrency are bounded. Errors are answered as in the extender API, so that they reach the pod's events.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import structlog
from fastapi import APIRouter, Request, Response

from controller.admission.callers import Callers
from controller.extender.bind import DeviceBinder
from controller.extender.metrics import ExtenderMetrics
from controller.extender.reserve import NotBound
from controller.extender.service import ExtenderService, Unanswerable
from controller.extender.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
)
from controller.extender.worker import NoAnswerInTime
from controller.manager.requests import BodyTooLargeError, read_body
from shared.kube.collection import UNREADABLE

PREFIX = "/scheduler/{key}"
_LARGEST_BODY_BYTES = 4 * 2**20  # a pod, and the names of 5,000 nodes
_LONGEST_BODY_S = 2.0
_MOST_READING = 32
_MOST_BINDING = 64
_BAD_REQUEST, _TOO_LATE, _TOO_LARGE, _UNAVAILABLE = 400, 408, 413, 503
_NOT_READY = "this replica is still reading the cluster"
_log = structlog.get_logger("extender")
A = TypeVar("A")


class ExtenderServer:
    """Filter, prioritize and bind over HTTP."""

    def __init__(
        self,
        service: ExtenderService,
        binder: DeviceBinder,
        callers: Callers,
        is_ready: Callable[[], bool],
        metrics: ExtenderMetrics,
    ) -> None:
        self._service, self._binder, self._callers = service, binder, callers
        self._is_ready, self._metrics = is_ready, metrics
        self._reading, self._binding = asyncio.Semaphore(_MOST_READING), asyncio.Semaphore(_MOST_BINDING)

    def router(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter(prefix=PREFIX)
        for verb in (self.filter, self.prioritize, self.bind):
            router.add_api_route(f"/{verb.__name__}", verb, methods=["POST"])
        return router

    async def filter(self, request: Request, key: str) -> Response:
        """Answer which nodes a pod fits on."""

        async def answer(args: ExtenderArgs) -> tuple[object, str]:
            try:
                return await self._service.filter(args), "answered"
            except (Unanswerable, NoAnswerInTime) as error:
                return ExtenderFilterResult(error=str(error)), "failed"

        return await self._respond(request, key, "filter", ExtenderArgs, answer)

    async def prioritize(self, request: Request, key: str) -> Response:
        """Answer the priorities of nodes; without an answer in time, all are equal."""

        async def answer(args: ExtenderArgs) -> tuple[object, str]:
            try:
                return await self._service.prioritize(args), "answered"
            except (Unanswerable, NoAnswerInTime):
                return [], "failed"

        return await self._respond(request, key, "prioritize", ExtenderArgs, answer)

    async def bind(self, request: Request, key: str) -> Response:
        """Bind a pod."""

        async def answer(args: ExtenderBindingArgs) -> tuple[object, str]:
            try:
                async with self._binding:
                    await self._binder.bind(args)
            except NotBound as error:
                _log.info("not_bound", namespace=args.pod_namespace, pod=args.pod_name, error=str(error))
                return ExtenderBindingResult(error=str(error)), "refused"
            return ExtenderBindingResult(), "answered"

        return await self._respond(request, key, "bind", ExtenderBindingArgs, answer)

    async def _respond(
        self, request: Request, key: str, verb: str, kind: type[A], answer: Callable[[A], Awaitable[tuple[object, str]]]
    ) -> Response:
        if denial := self._callers.denial(key, {}):
            return _plain(denial.message, denial.status)
        if not self._is_ready():
            return _plain(_NOT_READY, _UNAVAILABLE)
        try:
            async with self._reading, asyncio.timeout(_LONGEST_BODY_S):
                args = msgspec.json.decode(await read_body(request, _LARGEST_BODY_BYTES), type=kind)
        except BodyTooLargeError as error:
            return _plain(str(error), _TOO_LARGE)
        except TimeoutError:
            return _plain(f"the body did not arrive within {_LONGEST_BODY_S:.0f} s", _TOO_LATE)
        except UNREADABLE as error:
            return _plain(f"not what kube-scheduler sends: {error}", _BAD_REQUEST)
        began_s = time.perf_counter()
        found, outcome = await answer(args)
        self._metrics.answered(verb, outcome, time.perf_counter() - began_s)
        return Response(msgspec.json.encode(found), media_type="application/json")


def _plain(message: str, status: int) -> Response:
    """Return a plain-text response and close the connection without reading the rest of the request."""
    return Response(message, status_code=status, media_type="text/plain", headers={"Connection": "close"})
